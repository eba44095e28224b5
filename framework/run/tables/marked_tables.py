"""Tables as flows left them, and older copies in their place; see `framework.checkpoints.table_marks`."""

from __future__ import annotations

from framework.checkpoints.table_marks import TableMark, read_mark, write_mark
from framework.foundation.names import QualifiedName
from framework.foundation.read_once import fresh
from framework.foundation.storage_port import Storage
from framework.sources.delta.log import LogTip, latest_version, read_tip


def mark_table(storage: Storage, path: str, dataset: QualifiedName, flow: QualifiedName, generation: int) -> None:
    """Store how far a table has come: a generation of a flow goes on only in this version or a later one."""
    tip = read_tip(storage, path)
    if tip is not None and tip.table_id is not None:
        write_mark(
            storage, dataset, flow,
            TableMark(generation=generation, table_id=tip.table_id, version=tip.version, created=tip.created),
        )  # fmt: skip


def older_copy(
    storage: Storage, path: str, dataset: QualifiedName, flow: QualifiedName, *, tip: LogTip | None, generation: int
) -> str:
    """Return what says that an older copy is in the place of a table, as a clause; empty if none is.

    Args:
        storage: reads the mark and the log.
        path: the folder of the table.
        dataset: its name.
        flow: the flow.
        tip: the end of the log.
        generation: the flow's current generation.
    """
    mark = None if tip is None else read_mark(storage, dataset, flow)
    if tip is None or mark is None or mark.generation != generation:
        return ""
    if mark.table_id != tip.table_id:
        return "is a table from before it was deleted and created again" if tip.created < mark.created else ""
    if tip.version >= mark.version:
        return ""
    # A flow that runs, as while a continuous update plans a part anew, may have ended since the tip was read.
    present = latest_version(fresh(storage), path)
    if present is None or present >= mark.version:
        return ""
    return f"is at version {present}, and was at version {mark.version} before"
