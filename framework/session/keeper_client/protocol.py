"""Messages between a command and the session server: lines of JSON over a Unix socket that only its user can open.

A message may carry the file descriptor of a lock. A lock of the operating system is held as long as any process has
its descriptor open, so the server keeps the lock of a command that was killed until its work has stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from framework.foundation.processes import start_of_process

_CHUNK, _MOST_DESCRIPTORS = 1 << 16, 4
_PRIVATE = 0o700
_BACKLOG = 8

Message = Mapping[str, Any]


def runtime_folder() -> Path:
    """Return the folder of this user's sockets: in XDG_RUNTIME_DIR, which ends with the login, or else temporary."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base, f"sluice-{os.getuid()}")


def socket_path(folder: Path) -> Path:
    """Return the path of the socket for a project folder; it is short, because sockets allow some 100 characters."""
    return runtime_folder() / f"{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]}.sock"


def is_private(folder: Path) -> bool:
    """Return whether a folder belongs to this user and only this user can open it; False if it does not exist."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) == _PRIVATE


def make_private(folder: Path) -> None:
    """Create a folder that only this user can open, unless it exists.

    Raises:
        OSError: it can't be created, or others can open it.
    """
    folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    if not is_private(folder):
        msg = f"{folder} must belong to you, with the mode 700"
        raise PermissionError(msg)


class Connection:
    """One end of a connection.

    Args:
        peer: a connected Unix socket.
    """

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self._received = b""
        self._descriptors: list[int] = []

    @classmethod
    def to(cls, path: Path, timeout_seconds: float) -> Self | None:
        """Connect to a server; None if none listens there, or if another user could have made the socket."""
        if not is_private(path.parent):
            return None
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(timeout_seconds)
        try:
            peer.connect(str(path))
        except OSError:
            peer.close()
            return None
        return cls(peer)

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.peer.fileno()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message.

        Raises:
            OSError: the other end is closed.
        """
        data = json.dumps(message).encode() + b"\n"
        if descriptors:
            sent = socket.send_fds(self.peer, [data], list(descriptors))
            data = data[sent:]
        self.peer.sendall(data)

    def receive(self) -> tuple[Message, list[int]] | None:
        """Wait for a message with its descriptors; None at the end of the connection.

        Raises:
            OSError: nothing came in time.
            ValueError: the line is not JSON.
            TypeError: it is not an object.
        """
        while b"\n" not in self._received:
            data, descriptors, _, _ = socket.recv_fds(self.peer, _CHUNK, _MOST_DESCRIPTORS)
            self._descriptors += descriptors
            if not data:
                return None
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        descriptors, self._descriptors = self._descriptors, []
        message = json.loads(line)
        if not isinstance(message, dict):
            msg = f"{message} is no message"
            raise TypeError(msg)
        return message, descriptors

    def ask(self, message: Message, descriptors: Sequence[int] = ()) -> Message | None:
        """Send a message and return the answer; None if the other end is closed or does not answer in time."""
        try:
            self.send(message, descriptors)
            answer = self.receive()
        except (OSError, ValueError, TypeError):
            return None
        return None if answer is None else answer[0]

    def close(self) -> None:
        """Close the connection, and descriptors that no message took."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self.peer.close()


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Be the only server for a path inside the block; `claimant` names this process to others.

    Raises:
        OSError: the folder can't be created or is not private, or another server has the path.
    """
    make_private(path.parent)
    with path.with_suffix(".lock").open("a", encoding="utf-8") as only:
        fcntl.flock(only, fcntl.LOCK_EX | fcntl.LOCK_NB)
        only.truncate(0)
        only.write(f"{os.getpid()} {start_of_process(os.getpid())}")
        only.flush()
        yield


def claimant(path: Path) -> int | None:
    """Return the process that has claimed a path; None if that is unknown, or if the process has ended.

    It does not try the lock: who holds it to look would keep a server from claiming the path.
    """
    try:
        pid, _, started = path.with_suffix(".lock").read_text("utf-8").partition(" ")
        return int(pid) if started and start_of_process(int(pid)) == started else None
    except (OSError, ValueError):
        return None


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listen at a claimed path for the length of the block; only this user can connect."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        before = os.umask(0o177)
        try:
            server.bind(str(path))
        finally:
            os.umask(before)
        try:
            server.listen(_BACKLOG)
            yield server
        finally:
            path.unlink(missing_ok=True)
