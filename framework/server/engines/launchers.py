"""Launchers: how the process of an update is started and ended. This release has `local`, a child process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from framework.foundation.processes import start_of_process
from framework.server.engines.run_records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A started process: its machine, its id, and its start time, which distinguishes it from a later one."""

    host: str
    pid: int
    pid_started: str


class Launcher(Protocol):
    """Starts the processes of updates; they live on when the server ends."""

    def start(self, record: RunRecord, log: IO[bytes], folder: Path) -> Handle:
        """Start a run's command line; it inherits `log`, with its lock, as standard output and error.

        Raises:
            OSError: the program can't be started.
        """
        ...

    def exit_code(self, record: RunRecord) -> int | None:
        """Return the exit code of a run that has ended; None if another server started it."""
        ...

    def stop(self, record: RunRecord) -> None:
        """Ask a run's process to end, as Ctrl-C does."""
        ...


class LocalLauncher:
    """Starts child processes in sessions of their own, so that no signal to the server reaches them."""

    def __init__(self) -> None:
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, record: RunRecord, log: IO[bytes], folder: Path) -> Handle:
        """Start the process in a folder."""
        child = subprocess.Popen(  # noqa: S603 - our own command line; each value is one argument after an equals sign
            record.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=folder
        )
        self._children[record.update_id] = child
        return Handle(host=socket.gethostname(), pid=child.pid, pid_started=start_of_process(child.pid))

    def exit_code(self, record: RunRecord) -> int | None:
        """Return the exit code of an ended child, which is then reaped."""
        child = self._children.get(record.update_id)
        if child is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(timeout=1.0)
            del self._children[record.update_id]
            return code
        return None

    def stop(self, record: RunRecord) -> None:
        """Send SIGTERM to the process, if it still is the one that was started."""
        if record.pid is None or record.host != socket.gethostname():
            return
        if record.pid_started and start_of_process(record.pid) == record.pid_started:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(record.pid, signal.SIGTERM)
