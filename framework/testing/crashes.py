"""Crash harness: kill updates at failpoints, so that a test can run them again and compare.

A Spark process takes seconds to start, and there are many failpoints. So besides killing one process at one failpoint
(`run_killed`), many updates of as many copies of a pipeline can be suspended in one process (`kill_updates`): each runs
until it is suspended at its failpoint, and then the process is killed with its JVM. A pipeline's storage is the same as
after a kill at that failpoint: with one flow at a time, nothing is written between the suspension and the kill. For the
same reason one update serves several failpoints: its folder is copied at each of them, before the update continues.
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
from types import MappingProxyType
from typing import Any

from framework.foundation.failpoints import VARIABLE, arm_all
from framework.foundation.processes import kill_session

_KILLED = -int(signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """The nth pass of a failpoint; its text is the value of the environment variable."""

    name: str
    nth: int = 1

    def __str__(self) -> str:
        """`name:nth`."""
        return f"{self.name}:{self.nth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRun:
    """Result of a command that was to be killed: whether it was killed, its exit code and its output."""

    point: CrashPoint
    killed: bool
    returncode: int
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashJob:
    """An update to be suspended at the last of its failpoints, whatever their order.

    Args:
        spec: the spec file of a pipeline with its own storage.
        point: a failpoint without a copy; None if there is none.
        arguments: arguments of `Pipeline.run`.
        rewind_to: run no update, but rewind all tables to this time or update.
        copies: failpoints by folder: at each of them the folder of the spec is copied to this folder, as a kill there
            would leave it.
    """

    spec: str
    point: CrashPoint | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    rewind_to: str | None = None
    copies: Mapping[str, CrashPoint] = field(default_factory=dict)


def run_killed(
    command: Sequence[str],
    point: CrashPoint,
    *,
    folder: str | pathlib.Path | None = None,
    timeout_seconds: float = 300,
) -> CrashRun:
    """Run a command until a failpoint kills it with all its children, including Spark's JVM.

    Args:
        command: the command, such as `["sluice", "run"]`.
        point: the failpoint. If the command does not reach it, it ends as usual, and `killed` is False.
        folder: working directory of the command.
        timeout_seconds: time after which it is killed anyway.

    Raises:
        subprocess.TimeoutExpired: the command neither died nor ended in time.
    """
    returncode, output = _run_in_session(command, {VARIABLE: str(point)}, folder, timeout_seconds)
    return CrashRun(point=point, killed=returncode == _KILLED, returncode=returncode, output=output)


def kill_updates(
    jobs: Sequence[CrashJob],
    *,
    workspace: pathlib.Path,
    spark_conf: Mapping[str, str] = MappingProxyType({}),
    timeout_seconds: float = 1800,
) -> None:
    """Suspend each job's update at its failpoint, all in one process, and kill that process.

    Args:
        jobs: one update each, of pipelines that share no storage.
        workspace: folder for the list of jobs.
        spark_conf: settings of the process's session.
        timeout_seconds: timeout of all updates together.

    Raises:
        AssertionError: an update ended without reaching its failpoint; with the output of the process.
        subprocess.TimeoutExpired: the updates took too long.
    """
    listed = workspace / "crash-jobs.json"
    content = {"jobs": [asdict(job) for job in jobs], "spark_conf": dict(spark_conf)}
    listed.write_text(json.dumps(content), encoding="utf-8")
    command = [sys.executable, "-m", "framework.testing.crash_child", str(listed)]
    returncode, output = _run_in_session(command, {}, None, timeout_seconds)
    assert returncode == _KILLED, output


def freeze_at(points: Mapping[CrashPoint, Callable[[], object]], action: Callable[[], object]) -> bool:
    """Run `action` in a thread until it is suspended at the last of some failpoints, until the process ends.

    Args:
        points: what is done at each failpoint.
        action: what passes them, in any order.

    Returns:
        True if it is suspended there; False if it ended, or raised, without reaching each failpoint.
    """
    ends: queue.Queue[str] = queue.Queue()
    missing = {*points}

    def passing(point: CrashPoint) -> Callable[[], None]:
        def act() -> None:
            points[point]()
            missing.remove(point)
            if not missing:
                ends.put("hangs")
                threading.Event().wait()

        return act

    def run() -> None:
        try:
            action()
        finally:
            ends.put("ended")

    arm_all({(point.name, point.nth): passing(point) for point in points})
    threading.Thread(target=run, name="freeze", daemon=True).start()
    return ends.get() == "hangs"


def _run_in_session(
    command: Sequence[str], environment: Mapping[str, str], folder: str | pathlib.Path | None, timeout_seconds: float
) -> tuple[int, str]:
    """Run a command as leader of a new session, which is killed as a whole; return its exit code and output."""
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
