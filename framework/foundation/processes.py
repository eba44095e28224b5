"""Operating system processes: their user, their identity, and the termination of a process session."""

from __future__ import annotations

import getpass
import os
import pathlib
import signal
from collections.abc import Iterator
from contextlib import suppress

_PROCESSES = pathlib.Path("/proc")


def user_name() -> str | None:
    """Return the user of this process; None if the system has no name for the user, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def start_of_process(pid: int) -> str:
    """Return the start time of a process, in ticks since boot; "" if it has ended, or without `/proc`.

    Process ids are reused, so only a process id together with its start time identifies a process. A zombie has ended.
    """
    try:
        fields = (_PROCESSES / str(pid) / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""


def kill_session(leader: int) -> None:
    """Kill every process of a session with SIGKILL, the leader last.

    Spark's JVM has its own process group, so that Ctrl-C does not reach it, but is in the session of its
    driver. Without `/proc` only the leader's process group is killed.
    """
    with suppress(ProcessLookupError):
        for process in _members(leader):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        os.killpg(leader, signal.SIGKILL)


def _members(leader: int) -> Iterator[int]:
    if not _PROCESSES.is_dir():
        return
    for entry in _PROCESSES.iterdir():
        if entry.name.isdecimal() and int(entry.name) != leader:
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == leader:
                    yield int(entry.name)
