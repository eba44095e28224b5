"""Reads change tables from LSN to LSN by plain SQL, and switches from a capture instance to a newer one at its begin.

The functions of change data capture are not used: `fn_cdc_get_all_changes_…` hides the order of commands in a
transaction, and is refused for a range that begins before its instance, even if there is nothing to lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from framework.foundation.errors import SourceError
from framework.sources.databases.sqlserver.log.change_rows import (
    DELETE,
    INSERT,
    UPDATE,
    ChangeTransaction,
    ChangeWriter,
    RowEncoder,
)
from framework.sources.databases.sqlserver.log.moved_keys import Deletion
from framework.sources.databases.sqlserver.lsn import Lsn
from framework.sources.databases.sqlserver.names import bracket
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.tables.instances import COMMAND, CaptureInstance

_DELETED, _BEFORE, _AFTER = 1, 3, 4
# The times of the server are in its own zone.
_TIMES = (
    "SELECT start_lsn, CONVERT(varchar(23), DATEADD(MINUTE, ?, tran_end_time), 126) FROM cdc.lsn_time_mapping "
    "WHERE start_lsn > ? AND start_lsn <= ?"
)
_ZONE = "SELECT DATEDIFF(MINUTE, SYSDATETIME(), SYSUTCDATETIME())"
_WINDOW = (
    "SELECT MAX(w.start_lsn), COUNT(*) FROM (SELECT TOP ({0}) start_lsn FROM cdc.lsn_time_mapping WHERE start_lsn > ? "
    "ORDER BY start_lsn) AS w"
)
_BRANCH = "SELECT ? AS place WHERE EXISTS (SELECT 1 FROM {0} WHERE [__$start_lsn] > ? AND [__$start_lsn] <= ?)"
_BRANCHES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A range of a capture instance.

    Args:
        instance: the instance.
        after: exclusive.
        to: inclusive.
    """

    instance: CaptureInstance
    after: Lsn
    to: Lsn


def segments(instances: Sequence[CaptureInstance], after: Lsn, to: Lsn) -> tuple[Segment, ...] | None:
    """Return which instance has the changes of which range; None if no instance has all of them.

    An instance has all changes from its begin on, with the columns of its table at the time when it was made. So an
    older instance is read up to the begin of the next one.

    Args:
        instances: those of one table, from the oldest to the newest.
        after: exclusive.
        to: inclusive.
    """
    begun = [each for each in instances if each.begin is not None]
    first = next((place for place in reversed(range(len(begun))) if _begins_by(begun[place], after)), None)
    if first is None:
        return None
    found: list[Segment] = []
    used = [begun[first], *(each for each in begun[first + 1 :] if _begins_by(each, to))]
    for instance, later in zip(used, [*used[1:], None], strict=True):
        last = to if later is None or later.begin is None else before(later.begin)
        if last > after:
            found.append(Segment(instance=instance, after=after, to=last))
        after = max(after, last)
    return tuple(found)


def before(lsn: Lsn) -> Lsn:
    """Return the greatest LSN below an LSN."""
    return Lsn((int.from_bytes(lsn.value, "big") - 1).to_bytes(len(lsn.value), "big"))


def next_window(session: Session, after: Lsn, most: int) -> tuple[Lsn | None, int]:
    """Return the LSN at the end of the next transactions after an LSN, and how many they are.

    Raises:
        SourceError: the database can't be read.
    """
    end, count = session.rows(_WINDOW.format(most), [after.value])[0]
    return (None if end is None else Lsn(bytes(end))), int(count)


def changed_segments(session: Session, found: Sequence[Segment]) -> list[Segment]:
    """Return the ranges in which a change table has rows, by few statements for many tables.

    Raises:
        SourceError: the database can't be read.
    """
    changed: list[Segment] = []
    for first in range(0, len(found), _BRANCHES):
        part = found[first : first + _BRANCHES]
        query = " UNION ALL ".join(_BRANCH.format(_name(each.instance)) for each in part)
        values = [value for place, each in enumerate(part) for value in (place, each.after.value, each.to.value)]
        changed += [part[place] for (place,) in sorted(session.rows(query, values))]
    return changed


