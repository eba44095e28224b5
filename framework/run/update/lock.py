"""The update lock: one update of a pipeline at a time, across processes and machines."""

from __future__ import annotations

import fcntl
import os
import pathlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO

from framework.engine.jvm.gateway import current_jvm
from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage, Storage
from framework.foundation.processes import start_of_process
from framework.foundation.resource_faults import file_fault
from framework.run.update.control.lock_holder import (
    LEASE_FOLDER,
    LOCK_FILE,
    LockHolder,
    holder_text,
    is_locked,
    parse_holder,
)
from framework.run.update.lease import Lease, LeaseTerms
from framework.session.keeper_client.client import held_by_server

_JVM_END_SECONDS, _POLL_SECONDS = 30.0, 0.05
_LOOK_SECONDS, _LOOK_POLL_SECONDS = 1.0, 0.01
_FREE_WITH_PROCESS = "The lock is released when its process ends."


@contextmanager
def update_lock(
    storage: Storage,
    update_id: str,
    *,
    clock: Clock | None = None,
    on_lost: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Hold the pipeline's lock during the block.

    On local storage it is an operating system lock, which is released as soon as its process ends. Elsewhere it is a
    lease that its holder renews; another process may take it over after a minute without renewal.

    Args:
        storage: the pipeline's storage.
        update_id: the update that acquires the lock; the error of a concurrent update shows it.
        clock: the source of the holder's `since`.
        on_lost: called from another thread when a lease is lost, so that the update stops.

    Raises:
        OperationError: UPDATE_ALREADY_RUNNING with its holder; STORED_FORMAT_UNKNOWN if the last holder was of another
            release; UPDATE_LOCK_LOST at the end of the block, if the lease was lost.
    """
    now = clock or SystemClock()
    jvm = current_jvm()
    holder = LockHolder(
        host=socket.gethostname(),
        pid=os.getpid(),
        update_id=update_id,
        since=timestamp_text(now.now()),
        jvm=jvm,
        jvm_started=start_of_process(jvm) if jvm else "",
    )
    if isinstance(storage, LocalStorage):
        with _locked_file(storage, holder, now):
            yield
        return
    lease = Lease(storage, storage.path(LEASE_FOLDER), LeaseTerms(), on_lost)
    other = lease.acquire(asdict(holder))
    if other is not None:
        remedy = f"If its process is no longer running, run again in {lease.terms.lasts_seconds:.0f} seconds."
        raise _already_running(LockHolder(**other) if other else None, lease.folder, remedy)
    try:
        yield
    finally:
        kept = lease.release()
    if not kept:
        raise OperationError("UPDATE_LOCK_LOST", path=lease.folder)


def check_unlocked(storage: Storage) -> None:
    """Check that no update runs, without writing anything; a lease is not checked.

    Raises:
        OperationError: UPDATE_ALREADY_RUNNING with its holder.
    """
    if not isinstance(storage, LocalStorage):
        return
    path = pathlib.Path(storage.path(LOCK_FILE))
    if is_locked(str(path)):
        raise _already_running(_named_holder(storage, path), str(path), _FREE_WITH_PROCESS)


@contextmanager
def _locked_file(storage: LocalStorage, holder: LockHolder, clock: Clock) -> Iterator[None]:
    """Hold an exclusive `flock` on a file that names its holder.

    The file stays when the lock is released: otherwise one process could lock the deleted file while another locks its
    successor. Python opens it as not inheritable, so neither Spark's JVM nor its workers keep the lock after this
    process ends. A session server does keep it, until it has killed its JVM.
    """
    storage.check_writable()
    path = pathlib.Path(storage.path(LOCK_FILE))
    with _opened(path) as file:
        if not _took(file, clock):
            raise _already_running(_named_holder(storage, path), str(path), _FREE_WITH_PROCESS)
        _wait_for_jvm_of(parse_holder(storage.read_text(LOCK_FILE) or "", str(path)), holder, str(path), clock)
        _rewrite(path, holder_text(holder))
        with held_by_server(path, file.fileno()):
            try:
                yield
            finally:
                # A second Ctrl-C does not wait for Spark, but the next update must wait until its JVM has ended.
                if current_jvm() == holder.jvm:
                    _rewrite(path, "")


def _took(file: IO[str], clock: Clock) -> bool:
    """Take the lock and return whether this process has it; wait briefly for processes that only test it.

    A concurrent `check_unlocked` also holds the lock for microseconds, because `flock` has no other way to test it. On
    a busy machine that process may get no CPU meanwhile. `sluice lag` must not make an update fail.
    """
    deadline = clock.monotonic() + _LOOK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() > deadline:
                return False
            clock.sleep(_LOOK_POLL_SECONDS)
        else:
            return True


def _wait_for_jvm_of(killed: LockHolder | None, holder: LockHolder, path: str, clock: Clock) -> None:
    """Wait for the end of a killed update's JVM, because its streams run until the JVM ends.

    An update that ended on its own has emptied the file. A JVM ends itself a little after its Python process.

    Raises:
        OperationError: UPDATE_ALREADY_RUNNING, if it does not end.
    """
    if killed is None or killed.host != holder.host or not killed.jvm_started or killed.jvm == holder.jvm:
        return
    deadline = clock.monotonic() + _JVM_END_SECONDS
    while start_of_process(killed.jvm) == killed.jvm_started:
        if clock.monotonic() > deadline:
            remedy = f"The update was killed, but its Java process {killed.jvm} still runs: end that process."
            raise _already_running(killed, path, remedy)
        clock.sleep(_POLL_SECONDS)


def _opened(path: pathlib.Path) -> IO[str]:
    try:
        return path.open("a+", encoding="utf-8")
    except OSError as error:
        raise file_fault(error, path, "STORAGE_NOT_WRITABLE") from error


def _rewrite(path: pathlib.Path, text: str) -> None:
    """Rewrite the lock file in place: a rename would replace the locked file."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise file_fault(error, path, "STORAGE_NOT_WRITABLE") from error


def _already_running(holder: LockHolder | None, path: str, remedy: str) -> OperationError:
    if holder is None:
        who = "another process has just started"
    else:
        who = f"update {holder.update_id}, process {holder.pid} on {holder.host}, since {holder.since}"
    update = "" if holder is None else holder.update_id
    return OperationError("UPDATE_ALREADY_RUNNING", holder=who, path=path, advice=remedy, update=update)


def _named_holder(storage: Storage, path: pathlib.Path) -> LockHolder | None:
    """Return the holder of a held lock, for messages; None if unknown, such as a holder of another release."""
    try:
        return parse_holder(storage.read_text(LOCK_FILE) or "", str(path))
    except OperationError:
        return None
