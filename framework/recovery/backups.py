"""Backups of tables before a full refresh: compared with the refreshed tables, and dropped at a user's request."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from framework.checkpoints.backups import Backup, BackupComparison, BackupStore, StoredBackup
from framework.checkpoints.rebuilds import RebuildStore
from framework.engine.jvm.java_errors import Py4JError
from framework.foundation.errors import OperationError, SluiceError, UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.foundation.processes import user_name
from framework.foundation.table_address import TableAddress
from framework.record.drafts import user_action
from framework.recovery.request import ComparisonRequest
from framework.run.update.checkpoint_actions import changing
from framework.run.update.lock import update_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from framework.graph.graph import DataflowGraph
    from framework.recovery.comparison import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSelection:
    """Some backups of a dataset.

    Args:
        dataset: the dataset.
        number: the number of one backup; None for all of them.
    """

    dataset: QualifiedName
    number: int | None = None


def list_backups(storage: Storage) -> tuple[StoredBackup, ...]:
    """Return all complete backups, by dataset and number; needs no Spark."""
    store = BackupStore(storage)
    return tuple(StoredBackup(backup=each, path=store.table(each.dataset, each.number)) for each in store.list_all())


def compare_backups(
    storage: Storage, graph: DataflowGraph, compare: Callable[[ComparisonRequest], Comparison]
) -> tuple[Backup, ...]:
    """Compare the backups of finished full refreshes with the refreshed tables, and record the results.

    A backup is compared once. A crash before the record is safe: the comparison changes nothing, and the next call
    compares the backup with the current table. A comparison takes long, so it holds no lock; its result is recorded
    under the lock, and only if the compared backup still exists. Otherwise the record would bring back a backup that
    was dropped meanwhile, without its table, or mark a new backup with the same number as published.

    Args:
        storage: the pipeline's storage.
        graph: the pipeline's graph; only backups of its tables are compared.
        compare: compares two tables.

    Returns:
        The compared backups.
    """
    store, found = BackupStore(storage), []
    for backup in store.list_all():
        dataset = graph.dataset(backup.dataset)
        is_finished = backup.published_version is not None and backup.comparison is None
        if is_finished and dataset is not None and dataset.is_table:
            path = store.table(backup.dataset, backup.number)
            request = ComparisonRequest(first=str(backup.dataset), second=TableAddress(path=path).sql, limit=0)
            try:
                result = compare(request)
            except (SluiceError, PySparkException, Py4JError):
                if store.read(backup.dataset, backup.number) == backup:
                    raise
                continue  # its table was dropped during the read
            compared = replace(backup, comparison=_comparison(result))
            if _recorded(storage, backup, compared):
                found.append(compared)
    return tuple(found)


def _recorded(storage: Storage, backup: Backup, compared: Backup) -> bool:
    """Record the comparison unless the backup has changed, or an update runs; a later call then compares it again."""
    store = BackupStore(storage)
    try:
        with update_lock(storage, str(uuid.uuid4())):
            is_same = store.read(backup.dataset, backup.number) == backup
            if is_same:
                store.write(compared)
            return is_same
    except OperationError as error:
        if error.condition != "UPDATE_ALREADY_RUNNING":
            raise
        return False


def drop_backups(storage: Storage, pipeline: str, selection: BackupSelection) -> tuple[Backup, ...]:
    """Delete backups, and write an event for each.

    Args:
        storage: the pipeline's storage.
        pipeline: its name, for the event log.
        selection: which backups.

    Returns:
        The deleted backups.

    Raises:
        UserError: BACKUP_NOT_FOUND, BACKUP_IN_USE; nothing is deleted.
        OperationError: an update is running.
    """
    with changing(storage, pipeline) as log:
        chosen = _selected(storage, selection)
        rebuild = RebuildStore(storage).read(selection.dataset)
        if rebuild is not None and not rebuild.published and any(each.number == rebuild.backup for each in chosen):
            raise UserError("BACKUP_IN_USE", dataset=selection.dataset, number=rebuild.backup)
        for backup in chosen:
            BackupStore(storage).delete(backup)
            text = f"Backup {backup.number} of {backup.dataset} (version {backup.version}) dropped."
            log.record(user_action(action="DROP_BACKUP", user_name=user_name(), message=text))
    return chosen


def _selected(storage: Storage, selection: BackupSelection) -> tuple[Backup, ...]:
    """Return the selected backups, at least one."""
    known = BackupStore(storage).of(selection.dataset)
    chosen = tuple(backup for backup in known if selection.number in (None, backup.number))
    if not chosen:
        number = "" if selection.number is None else f" {selection.number}"
        numbers = ", ".join(str(backup.number) for backup in known)
        hint = f" Its backups: {numbers}." if known else ""
        raise UserError("BACKUP_NOT_FOUND", dataset=selection.dataset, number=number, known=hint)
    return chosen


def _comparison(found: Comparison) -> BackupComparison:
    assert found.first.version is not None  # a dataset's table is one of Delta
    return BackupComparison(
        table_version=found.first.version,
        table_rows=found.first.rows,
        backup_rows=found.second.rows,
        added=found.totals.only_first,
        missing=found.totals.only_second,
        changed=found.totals.different,
    )
