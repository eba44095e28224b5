"""One update of a pipeline at a time, across processes and machines."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO

from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.errors import OperationError
from framework.foundation.storage import LocalStorage, Storage
from framework.run.update.lease import Lease, LeaseTerms

LOCK_FILE = "update.lock"
LEASE_FOLDER = "update.lease"
_FREE_WITH_PROCESS = "Its lock is free as soon as its process ends."


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """Who holds a pipeline's lock: a process on a host, for an update, since a time."""

    host: str
    pid: int
    update_id: str
    since: str


@contextmanager
def update_lock(
    storage: Storage,
    update_id: str,
    *,
    clock: Clock | None = None,
    on_lost: Callable[[], None] | None = None,
    terms: LeaseTerms | None = None,
) -> Iterator[None]:
    """Hold the pipeline's lock for the length of the block.

    A local storage is locked by the operating system: the lock is free at the moment in which its
    process dies. Elsewhere it is a lease that its holder renews, and that others may take when it
    was not renewed for a minute.

    Args:
        storage: the pipeline's storage.
        update_id: who asks, to be told to those who come meanwhile.
        clock: what `since` is read from.
        on_lost: called from another thread when a lease could not be kept, so that the update stops.
        terms: how long a lease lasts without renewal.

    Raises:
        OperationError: UPDATE_ALREADY_RUNNING with its holder; UPDATE_LOCK_LOST at the end of the
            block, when another update took the lease over.
    """
    holder = LockHolder(
        host=socket.gethostname(),
        pid=os.getpid(),
        update_id=update_id,
        since=timestamp_text((clock or SystemClock()).now()),
    )
    if isinstance(storage, LocalStorage):
        with _locked_file(storage, holder):
            yield
        return
    lease = Lease(storage, storage.path(LEASE_FOLDER), terms or LeaseTerms(), on_lost)
    other = lease.acquire(asdict(holder))
    if other is not None:
        remedy = f"If its process is dead, run again in {lease.terms.lasts_seconds:.0f} seconds."
        raise _already_running(json.dumps(other), lease.folder, remedy)
    try:
        yield
    finally:
        kept = lease.release()
    if not kept:
        raise OperationError("UPDATE_LOCK_LOST", path=lease.folder)


def check_unlocked(storage: Storage) -> None:
    """Look whether an update runs, without taking the lock or writing anything; a lease is not looked at.

    Raises:
        OperationError: UPDATE_ALREADY_RUNNING with its holder.
    """
    if not isinstance(storage, LocalStorage):
        return
    path = pathlib.Path(storage.path(LOCK_FILE))
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _already_running(storage.read_text(LOCK_FILE) or "", str(path), _FREE_WITH_PROCESS) from None
    except OSError:
        return  # no lock yet; or no file, which the update itself will say


@contextmanager
def _locked_file(storage: LocalStorage, holder: LockHolder) -> Iterator[None]:
    """An exclusive `flock` on a file that names its holder.

    The file stays when the lock is released: deleting it would let one process lock the deleted
    file while another locks its successor. Python opens it as not inheritable, so neither Spark's
    JVM nor its workers keep the lock when this process is gone.
    """
    storage.check_writable()
    path = pathlib.Path(storage.path(LOCK_FILE))
    with _opened(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = storage.read_text(LOCK_FILE) or ""
            raise _already_running(text, str(path), _FREE_WITH_PROCESS) from None
        _rewrite(path, json.dumps(asdict(holder)))
        try:
            yield
        finally:
            _rewrite(path, "")


def _opened(path: pathlib.Path) -> IO[str]:
    try:
        return path.open("a+", encoding="utf-8")
    except OSError as error:
        raise OperationError("STORAGE_NOT_WRITABLE", path=path, problem=error) from error


def _rewrite(path: pathlib.Path, text: str) -> None:
    """Replace what the lock file says, in place: a rename would put another file under the lock's name."""
    path.write_text(text, encoding="utf-8")


def _already_running(holder_json: str, path: str, remedy: str) -> OperationError:
    holder = _parse_holder(holder_json)
    if holder is None:
        who = "another process has just begun"
    else:
        who = f"update {holder.update_id}, process {holder.pid} on {holder.host}, since {holder.since}"
    return OperationError("UPDATE_ALREADY_RUNNING", holder=who, path=path, when_dead=remedy)


def _parse_holder(text: str) -> LockHolder | None:
    """Who holds the lock; None in the moment in which a new holder has not written it yet."""
    try:
        return LockHolder(**json.loads(text))
    except (ValueError, TypeError):
        return None
