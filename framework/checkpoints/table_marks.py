"""How far the table of a flow had come, or where its sink was, when it last ran: a file beside its manifest.

A Delta table's version only grows. A table with the same id at an earlier version is an older copy, such as one from a
backup of its folder. The checkpoint is not: the flow would go on behind rows that the table no longer has. So is a
table with another id that was created earlier. What belongs to the table can be an older copy, too: AUTO CDC's
auxiliary table, without whose deletes late events bring rows back, and the rows of the flow in the quarantine. The file
is written when a generation begins, when a run of the flow ends, and once a minute while it runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from framework.checkpoints.generations import flow_folder
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)
_FILE = "table.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMark:
    """The table that a flow goes on in.

    Args:
        generation: the generation that was current: one that begins later, such as by a reset, continues with any
            version. An earlier one, after a roll-back, does not.
        table_id: Delta's id of the table, or the place of a sink.
        version: the table's newest version; 0 for a sink.
        created: when the table was created, in epoch milliseconds; 0 for a sink.
        auxiliary: the newest version of the auxiliary table; None if there is none.
        quarantine: that of the quarantine, if it has rows of the flow.
        commits: what tells the commits of these three versions from others of the same number, as far as they are
            known.
    """

    generation: int
    table_id: str
    version: int
    created: int = 0
    auxiliary: int | None = None
    quarantine: int | None = None
    commits: tuple[str | None, ...] = ()


def write_mark(storage: Storage, dataset: QualifiedName, flow: QualifiedName, mark: TableMark) -> None:
    """Keep a mark if it is new. A process that dies before leaves an earlier mark, which is true as well."""
    if read_mark(storage, dataset, flow) != mark:
        storage.write_text(_path(storage, dataset, flow), _FORMAT.text(asdict(mark)))


def read_mark(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> TableMark | None:
    """Return the mark of a flow; None if there is none. A damaged one is none: it is only a safeguard.

    Raises:
        OperationError: STORED_FORMAT_UNKNOWN.
    """
    path = _path(storage, dataset, flow)
    text = storage.read_text(path)
    try:
        if text is None:
            return None
        found = _FORMAT.content(text, path)
        return TableMark(**{**found, "commits": tuple(found["commits"])})
    except (ValueError, TypeError, KeyError):
        return None


def _path(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> str:
    return f"{flow_folder(storage, dataset, flow)}/{_FILE}"
