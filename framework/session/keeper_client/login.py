"""The login that started a session server."""

from __future__ import annotations

import os
from dataclasses import dataclass

from framework.foundation.processes import start_of_process


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
        started = start_of_process(leader)
        return cls(pid=leader, started=started) if started else cls()

    def has_ended(self) -> bool:
        """Return whether the leader has ended."""
        return self.pid != 0 and start_of_process(self.pid) != self.started
