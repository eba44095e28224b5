"""Launchers: how the process of an update is started, looked for and ended; here, or by a command elsewhere."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from framework.foundation.processes import start_of_process
from framework.server.engines.launch import Ended, Handle, Running, Sight, Unknown
from framework.server.engines.run_records import RunRecord

_WAIT_SECONDS = 1.0
# The first line of the output is written by the child itself: an empty output proves that no command has started.
_SAYS_SO = 'printf "%s\\n" "$1"; shift; exec "$@"'


class Launcher(Protocol):
    """Starts the processes of updates; they live on when the server ends."""

    def start(self, record: RunRecord, log: IO[bytes], folder: Path) -> Handle:
        """Start a run's command line in a folder; it inherits `log`, with its lock, as its output.

        Raises:
            OSError: the program can't be started.
        """
        ...

    def look(self, record: RunRecord, *, is_alive: bool) -> Sight:
        """Return what is known about a run that has been started; it does not wait.

        Args:
            record: the run.
            is_alive: whether the process that was started on this machine lives.
        """
        ...

    def stop(self, record: RunRecord) -> None:
        """Ask a run's process to end, as Ctrl-C does, and what would start it to give up."""
        ...

    def forget(self, record: RunRecord) -> None:
        """Give up what is kept for a run whose end is recorded."""
        ...


class Children:
    """The processes that this server has started, in sessions of their own: no signal to the server reaches them."""

    def __init__(self) -> None:
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, record: RunRecord, argv: Sequence[str], log: IO[bytes], folder: Path, given: IO[bytes] | None = None
    ) -> Handle:
        """Start the process of a run.

        Raises:
            OSError: the program can't be started.
        """
        child = subprocess.Popen(  # noqa: S603 - our own command line, or the one that the settings name
            argv, stdin=subprocess.DEVNULL if given is None else given, stdout=log, stderr=log,
            start_new_session=True, cwd=folder,
        )  # fmt: skip
        self._children[record.update_id] = child
        return Handle(host=socket.gethostname(), pid=child.pid, pid_started=start_of_process(child.pid))

    def code(self, record: RunRecord) -> int | None:
        """Return the exit code of a run's process; None if it lives, or if another server started it."""
        child = self._children.get(record.update_id)
        if child is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=_WAIT_SECONDS)
        return None

    def forget(self, record: RunRecord) -> None:
        """Forget the process of a run; it may live on."""
        child = self._children.pop(record.update_id, None)
        if child is not None:
            child.poll()


class LocalLauncher:
    """Starts engines on this machine, as child processes; also those that use another Spark master."""

    def __init__(self) -> None:
        self._children = Children()

    def start(self, record: RunRecord, log: IO[bytes], folder: Path) -> Handle:
        """Start the process."""
        return self._children.start(record, record.argv, log, folder)

    def look(self, record: RunRecord, *, is_alive: bool) -> Sight:
        """Return whether the process lives; an ended child is reaped."""
        return Running() if is_alive else Ended(code=self._children.code(record))

    def stop(self, record: RunRecord) -> None:
        """Send SIGTERM to the process."""
        terminate(record)

    def forget(self, record: RunRecord) -> None:
        """Forget the process."""
        self._children.forget(record)


class CommandLauncher:
    """Starts engines by a command, such as ssh, or one that gives a job to a cluster.

    While the command lives, the run is running. A command that fails has started nothing, as far as it knows. After one
    that has ended well only the storage can tell: it may have given the job to a cluster, which starts it later.
    """

    def __init__(self) -> None:
        self._children = Children()

    def start(self, record: RunRecord, log: IO[bytes], folder: Path) -> Handle:
        """Start the command."""
        argv = announced(record, folder)
        return self._children.start(record, argv, log, folder)

    def look(self, record: RunRecord, *, is_alive: bool) -> Sight:
        """Return whether the command lives, has failed, or has ended well."""
        if is_alive:
            return Running()
        code = self._children.code(record)
        if code:
            return Ended(code=code, has_failed=True)
        return Unknown(reason=f"The command of launcher {record.launch.name} has ended.")

    def stop(self, record: RunRecord) -> None:
        """Send SIGTERM to the command; a process that it has started elsewhere ends by the request in the storage."""
        terminate(record)

    def forget(self, record: RunRecord) -> None:
        """Forget the command."""
        self._children.forget(record)


def announced(record: RunRecord, folder: Path) -> tuple[str, ...]:
    """Return a run's command line, behind a shell that first writes a line into the output.

    Raises:
        OSError: there is no such program.
    """
    program = record.argv[0]
    if shutil.which(str(folder / program) if "/" in program else program) is None:
        raise FileNotFoundError(2, "There is no such program", program)
    line = f"Launcher {record.launch.name} starts update {record.update_id}."
    return ("/bin/sh", "-c", _SAYS_SO, "sluice", line, *record.argv)


def terminate(record: RunRecord) -> None:
    """Send SIGTERM to the process of a run on this machine, if it still is the one that was started."""
    if record.pid is None or record.host != socket.gethostname():
        return
    if record.pid_started and start_of_process(record.pid) == record.pid_started:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(record.pid, signal.SIGTERM)
