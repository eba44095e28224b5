"""The holder of a pipeline's update lock, as read by other processes without Spark."""

from __future__ import annotations

import fcntl
import pathlib
from dataclasses import asdict, dataclass

from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.run.update.lease import Lease, LeaseTerms

LOCK_FILE = "update.lock"
LEASE_FOLDER = "update.lease"
_FORMAT = StoredFormat(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """The holder of a pipeline's lock: its host, process, update and start time, and its JVM with its start time."""

    host: str
    pid: int
    update_id: str
    since: str
    jvm: int = 0
    jvm_started: str = ""


def lock_holder(storage: Storage, terms: LeaseTerms | None = None) -> LockHolder | None:
    """Return the holder of a storage's lock; None if it is free, or its new holder has not written its name yet.

    Args:
        storage: the pipeline's storage.
        terms: the times of a lease; an expired lease has no holder.

    Raises:
        OperationError: STORED_FORMAT_UNKNOWN if the holder is of another release.
    """
    if isinstance(storage, LocalStorage):
        path = storage.path(LOCK_FILE)
        return parse_holder(storage.read_text(LOCK_FILE) or "", path) if is_locked(path) else None
    present = Lease(storage, storage.path(LEASE_FOLDER), terms or LeaseTerms()).present_holder()
    return LockHolder(**present) if present else None


def check_lock_format(storage: Storage) -> None:
    """Check that an update of this release can take a storage's lock: its last holder may be of another release.

    Raises:
        OperationError: STORED_FORMAT_UNKNOWN.
    """
    if isinstance(storage, LocalStorage):
        parse_holder(storage.read_text(LOCK_FILE) or "", storage.path(LOCK_FILE))
    else:
        Lease(storage, storage.path(LEASE_FOLDER), LeaseTerms()).check_format()


def is_locked(path: str) -> bool:
    """Return whether a process holds the lock file, without writing anything."""
    try:
        with pathlib.Path(path).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no lock file yet, or it is unreadable, which an update reports
        return False
    return False


def holder_text(holder: LockHolder) -> str:
    """Return the lock file text that names a holder."""
    return _FORMAT.text(asdict(holder))


def parse_holder(text: str, path: str) -> LockHolder | None:
    """Parse the holder of the lock; None if a new holder has not written it yet.

    Raises:
        OperationError: STORED_FORMAT_UNKNOWN.
    """
    try:
        return LockHolder(**_FORMAT.content(text, path))
    except (ValueError, TypeError):
        return None
