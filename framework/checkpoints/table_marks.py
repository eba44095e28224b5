"""Detection of outdated table copies: a file beside each flow's manifest stores the table's version at the last run.

The version of a Delta table only grows. A table with the same id at an earlier version is therefore an older copy, such
as one restored from a backup of its folder. The checkpoint is not older: the flow would continue after rows that the
table no longer has. A table with another id that was created earlier is an older copy, too. So can be two companions of
the table: AUTO CDC's auxiliary table, without whose deletes late events bring rows back, and the flow's rows in the
quarantine. For a sink, the file stores its location. It is written when a generation begins, when a run of the flow
ends, and once a minute while it runs.
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
    """The state of a flow's table when the flow last ran.

    Args:
        generation: the generation that was current. A generation that begins later, such as by a reset, continues with
            any version of the table; an earlier one, after a roll-back, does not.
        table_id: Delta's id of the table, or the location of a sink.
        version: the table's newest version; 0 for a sink.
        created: when the table was created, in epoch milliseconds; 0 for a sink.
        auxiliary: the newest version of the auxiliary table; None if there is none.
        quarantine: the newest version of the quarantine table, if it has rows of the flow.
        commits: identifies the commits of these three versions, as far as known, among commits with the same number.
    """

    generation: int
    table_id: str
    version: int
    created: int = 0
    auxiliary: int | None = None
    quarantine: int | None = None
    commits: tuple[str | None, ...] = ()


def write_mark(storage: Storage, dataset: QualifiedName, flow: QualifiedName, mark: TableMark) -> None:
    """Store a mark if it is new. If the process dies before, the earlier mark is still valid."""
    if read_mark(storage, dataset, flow) != mark:
        storage.write_text(_path(storage, dataset, flow), _FORMAT.text(asdict(mark)))


def read_mark(storage: Storage, dataset: QualifiedName, flow: QualifiedName) -> TableMark | None:
    """Return the mark of a flow; None if there is none or if it is damaged, since it is only a safeguard.

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
