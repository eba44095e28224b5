"""Run records: one file for each update that a server was asked to start, in the storage of its pipeline.

A record says what was asked before any process exists, so that no request is forgotten. Its log file has the output of
the process. The process holds a lock on that file until it ends: the lock is set before the process starts and is
inherited with its standard error, so there is no moment at which a process runs and the lock is free.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from framework.foundation.errors import OperationError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.stored_format import UNUSABLE, StoredFormat
from framework.foundation.processes import start_of_process
from framework.foundation.resource_faults import file_fault
from framework.foundation.secrets.known_secrets import hide_known
from framework.record.log import EVENTS_FOLDER, logged_updates
from framework.run.update.control.lock_holder import is_locked
from framework.server.engines.launch import Launch

_FORMAT = StoredFormat(1)
_FOLDER = "runs"
_LOG_BYTES = 64_000
_KEPT_RECORDS = 500


class RunState(StrEnum):
    """The stage of a run: accepted and waiting, its process about to start, started, ended."""

    ACCEPTED = "ACCEPTED"
    STARTING = "STARTING"
    STARTED = "STARTED"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a server was asked to run, and what became of it.

    Args:
        update_id: the id of the update, which its process claims.
        request_id, attempt: the request, and the number of this attempt.
        user: who asked; `reason` is theirs.
        body: the request as it came.
        argv: the command line of its process on this machine: the engine, or the command that starts it elsewhere.
        launch: how it is started.
        order: the place in the queue; a later request has a greater one.
        pid, pid_started: its process, and the start time that distinguishes it from a later process with the same id.
        outcome: the state in which it ended.
        error: why it ended before its first event, from its output.
    """

    update_id: str
    request_id: str
    pipeline: str
    attempt: int = 1
    cause: str = "USER_ACTION"
    user: str | None = None
    reason: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    launch: Launch = field(default_factory=Launch)
    state: RunState = RunState.ACCEPTED
    accepted_at: str = ""
    order: str = ""
    host: str | None = None
    pid: int | None = None
    pid_started: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    outcome: str | None = None
    error: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.state is not RunState.ENDED

    def with_(self, **changes: Any) -> RunRecord:
        """Return the record with other values."""
        return replace(self, **changes)


class RunRecords:
    """The run records of one storage; an ended record does not change, so it is read once."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self._folder = storage.path(_FOLDER)
        self._ended: dict[str, RunRecord] = {}

    @property
    def token(self) -> str:
        """A text that changes when a record is written: each one replaces a file of the folder."""
        return self._storage.folder_token(self._folder)

    def add(self, record: RunRecord) -> None:
        """Write a new record.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE, also if something else has its name, such as a link to no file.
        """
        self._check_own_folder()
        path = self._path(record.update_id)
        if not self._storage.create_text(path, self._text(record)):
            raise OperationError("STORAGE_NOT_WRITABLE", path=path, problem="there is a file that is no record")

    def write(self, record: RunRecord) -> RunRecord:
        """Replace a record, and return it.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        self._check_own_folder()
        self._storage.write_text(self._path(record.update_id), self._text(record))
        return record

    def read(self, update_id: str) -> RunRecord | None:
        """Return the record of an update; None if there is none, or if it can't be used."""
        try:
            return _FORMAT.read(self._storage, self._path(update_id), _parsed)
        except OperationError as error:
            if error.condition not in UNUSABLE:
                raise
            return None

    def list_all(self) -> tuple[RunRecord, ...]:
        """Return all records, in the order in which they were accepted."""
        if Path(self._folder).is_symlink():
            return ()
        names = [each for each in self._storage.list_names(self._folder) if each.endswith(".json")]
        updates = [name.removesuffix(".json") for name in names]
        known = self._ended
        found = [record for each in updates if (record := known.get(each) or self.read(each)) is not None]
        self._ended = {each.update_id: each for each in found if not each.is_open}
        return tuple(sorted(found, key=lambda record: (record.order, record.update_id)))

    def delete_old(self) -> None:
        """Delete ended records and their logs, except the newest 500."""
        ended = [each for each in self.list_all() if not each.is_open]
        for record in ended[:-_KEPT_RECORDS]:
            self._storage.delete_tree(self.log_path(record.update_id))
            self._storage.delete_tree(self._path(record.update_id))

    def is_claimed(self, update_id: str) -> bool:
        """Whether the process of an update has begun its event log."""
        return update_id in logged_updates(self._storage.list_names(self._storage.path(EVENTS_FOLDER)))

    def log_path(self, update_id: str) -> str:
        """Return the path of a run's output."""
        return self._storage.path(_FOLDER, f"{update_id}.log")

    def is_alive(self, record: RunRecord) -> bool:
        """Whether the process of a run on this machine lives.

        Until the record has its process, the lock of the log decides. After that the process itself does, because a
        process that it started may keep the lock for longer.
        """
        if record.pid is not None and record.pid_started and record.host == socket.gethostname():
            return start_of_process(record.pid) == record.pid_started
        return is_locked(self.log_path(record.update_id))

    def open_log(self, update_id: str) -> IO[bytes] | None:
        """Open the output of a run and lock it; None if a process of the run lives.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        path = Path(self.log_path(update_id))
        try:
            self._check_own_folder()
            # A link would have another file written, and a pipe would have the server wait for its reader.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(path, flags, 0o600)
            os.set_blocking(descriptor, True)  # the process inherits it
        except OSError as error:
            raise file_fault(error, path, "STORAGE_NOT_WRITABLE") from error
        file = os.fdopen(descriptor, "ab", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def log_text(self, update_id: str) -> tuple[str, bool] | None:
        """Return the last 64 kB of a run's output, and whether there is more; None if there is no output file."""
        path = Path(self.log_path(update_id))
        try:
            status = path.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None  # a link may lead to any file of the server's user
        size = status.st_size
        content = self._storage.read_after(str(path), max(0, size - _LOG_BYTES))
        return hide_known(content.decode(errors="replace")), size > _LOG_BYTES

    def _check_own_folder(self) -> None:
        """Check that the records are in the storage: behind a link they could be those of another one.

        Raises:
            OperationError: STORAGE_NOT_WRITABLE.
        """
        if Path(self._folder).is_symlink():
            raise OperationError("STORAGE_NOT_WRITABLE", path=self._folder, problem="it is a link to another folder")

    def _path(self, update_id: str) -> str:
        return self._storage.path(_FOLDER, f"{update_id}.json")

    @staticmethod
    def _text(record: RunRecord) -> str:
        return _FORMAT.text(asdict(record), indent=1)


def _parsed(found: dict[str, Any]) -> RunRecord:
    known = {name: value for name, value in found.items() if name in RunRecord.__dataclass_fields__}
    launch = {name: value for name, value in (found.get("launch") or {}).items() if name in Launch.__dataclass_fields__}
    launch["kubectl"] = tuple(launch.get("kubectl") or ())
    known |= {"state": RunState(found["state"]), "argv": tuple(found["argv"]), "launch": Launch(**launch)}
    return RunRecord(**known)
