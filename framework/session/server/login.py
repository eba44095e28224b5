"""The login that started a session server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_ENDED = ("Z", "X")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The leader of the terminal session that started the server; the server ends with it.

    Args:
        pid: its process; 0 if there is none to watch.
        started: the time of its start in ticks, because numbers of processes are used again.
    """

    pid: int = 0
    started: str = ""

    @classmethod
    def of(cls, pid: int) -> Login:
        """Return the leader of the terminal session of a process."""
        leader = os.getsid(pid)
        started = _start_of(leader)
        return cls(pid=leader, started=started) if started else cls()

    def has_ended(self) -> bool:
        """Return whether the leader has ended."""
        return self.pid != 0 and _start_of(self.pid) != self.started


def _start_of(pid: int) -> str:
    """Return the time of a process's start; empty if it has ended, even if its parent has not noticed."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in _ENDED else fields[19]
    except (OSError, IndexError):
        return ""
