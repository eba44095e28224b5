"""Tables as flows left them, and older copies in their place; see `framework.checkpoints.table_marks`."""

from __future__ import annotations

from framework.checkpoints.manifest import BY_LOSS, GenerationState, Manifest
from framework.checkpoints.table_marks import TableMark, read_mark, write_mark
from framework.foundation.names import QualifiedName
from framework.foundation.read_once import fresh
from framework.foundation.storage import Storage
from framework.run.tables.table_record import StorageLayout, read_record
from framework.sources.delta.log import LogTip, latest_version, read_tip


def mark_table(storage: Storage, path: str, dataset: QualifiedName, flow: QualifiedName, generation: int) -> None:
    """Store how far a table has come: a generation of a flow goes on only in this version or a later one."""
    tip = read_tip(storage, path)
    if tip is not None and tip.table_id is not None:
        write_mark(
            storage, dataset, flow,
            TableMark(generation=generation, table_id=tip.table_id, version=tip.version, created=tip.created),
        )  # fmt: skip


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
    return _version_before(storage, path, mark, tip)


def _version_before(storage: Storage, path: str, mark: TableMark, tip: LogTip) -> str:
    """Return what says that a table has an earlier version than its mark; empty if it has not."""
    if tip.version >= mark.version:
        return ""
    # A flow that runs, as while a continuous update plans a part anew, may have ended since the tip was read.
    present = latest_version(fresh(storage), path)
    if present is None or present >= mark.version:
        return ""
    return f"is at version {present}, and was at version {mark.version} before"
