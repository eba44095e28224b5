"""Changes by change tracking: the last state of each row that changed since a version, with the version of its change.

All tables are read in one snapshot, so that the rows are those of the version at its end. A row that changed again
before it is read again has a later version, and comes with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from framework.foundation.errors import SourceError
from framework.sources.databases.sqlserver.log.change_rows import (
    DELETE,
    INSERT,
    UPDATE,
    ChangedTable,
    ChangeTransaction,
    ChangeWriter,
    RowEncoder,
)
from framework.sources.databases.sqlserver.log.tracked_tables import TrackedTable, read_tracked
from framework.sources.databases.sqlserver.names import bracket, quoted
from framework.sources.databases.sqlserver.tables.catalog import read_tables
from framework.sources.databases.sqlserver.values.types import column_types
from framework.sources.databases.tables import REPLACED, UNREADABLE, SourceTable, TableName

if TYPE_CHECKING:
    from framework.sources.databases.sqlserver.log.stored_position import StoredPosition
    from framework.sources.databases.sqlserver.log.wanted_tables import WantedTables
    from framework.sources.databases.sqlserver.session import Session

_NOW = "SELECT CHANGE_TRACKING_CURRENT_VERSION(), CONVERT(varchar(23), SYSUTCDATETIME(), 126)"


def read_tracked_changes(
    session: Session,
    wanted: WantedTables,
    stored: StoredPosition,
    last: StoredPosition | None,
    writer: ChangeWriter,
) -> tuple[int, tuple[int, ...]]:
    """Write the changes after a version; return the version up to which they are, and the tables that were read.

    Args:
        session: a session.
        wanted: the tables.
        stored: the version after which changes are read.
        last: the version at the end; None for the present one.
        writer: takes the changes.

    Raises:
        SourceError: SQLSERVER_CAPTURE_GAP, SQLSERVER_TRACKING_HISTORY, or the database can't be read.
    """
    if wanted.histories:
        raise SourceError("SQLSERVER_TRACKING_HISTORY", table=wanted.histories[0])
    found = read_tables(session, wanted.names)  # before the snapshot: the catalog has no versions
    session.begin_snapshot()
    try:
        version, time = session.rows(_NOW)[0]
        end = int(version) if last is None else int(last.position)
        tables = _Tables(session, wanted, (int(stored.position), end), writer, _microseconds(time))
        tracked = read_tracked(session)
        ids = [tables.write(name, found[name], tracked, stored.tables) for name in wanted.names]
    finally:
        session.end()
    return end, tuple(sorted(number for number in ids if number))


class _Tables:
    """Writes the changes of tables between two versions."""

    def __init__(
        self, session: Session, wanted: WantedTables, versions: tuple[int, int], writer: ChangeWriter, time: int
    ) -> None:
        self._session = session
        self._wanted = wanted
        self._range = versions
        self._writer = writer
        self._time = time

    def write(
        self,
        name: TableName,
        table: SourceTable | SourceError,
        tracked: dict[int, TrackedTable],
        known: tuple[int, ...],
    ) -> int:
        """Write the changes of a table; return its object id, or 0 if its changes were not read."""
        number = self._wanted.identities.get(name, 0 if isinstance(table, SourceError) else int(table.identity))
        start, end = self._range
        if isinstance(table, SourceError) or int(table.identity) != number or number not in tracked:
            if number in known and end > start:
                self._add_gap(name, "change tracking was disabled, or the table was replaced", is_gone=True)
            return 0
        oldest = tracked[number].oldest
        if oldest > start and number in known:
            self._add_gap(name, f"they are kept from the version {oldest} on", is_gone=False)
            return 0
        if oldest > end:
            return 0
        if end > start:
            self._write_rows(table, max(start, oldest))
        return number

    def _write_rows(self, table: SourceTable, start: int) -> None:
        shape = ChangedTable(table.name, table.log_version)
        columns = column_types(table, self._wanted.text_columns.get(table.name, ()))
        encoder = RowEncoder(shape, columns, table.key, is_kept=self._wanted.keeps_unreadable)
        names = [column.name for column in columns]
        places = [names.index(name) for name in table.key]
        keys = len(places)
        version = None
        for changed, operation, *values in self._rows(table, columns, start):
            if changed != version:
                version = changed
                self._writer.begin(ChangeTransaction(int(changed) + 1, self._time))
            row: list[Any] = values[keys + 1 :]
            is_gone = operation == "D" or values[keys] is None
            if is_gone:
                row = [None] * len(columns)
                for place, value in zip(places, values[:keys], strict=True):
                    row[place] = value
            encoder.write(self._writer, DELETE if is_gone else INSERT if operation == "I" else UPDATE, row)
        self._writer.end()

    def _rows(self, table: SourceTable, columns: Any, start: int) -> Iterator[tuple[Any, ...]]:
        by_name = {column.name: column for column in columns}
        joined = " AND ".join(f"t.{bracket(name)} = ct.{bracket(name)}" for name in table.key)
        keys = [
            by_name[name].select_expression("ct.").replace(f" AS {bracket(name)}", f" AS [key{place}]")
            for place, name in enumerate(table.key)
        ]
        rows = [column.select_expression("t.") for column in columns]
        found = f"CASE WHEN t.{bracket(table.key[0])} IS NULL THEN NULL ELSE 1 END AS [is_found]"
        query = (
            f"SELECT ct.SYS_CHANGE_VERSION, ct.SYS_CHANGE_OPERATION, {', '.join((*keys, found, *rows))} "
            f"FROM CHANGETABLE(CHANGES {quoted(table.name)}, {start}) AS ct LEFT JOIN {quoted(table.name)} AS t "
            f"ON {joined} WHERE ct.SYS_CHANGE_VERSION <= ? ORDER BY ct.SYS_CHANGE_VERSION"
        )
        for batch in self._session.batches(query, [self._range[1]], table=table.name):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _add_gap(self, name: TableName, reason: str, *, is_gone: bool) -> None:
        error = SourceError("SQLSERVER_CAPTURE_GAP", table=name, position=self._range[0], reason=reason)
        if not self._wanted.keeps_unreadable:
            raise error
        self._writer.begin(ChangeTransaction(self._range[1] + 1, self._time))
        shape = ChangedTable(name, 1)
        self._writer.add(shape, REPLACED if is_gone else UNREADABLE, None if is_gone else error.what)
        self._writer.end()


def _microseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)
