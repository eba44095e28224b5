"""Tables as flows left them, and older copies in their place; see `framework.checkpoints.table_marks`."""

from __future__ import annotations

from urllib.parse import unquote

from framework.checkpoints.manifest import BY_LOSS, GenerationState, Manifest
from framework.checkpoints.table_marks import TableMark, read_mark, write_mark
from framework.foundation.names import QualifiedName
from framework.foundation.read_once import fresh
from framework.foundation.storage import Storage
from framework.run.tables.table_record import QUARANTINE_FOLDER, StorageLayout, read_record
from framework.sources.delta.log import LogTip, latest_version, read_tip


def mark_table(storage: Storage, path: str, dataset: QualifiedName, flow: QualifiedName, generation: int) -> None:
    """Store how far a table has come: a generation of a flow goes on only in this version or a later one."""
    tip = read_tip(storage, path)
    if tip is not None and tip.table_id is not None:
        write_mark(
            storage, dataset, flow,
            TableMark(
                generation=generation, table_id=tip.table_id, version=tip.version, created=tip.created,
                auxiliary=latest_version(storage, StorageLayout(storage=storage).auxiliary(dataset)),
                quarantine=_quarantine_version(storage, flow),
            ),
        )  # fmt: skip


def _quarantine_version(storage: Storage, flow: QualifiedName) -> int | None:
    """Return the newest version of the quarantine; None if it has no rows of a flow, each of which has a partition."""
    path = storage.path(QUARANTINE_FOLDER)
    partitions = {unquote(folder) for folder in storage.list_names(path)}
    return latest_version(storage, path) if f"flow={flow}" in partitions else None


def mark_recorded_table(storage: Storage, dataset: QualifiedName, flow: QualifiedName, generation: int) -> None:
    """Store how far a table has come that is at the path of its record; nothing without a record, as for a sink."""
    record = read_record(storage, StorageLayout(storage=storage), dataset)
    if record is not None:
        mark_table(storage, record.path, dataset, flow, generation)


def older_copy(storage: Storage, path: str, manifest: Manifest, tip: LogTip | None) -> str:
    """Return what says that an older copy is in the place of a flow's table, as a clause; empty if none is.

    A generation that began after the mark goes on in any table, except in one whose loss ended an earlier generation:
    the flow begins anew in the table that was created since. A roll-back makes a generation from before the mark
    current.

    Args:
        storage: reads the mark and the log.
        path: the folder of the table.
        manifest: the generations of the flow.
        tip: the end of the log.
    """
    mark = None if tip is None else read_mark(storage, manifest.dataset, manifest.flow)
    if tip is None or mark is None:
        return ""
    marked, current = manifest.find(mark.generation), manifest.in_state(GenerationState.CURRENT)
    if marked is not None and marked.undone_by == BY_LOSS and mark.table_id == tip.table_id:
        return "is the table from before it was deleted"
    if current is not None and mark.generation < current.number:
        return ""
    if tip.table_id not in {None, mark.table_id}:
        return "is a table from before it was deleted and created again" if tip.created < mark.created else ""
    if tip.version < mark.version and (now := _version_before(storage, path, mark.version)):
        return f"is {now}"
    return _older_companion(storage, mark, manifest.dataset)


def _older_companion(storage: Storage, mark: TableMark, dataset: QualifiedName) -> str:
    """Return what says that an older copy of what belongs to a table is in its place; empty if none is."""
    auxiliary, quarantine = StorageLayout(storage=storage).auxiliary(dataset), storage.path(QUARANTINE_FOLDER)
    if now := _version_before(storage, auxiliary, mark.auxiliary):
        return f"has an auxiliary table ({auxiliary}) that is {now}"
    if now := _version_before(storage, quarantine, mark.quarantine):
        return f"has rows in a quarantine ({quarantine}) that is {now}"
    return ""


def _version_before(storage: Storage, path: str, marked: int | None) -> str:
    """Return what says that a table has an earlier version than the marked one, or is gone; empty if it has not."""
    if marked is None or (latest_version(storage, path) or 0) >= marked > 0:
        return ""
    # A flow that runs, as while a continuous update plans a part anew, may have ended since the log was listed.
    present = latest_version(fresh(storage), path)
    if present is not None and present >= marked:
        return ""
    return f"{'gone' if present is None else f'at version {present}'}, and was at version {marked} before"
