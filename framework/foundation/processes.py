"""Ends all processes of a session at once, as the kill of a container would."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Iterator
from contextlib import suppress

_PROCESSES = pathlib.Path("/proc")


def kill_session(leader: int) -> None:
    """Kill every process of the session that a process leads, the leader last, with no chance to react.

    Spark's JVM is in a process group of its own, so that Ctrl-C does not reach it, but in its
    driver's session. Where the system lists no processes, the leader's own group is killed.
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
