"""The folder of a user's servers: their tokens, sessions and schedules, and the addresses of those that run."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from framework.foundation.files.private_files import make_private_folder, write_private_file
from framework.foundation.processes import start_of_process

_FOLDER = "running"


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Keep other threads and processes from changing the state; the folder is created if it is missing.

    Args:
        state: the folder of the state.
    """
    make_private_folder(state)
    descriptor = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class RunningServer:
    """A file that names a server while it runs; one that a killed server has left is ignored.

    Args:
        state: the folder of the state.
        url: the address of the server.
    """

    def __init__(self, state: Path, url: str) -> None:
        self._path = state / _FOLDER / f"{os.getpid()}.json"
        self._content = {"url": url, "pid": os.getpid(), "pid_started": start_of_process(os.getpid())}

    def write(self) -> None:
        """Write the file."""
        make_private_folder(self._path.parent)
        self._path.unlink(missing_ok=True)
        write_private_file(self._path, json.dumps(self._content))

    def delete(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)


def running_servers(state: Path) -> tuple[str, ...]:
    """Return the addresses of the servers that run, the newest first."""
    files: list[tuple[float, Path]] = []
    for path in (state / _FOLDER).glob("*.json"):
        with suppress(OSError):
            files.append((path.stat().st_mtime, path))
    found = []
    for _, path in sorted(files, reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(path.read_text("utf-8"))
            if content["pid_started"] and start_of_process(content["pid"]) == content["pid_started"]:
                found.append(str(content["url"]))
    return tuple(found)
