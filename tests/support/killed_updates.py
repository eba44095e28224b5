"""Updates of a pipeline that are killed: processes of their own, and flows and readers of the test's process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from framework import Pipeline
from framework.foundation.failpoints import VARIABLE, arm_all, disarm
from framework.foundation.processes import kill_session
from framework.run.update.results import UpdateState
from tests.support.reader_processes import killed_after
from tests.support.seeds import fresh_seed

SEED = int(os.environ.get("SLUICE_KILL_SEED", "0")) or fresh_seed()
KILLS = int(os.environ.get("SLUICE_KILLS", "2"))
KILL_MINUTES = float(os.environ.get("SLUICE_KILL_MINUTES", "0"))
DEADLINE_SECONDS = 300
WINDOWS = ("staging.after_files", "staging.after_commit")
"""Between the files of a batch, its commit, and its checkpoint."""
_POINTS = (*WINDOWS, "cdc.after_merge")
_ROUND_SECONDS = 20


@dataclass(frozen=True, kw_only=True)
class KilledUpdates:
    """The folder of a pipeline, whose spec is in `pipeline.yml` and whose storage is `storage`."""

    root: Path

    @contextmanager
    def running(self, failpoint: str = "", *, continuous: bool = False) -> Iterator[subprocess.Popen[bytes]]:
        """Run an update in a process of its own, which is killed at the failpoint, or at the end of the block."""
        command = [sys.executable, "-m", "framework", "run", "--master", "local[2]"]
        command += ["--continuous"] if continuous else []
        with (self.root / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.root, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, VARIABLE: failpoint},
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_session(process.pid)
                process.wait(30)

    def output(self) -> str:
        """Return what the last process has printed."""
        return (self.root / "output.txt").read_text("utf-8")

    def effects(self) -> int:
        """The number of commits of tables, and of planned and committed micro-batches."""
        storage = self.root / "storage"
        patterns = (
            "tables/**/_delta_log/[0-9]*.json",
            *(f"checkpoints/*/*/*/{log}/[0-9]*" for log in ("offsets", "commits")),
        )
        return sum(len(list(storage.glob(pattern))) for pattern in patterns)

    def wait_for_effects(self, more: int, process: subprocess.Popen[bytes]) -> None:
        """Return after so many more effects, when the process has ended, or when a round of a soak is over."""
        begun = self.effects()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (effects := self.effects()) < begun + more and process.poll() is None:
            if KILL_MINUTES and effects > begun:
                deadline = min(deadline, time.monotonic() + _ROUND_SECONDS)
            if time.monotonic() > deadline:
                assert KILL_MINUTES, self.output()[-3000:]
                return
            time.sleep(0.02)


def end_flows(pipeline: Pipeline, chance: Random, points: Sequence[str] = _POINTS) -> int:
    """Run an update in which flows end between two durable effects; return how many did."""
    ended = list[str]()

    def end(point: str) -> None:
        ended.append(point)
        raise SystemError

    arm_all({(point, nth): partial(end, point) for point in points for nth in chance.sample(range(1, 7), 4)})
    try:
        pipeline.run()
    finally:
        disarm()
    return len(ended)


def kill_reader(pipeline: Pipeline, chance: Random, changes: str) -> int:
    """Run an update of the changes, whose reader is killed; return 0 if it had ended before."""
    with killed_after(chance.random()) as killed:
        result = pipeline.run(refresh=[changes])
    return int(killed() and result.state is not UpdateState.COMPLETED)
