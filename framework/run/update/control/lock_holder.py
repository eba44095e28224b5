"""The holder of a pipeline's update lock, as other processes see it; without Spark."""

from __future__ import annotations

import fcntl
import json
import pathlib
from dataclasses import dataclass

from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.storage_port import Storage
from framework.run.update.lease import Lease, LeaseTerms

LOCK_FILE = "update.lock"
LEASE_FOLDER = "update.lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """The holder of a pipeline's lock: host, process, update and start time; its JVM, and when that was started."""

    host: str
    pid: int
    update_id: str
    since: str
    jvm: int = 0
    jvm_started: str = ""


def lock_holder(storage: Storage, terms: LeaseTerms | None = None) -> LockHolder | None:
    """Return the holder of a storage's lock; None if nobody has it, or has just taken it and not written its name yet.

    Args:
        storage: the pipeline's storage.
        terms: the times of a lease; a lease that has expired has no holder.
    """
    if isinstance(storage, LocalStorage):
        return parse_holder(storage.read_text(LOCK_FILE) or "") if is_locked(storage.path(LOCK_FILE)) else None
    present = Lease(storage, storage.path(LEASE_FOLDER), terms or LeaseTerms()).present_holder()
    return None if present is None else parse_holder(json.dumps(dict(present)))


def is_locked(path: str) -> bool:
    """Return whether a process holds the lock file; nothing is written."""
    try:
        with pathlib.Path(path).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no lock file yet, or not readable, which an update reports
        return False
    return False


def parse_holder(text: str) -> LockHolder | None:
    """Parse the holder of the lock; None if a new holder has not written it yet."""
    try:
        return LockHolder(**json.loads(text))
    except (ValueError, TypeError):
        return None
