"""A continuous update that is killed at random moments and restarted ends with exactly the rows.

A moment is drawn from a seed: a number of files that the update commits, and up to a third of a second after them.
`SLUICE_KILL_SEED` repeats a run as far as timing allows; `SLUICE_KILLS` sets the number of kills: one, and ten in
`make soak`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.processes import kill_session
from framework.record.reader import read_events
from framework.run.update.results import UpdateState
from tests.support.seeds import fresh_seed
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = Path(__file__).parent / "fixtures" / "shop" / "shop.py"
SEED = int(os.environ.get("SLUICE_KILL_SEED", "0")) or fresh_seed()
KILLS = int(os.environ.get("SLUICE_KILLS", "1"))
_DEADLINE_SECONDS = 300
_FILES, _ROWS, _KEYS = 2, 4, 20
# Each file is a planned batch, a commit of a table and a committed batch; each source has this number of files.
_EFFECTS = 3 * 3 * _FILES - 5

Rows = list[tuple[Any, ...]]


@dataclass(kw_only=True, eq=False)
class Shop:
    """The pipeline's folder, and the rows that its sources hold.

    Args:
        spark: the test's session.
        root: an empty folder.
        chance: the source of all random values.
    """

    spark: SparkSession
    root: Path
    chance: Random
    orders: Rows = field(default_factory=list)
    customers: dict[int, tuple[str, int]] = field(default_factory=lambda: {1: ("old", 0), 1000: ("kept", 0)})
    _files: int = 0

    def write_spec(self) -> None:
        """Write the pipeline's spec and module."""
        shutil.copy(MODULE, self.root)
        configuration = {"shop.source": str(self.root / "source"), "pipelines.trigger.interval": "0 seconds"}
        spec = {
            "name": "shop", "storage": "storage", "development": True, "configuration": configuration,
            "spark_conf": INTERPRETED,
            "libraries": [{"file": {"path": MODULE.name}}],
        }  # fmt: skip
        (self.root / "pipeline.yml").write_text(json.dumps(spec), encoding="utf-8")  # JSON is YAML too

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline in the test's session."""
        return Pipeline.from_spec(self.root / "pipeline.yml", spark=self.spark)

    def feed(self, files: int = _FILES) -> None:
        """Write some files to each source."""
        for _ in range(files):
            for source in ("orders", "more_orders"):
                rows = [(len(self.orders) + number, self.chance.randrange(100)) for number in range(_ROWS)]
                self.orders += rows
                self._write(source, [{"id": number, "amount": amount} for number, amount in rows])
            changes: list[dict[str, Any]] = []
            for _ in range(_ROWS):
                at = len(self.orders) * 10 + len(changes)
                key = self.chance.randrange(_KEYS)
                self.customers[key] = (f"name {at}", at)
                changes.append({"id": key, "name": f"name {at}", "at": at})
            self._write("changes", changes)

    def _write(self, source: str, rows: list[dict[str, Any]]) -> None:
        self._files += 1
        folder = self.root / "source" / source
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{self._files:05d}.json"
        hidden.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        hidden.rename(folder / f"{self._files:05d}.json")

    def expected(self) -> dict[str, Rows]:
        """The rows of every target when all files are read."""
        return {
            "orders": sorted(self.orders),
            "copies": sorted(self.orders),
            "customers": sorted((key, *row) for key, row in self.customers.items()),
            "totals": [(len(self.orders), sum(amount for _, amount in self.orders))],
        }

    def rows(self) -> dict[str, Rows]:
        """The rows of every target now; [] before it exists."""
        return {name: self._rows(name) for name in ("orders", "copies", "customers", "totals")}

    def _rows(self, name: str) -> Rows:
        if name == "copies":
            path, kind, log = self.root / "source" / "copies", "parquet", "_spark_metadata"
        else:
            path, kind, log = self.root / "storage" / "tables" / "main" / "default" / name, "delta", "_delta_log"
        if not list((path / log).glob("[0-9]*")):
            return []
        frame = self.spark.read.format(kind).load(str(path))
        visible = [column for column in frame.columns if not column.startswith("__sluice")]
        return sorted(tuple(row) for row in frame.select(*visible).collect())

    def committed(self, more: int) -> Callable[[], bool]:
        """A condition: the update has committed some more files than now."""
        wanted = self.effects() + more
        return lambda: self.effects() >= wanted

    def effects(self) -> int:
        """The number of commits of tables and sinks, and of planned and committed batches."""
        storage = self.root / "storage"
        patterns = (
            "tables/**/_delta_log/[0-9]*.json",
            *(f"checkpoints/*/*/*/{log}/[0-9]*" for log in ("offsets", "commits")),
        )
        found = [path for pattern in patterns for path in storage.glob(pattern)]
        return len([*found, *self.root.glob("source/copies/_spark_metadata/[0-9]*")])

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the pipeline continuously in a process of its own, which is killed at the end of the block."""
        command = [sys.executable, "-m", "framework", "run", "--continuous", "--master", "local[2]"]
        with (self.root / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.root, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_session(process.pid)
                process.wait(30)

    @property
    def output(self) -> str:
        """The end of the last process's output."""
        return (self.root / "output.txt").read_text("utf-8")[-3000:]

    def wait(self, holds: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until a condition holds; fail if it does not in time, or if the process ends."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, (self.output, self.rows(), self.expected())
            assert process is None or process.poll() is None, self.output
            time.sleep(0.02)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    """A shop without rows."""
    shop = Shop(spark=spark, root=tmp_path, chance=Random(SEED))  # noqa: S311 - test data
    shop.write_spec()
    return shop


@contextmanager
def repeatable() -> Iterator[None]:
    """On a failure, say how to repeat the run."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"To repeat: SLUICE_KILL_SEED={SEED} SLUICE_KILLS={KILLS}")
        raise


def test_killed_and_restarted_a_continuous_update_ends_with_exactly_the_rows(shop: Shop) -> None:
    """After kills at random moments and a SIGTERM, each row of each file is in its targets once."""
    with repeatable():
        for _ in range(KILLS):
            kill(shop)
        terminate(shop)
        shop.feed(files=1)
        assert shop.pipeline.run().state is UpdateState.COMPLETED  # the lock is free
        assert shop.rows() == shop.expected()
        assert shop.pipeline.run().is_idle


def kill(shop: Shop) -> None:
    """Kill a continuous update at a random moment."""
    shop.feed()
    moment, seconds = shop.committed(shop.chance.randint(1, _EFFECTS)), shop.chance.uniform(0, 0.3)
    with shop.running() as process:
        shop.wait(moment, process)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(seconds)
        kill_session(process.pid)
        assert process.wait(30) == -signal.SIGKILL


def terminate(shop: Shop) -> None:
    """End a continuous update by SIGTERM at a random moment: exit code 143, and every flow has an end."""
    shop.feed()
    moment = shop.committed(shop.chance.randint(1, _EFFECTS))
    with shop.running() as process:
        shop.wait(moment, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(_DEADLINE_SECONDS) == 128 + signal.SIGTERM, shop.output
    states = _last_states(shop)
    assert states.pop("history", "COMPLETED") in {"COMPLETED", "STOPPED"}  # the signal may come before its end
    assert states == dict.fromkeys(("orders", "more_orders", "follow", "totals", "copy"), "STOPPED") | {
        "update": "CANCELED"
    }


def _last_states(shop: Shop) -> dict[str, str]:
    """The last state of the last update and of each of its flows, by the event log."""
    events = read_events(shop.pipeline.storage)
    states = {}
    for event in events:
        if event.origin.update_id != events[-1].origin.update_id:
            continue
        if event.event_type == "update_progress":
            states["update"] = event.details["update_progress"]["state"]
        if event.event_type == "flow_progress":
            states[str(event.origin.flow_name).rpartition(".")[2]] = event.details["flow_progress"]["status"]
    return states
