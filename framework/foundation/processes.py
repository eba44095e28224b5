"""Kills all processes of a session at once, as the end of a container does."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Iterator
from contextlib import suppress

_PROCESSES = pathlib.Path("/proc")


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
