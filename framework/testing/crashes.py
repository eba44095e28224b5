"""The crash harness: kill updates at named places, so that a test can run them again and compare.

A Spark process takes seconds to start, and there are many places to stop at. So besides killing one
process at one place (`run_killed`), many updates of as many copies of a pipeline can be stopped in
one process (`kill_updates`): each runs until it hangs at its place, and when all of them hang there,
the process is killed with its JVM. A pipeline's storage can't tell that from a kill at that place: nothing
of it moved between, as its one flow at a time hung there.
"""

from __future__ import annotations

import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from framework.foundation.failpoints import VARIABLE, arm
from framework.foundation.processes import kill_session

_KILLED = -int(signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """The nth passing of a failpoint; printed as the environment variable takes it."""

    name: str
    nth: int = 1

    def __str__(self) -> str:
        """`name:nth`."""
        return f"{self.name}:{self.nth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRun:
    """How a command ended that was to be killed: whether it was, and what it said."""

    point: CrashPoint
    killed: bool
    returncode: int
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashJob:
    """An update to be stopped at a place.

    Args:
        spec: the spec file of a pipeline with a storage of its own.
        point: where its update stops.
        arguments: what `Pipeline.run` is called with.
    """

    spec: str
    point: CrashPoint
    arguments: Mapping[str, Any] = field(default_factory=dict)


def run_killed(
    command: Sequence[str],
    point: CrashPoint,
    *,
    folder: str | pathlib.Path | None = None,
    timeout_seconds: float = 300,
) -> CrashRun:
    """Run a command until a failpoint kills it with all its children, Spark's JVM too.

    Args:
        command: such as `["sluice", "run"]`.
        point: where it dies. When it never gets there it ends as usual, and `killed` is False.
        folder: where the command runs.
        timeout_seconds: after which it is killed anyway.

    Raises:
        subprocess.TimeoutExpired: the command neither died nor ended in time.
    """
    returncode, output = _run_in_session(command, {VARIABLE: str(point)}, folder, timeout_seconds)
    return CrashRun(point=point, killed=returncode == _KILLED, returncode=returncode, output=output)


def kill_updates(jobs: Sequence[CrashJob], *, workspace: pathlib.Path, timeout_seconds: float = 900) -> None:
    """Stop each job's update at its place, all in one process, and kill that process.

    Args:
        jobs: one update each, of pipelines that share no storage.
        workspace: a folder for the list of jobs.
        timeout_seconds: for all of them together.

    Raises:
        AssertionError: an update ended without getting to its place, with what the process said.
        subprocess.TimeoutExpired: it took too long.
    """
    listed = workspace / "crash-jobs.json"
    listed.write_text(json.dumps([asdict(job) for job in jobs]), encoding="utf-8")
    command = [sys.executable, "-m", "framework.testing.crash_child", str(listed)]
    returncode, output = _run_in_session(command, {}, None, timeout_seconds)
    assert returncode == _KILLED, output


def freeze_at(point: CrashPoint, action: Callable[[], object]) -> bool:
    """Run `action` in a thread until it hangs at a failpoint, for the rest of this process's life.

    Returns:
        True when it hangs there; False when it ended, or raised, without getting there.
    """
    ends: queue.Queue[str] = queue.Queue()

    def hang() -> None:
        ends.put("hangs")
        threading.Event().wait()

    def run() -> None:
        try:
            action()
        finally:
            ends.put("ended")

    arm(point.name, nth=point.nth, action=hang)
    threading.Thread(target=run, name=f"freeze {point}", daemon=True).start()
    return ends.get() == "hangs"


def _run_in_session(
    command: Sequence[str], environment: Mapping[str, str], folder: str | pathlib.Path | None, timeout_seconds: float
) -> tuple[int, str]:
    """Run a command as the leader of a session of its own, which dies as one; its exit code and output."""
    with subprocess.Popen(  # noqa: S603 - the test's own command
        list(command),
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_seconds)
        finally:
            if process.poll() is None:
                kill_session(process.pid)
    return process.returncode, output
