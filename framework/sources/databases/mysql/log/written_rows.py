"""The rows of copied tables among the events of the log."""

from __future__ import annotations

from collections.abc import Mapping

from framework.sources.databases.mysql.log.changes import CopiedTable, TableChanges, kinds_of
from framework.sources.databases.mysql.log.compressed import maria_rows
from framework.sources.databases.mysql.log.events import HEADER_SIZE, EventType
from framework.sources.databases.mysql.log.statements import Statement, StatementKind
from framework.sources.databases.mysql.log.table_map import IF_SET, LoggedTable, TextDecoder, read_table_map, table_name
from framework.sources.databases.streams.change_rows import ChangeBuffer, ChangeKind
from framework.sources.databases.tables import TableName

_ID = slice(HEADER_SIZE, HEADER_SIZE + 6)
_MOST_KNOWN = 10_000

_WRITES = (EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1)
_UPDATES = (EventType.UPDATE_ROWS, EventType.UPDATE_ROWS_V1)
_PLAIN: Mapping[int, EventType] = {
    EventType.MARIA_WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.MARIA_UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.MARIA_DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.MARIA_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.MARIA_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.MARIA_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
_VERSION_2 = (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS)
_UPDATES_PARTLY = EventType.PARTIAL_UPDATE_ROWS
ROW_EVENTS = frozenset({*_WRITES, *_UPDATES, EventType.DELETE_ROWS, EventType.DELETE_ROWS_V1, *_PLAIN, _UPDATES_PARTLY})
"""The events that have rows of a table that is described before."""


class WrittenRows:
    """Adds the rows of copied tables to a buffer.

    Args:
        tables: the copied tables.
        buffer: receives the rows.
        texts: decodes texts.
        keeps_unreadable: see `TableChanges`.
    """

    def __init__(
        self,
        tables: Mapping[TableName, CopiedTable],
        buffer: ChangeBuffer,
        texts: TextDecoder,
        *,
        keeps_unreadable: bool,
    ) -> None:
        self.tables = tables
        self.kinds: list[ChangeKind] = []
        self.is_mariadb = False
        self._buffer = buffer
        self._texts = texts
        self._keeps_unreadable = keeps_unreadable
        self._known: dict[bytes, TableChanges] = {}
        self._undescribed: dict[TableName, TableChanges] = {}
        self._present: dict[bytes, TableChanges | None] = {}

    def describe(self, data: bytes) -> None:
        """Use the description of a TABLE_MAP event for the rows that follow."""
        # The description, without the number of the table, which changes when the server opens the table again.
        key = data[HEADER_SIZE + 6 :]
        changes = self._known.get(key)
        if changes is None and table_name(data)[0] in self.tables:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            changes = self._known[key] = self._changes(read_table_map(data, self._texts, is_mariadb=self.is_mariadb))
        self._present[data[_ID]] = changes

    def is_copied(self, data: bytes) -> bool:
        """Whether the rows of an event belong to a copied table, or to one that is not described."""
        return self._present.get(data[_ID], self) is not None

    def add(self, kind: int, data: bytes) -> None:
        """Add the rows of an event."""
        changes = self._present.get(data[_ID])
        if changes is None:
            self.refuse_all("an event has rows of a table that is not described")
            return
        if kind == _UPDATES_PARTLY:
            changes.refuse(f"an update has parts of JSON values: binlog_row_value_options was PARTIAL_JSON; {IF_SET}")
            return
        if kind in _PLAIN:
            kind = _PLAIN[kind]
            data = maria_rows(data, has_extra=kind in _VERSION_2, is_update=kind in _UPDATES)
        has_extra = kind in _VERSION_2
        if kind in _WRITES:
            changes.insert(data, has_extra=has_extra)
        elif kind in _UPDATES:
            changes.update(data, has_extra=has_extra)
        else:
            changes.delete(data, has_extra=has_extra)

    def forget(self) -> None:
        """Forget the descriptions at the end of a transaction: each one describes its tables."""
        self._present.clear()

    def concerns(self, statement: Statement) -> bool:
        """Whether a statement may change copied rows or tables."""
        return bool(self._affected(statement))

    def apply(self, statement: Statement, position: int) -> None:
        """Add the rows that a statement stands for.

        Args:
            statement: the statement.
            position: the order of the place where its transaction begins.
        """
        kind = statement.kind
        for table in self._affected(statement):
            if kind == StatementKind.TRUNCATE:
                self._of(table).truncate()
            elif kind == StatementKind.DML:
                problem = f"the log has a statement instead of its rows: {statement.text}; {IF_SET}"
                self._of(table).refuse(problem)
            elif kind == StatementKind.PARTITION:
                self._of(table).refuse(f"rows were removed with a partition: {statement.text}")
            elif kind == StatementKind.REWRITE and self._keeps_unreadable and position > self.tables[table].known_from:
                problem = f"its columns were altered, and with them perhaps rows that are not in it: {statement.text}"
                self._of(table).refuse(problem)
        for table in self._left(statement):
            if position > self.tables[table].known_from:
                self._of(table).replace()

    def refuse_all(self, problem: str) -> None:
        """Add an unreadable row for each copied table."""
        for table in self.tables:
            self._of(table).refuse(problem)

    def _left(self, statement: Statement) -> set[TableName]:
        """Return the copied tables that lose their names: another table may have them from now on."""
        if statement.kind == StatementKind.SCHEMA:
            return {table for table in self.tables if table.schema == statement.schema}
        is_left = statement.is_replacing or statement.kind in (StatementKind.DROP, StatementKind.RENAME)
        return {*statement.tables} & {*self.tables} if is_left else set()

    def _affected(self, statement: Statement) -> list[TableName]:
        """Return the copied tables that a statement may concern."""
        if statement.kind in (StatementKind.UNKNOWN, StatementKind.SCHEMA) or (
            statement.kind == StatementKind.DML and not statement.tables
        ):
            return [
                table
                for table in self.tables
                if statement.kind != StatementKind.SCHEMA or table.schema == statement.schema
            ]
        named = {*statement.tables, *statement.new_tables}
        return [table for table in self.tables if table in named]

    def _of(self, table: TableName) -> TableChanges:
        """Return a table for rows that a statement stands for; without its columns, which depend on what was read."""
        found = self._undescribed.get(table)
        if found is None:
            found = self._undescribed[table] = self._changes(LoggedTable(table, (), "it was not described"))
        return found

    def _changes(self, table: LoggedTable) -> TableChanges:
        first = len(self.kinds)
        self.kinds += kinds_of(table)
        return TableChanges(
            table,
            self.tables[table.table],
            self._texts,
            buffer=self._buffer,
            first_kind=first,
            keeps_unreadable=self._keeps_unreadable,
        )
