"""The claim of a server on a storage: one server starts the engines of a storage, all others only read it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.resource_faults import file_fault

_FILE = "server.lock"


class StorageClaim:
    """An operating system lock on a file that names the server; it is free as soon as the server's process ends.

    Args:
        storage: the storage.
    """

    def __init__(self, storage: LocalStorage) -> None:
        self._path = Path(storage.path(_FILE))
        self._file: IO[str] | None = None
        self.is_elsewhere = False
        """Whether another server had the claim when this one wanted it last."""

    def take(self) -> bool:
        """Take the claim, unless another server has it; return whether this one has it.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        if self._file is not None:
            return True
        file = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # A link would have another file locked and written.
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
            file = os.fdopen(descriptor, "r+", encoding="utf-8")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.is_elsewhere = False
            file.truncate(0)
            file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
            file.flush()
        except BlockingIOError:
            _close(file)
            self.is_elsewhere = True
            return False
        except OSError as error:
            _close(file)  # nobody must find a claim of a server that has not got it
            raise file_fault(error, self._path, "STORAGE_NOT_WRITABLE") from error
        self._file = file
        return True

    def release(self) -> None:
        """Release the claim."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def holder(self) -> str:
        """The server that has the claim, as text."""
        try:
            found = json.loads(self._path.read_text("utf-8"))
            return f"process {found['pid']} on {found['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"


def _close(file: IO[str] | None) -> None:
    if file is not None:
        with suppress(OSError):  # what could not be written is tried once more
            file.close()
