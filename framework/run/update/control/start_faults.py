"""Faults of stored files that each update reads at its start: `plan`, `run` and the doctor report them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from framework.checkpoints.backups import BackupStore
from framework.checkpoints.reset_requests import ResetRequests
from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import Storage
from framework.run.tables.storage_identity import StorageIdentity
from framework.run.update.control.lock_holder import check_lock_format


def start_faults(storage: Storage) -> Iterator[OperationError]:
    """Yield an error for the lock, the identity and the reset requests of a storage, if they can't be used.

    No update begins with one of them: each concerns the whole storage, or a flow whose checkpoint is to be reset.
    """
    yield from _faults(lambda: check_lock_format(storage))
    yield from _faults(lambda: StorageIdentity.of(storage))
    yield from _faults(lambda: ResetRequests(storage, SystemClock()).pending())


def backup_faults(storage: Storage) -> Iterator[OperationError]:
    """Yield an error if a backup can't be used; only an update that keeps history reads backups."""
    yield from _faults(lambda: BackupStore(storage).list_all())


def check_startable(storage: Storage, *, keeps_history: bool) -> None:
    """Check that an update can begin, without writing anything.

    Args:
        storage: the pipeline's storage.
        keeps_history: whether its full refreshes back up their tables.

    Raises:
        OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED; the first fault of several.
    """
    for fault in start_faults(storage):
        raise fault
    for fault in backup_faults(storage) if keeps_history else ():
        raise fault


def _faults(read: Callable[[], object]) -> Iterator[OperationError]:
    try:
        read()
    except OperationError as error:
        yield error