def commit_times(session: Session, after: Lsn, to: Lsn) -> dict[Lsn, int]:
    """Return when the transactions of a range were committed, in microseconds since 1970 in UTC.

    Raises:
        SourceError: the database can't be read.
    """
    minutes = int(session.rows(_ZONE)[0][0])
    rows = session.rows(_TIMES, [minutes, after.value, to.value])
    return {Lsn(bytes(lsn)): _microseconds(text) for lsn, text in rows if text is not None}


def write_changes(
    session: Session, segment: Segment, encoder: RowEncoder, writer: ChangeWriter, times: Mapping[Lsn, int]
) -> None:
    """Write the changes of a range, in the order of the transactions, their commands and their records.

    Raises:
        SourceError: DATABASE_VALUE_NOT_REPRESENTABLE, or the database can't be read.
    """
    lsn, before, old = None, None, None
    for start, operation, *values in _rows(session, segment, encoder):
        if start != lsn:
            lsn, before = start, None
            found = Lsn(bytes(start))
            writer.begin(ChangeTransaction(found.order, times.get(found, 0)))
            if encoder.moved is not None:
                encoder.moved.begin()
        if operation == _BEFORE:
            old = values
        elif operation == _AFTER:
            _write_update(encoder, writer, old, values)
            old = None
        elif operation == _DELETED:
            _write_deletion(encoder, writer, values)
        else:
            # The two changes of an update that moves a row follow each other; others that do are taken for one, too.
            _write_insertion(encoder, writer, values, is_moved=before == _DELETED)
        before = operation
    writer.end()


def _write_update(encoder: RowEncoder, writer: ChangeWriter, old: list[Any] | None, new: list[Any]) -> None:
    if old is None or encoder.key_of(old) == encoder.key_of(new):
        if encoder.moved is not None:
            encoder.moved.change(encoder.key_of(new), new)
        encoder.write(writer, UPDATE, new)
        return
    _write_deletion(encoder, writer, old)
    _write_insertion(encoder, writer, new, is_moved=True)


def _write_deletion(encoder: RowEncoder, writer: ChangeWriter, row: list[Any]) -> None:
    found = Deletion.LAST if encoder.moved is None else encoder.moved.delete(encoder.key_of(row), row)
    if found is Deletion.UNKNOWN:
        encoder.fail(writer, SourceError("SQLSERVER_KEY_MOVED", table=encoder.shape.table))
    elif found is Deletion.LAST:
        encoder.write(writer, DELETE, row)


def _write_insertion(encoder: RowEncoder, writer: ChangeWriter, row: list[Any], *, is_moved: bool) -> None:
    if is_moved and encoder.moved is not None:
        encoder.moved.move(encoder.key_of(row), row)
    encoder.write(writer, INSERT, row)


def _rows(session: Session, segment: Segment, encoder: RowEncoder) -> Iterator[tuple[Any, ...]]:
    selected = ", ".join(("[__$start_lsn]", "[__$operation]", *(each.select_expression() for each in encoder.columns)))
    order = ", ".join(
        bracket(name)
        for name in ("__$start_lsn", *([COMMAND] if segment.instance.has_commands else []), "__$seqval", "__$operation")
    )
    query = (
        f"SELECT {selected} FROM {_name(segment.instance)} WHERE [__$start_lsn] > ? AND [__$start_lsn] <= ? "
        f"ORDER BY {order}"
    )
    values = [segment.after.value, segment.to.value]
    for batch in session.batches(query, values, table=encoder.shape.table):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _name(instance: CaptureInstance) -> str:
    return f"[cdc].{bracket(instance.change_table)}"


def _begins_by(instance: CaptureInstance, lsn: Lsn) -> bool:
    return instance.begin is not None and instance.begin <= lsn


def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)
