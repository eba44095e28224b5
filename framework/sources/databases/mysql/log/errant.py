"""Transactions that another server made before those that were read, so that its tables are not those of the copies."""

from __future__ import annotations

from collections.abc import Callable, Collection

from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.mysql.log.events import Event, EventType
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.log.statements import StatementKind, read_statement
from framework.sources.databases.mysql.log.table_map import table_name
from framework.sources.databases.mysql.log.transactions import GTIDS, QUERIES, Events, NoTexts, unpacked
from framework.sources.databases.mysql.log.written_rows import WrittenRows
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.tables import TableName

_WITHOUT_ROWS = (StatementKind.BEGIN, StatementKind.COMMIT, StatementKind.ROLLBACK, StatementKind.HARMLESS)
_OF_XA = (StatementKind.XA_START, StatementKind.XA_COMMIT, StatementKind.XA_ROLLBACK)


def errant_transaction(
    events: Events,
    end: LogPlace,
    tables: Collection[TableName],
    *,
    is_read: Callable[[str], bool],
    is_expected: Callable[[str], bool],
    is_read_from_end: bool = False,
) -> str:
    """Return the GTID of a transaction that was not read, though one after it was; empty if there is none.

    Args:
        events: the log of the other server from a place on.
        end: where the search ends.
        tables: the copied tables; transactions that do not concern them do not count.
        is_read: says of a GTID whether its transaction was read.
        is_expected: says of a GTID that its transaction may follow later ones: servers commit in parallel.
        is_read_from_end: whether those after the end count as read.

    Raises:
        SourceError: the log can't be read.
    """
    concerns = _Concerns(tables)
    present = suspect = ""
    while events.place < end:
        event = events.read()
        if event is None:
            continue
        if event.kind in GTIDS:
            gtid = GTIDS[event.kind](event).text
            if suspect and is_read(gtid):
                return suspect
            present = "" if is_read(gtid) or is_expected(gtid) else gtid
        elif present and not suspect and any(map(concerns.has, unpacked(event))):
            suspect = present
    return suspect if is_read_from_end else ""


class _Concerns:
    """Says of an event whether it may change tables."""

    def __init__(self, tables: Collection[TableName]) -> None:
        self._tables = tables
        known = {table: CopiedTable() for table in tables}
        self._rows = WrittenRows(known, ChangeBuffer(), NoTexts(), keeps_unreadable=True)

    def has(self, event: Event) -> bool:
        """Whether it may change one of the tables."""
        if event.kind == EventType.TABLE_MAP:
            return table_name(event.data)[0] in self._tables
        if event.kind not in QUERIES:
            return False
        query = QUERIES[event.kind](event.data)
        statement = read_statement(query.text, query.schema)
        return statement.kind not in (*_WITHOUT_ROWS, *_OF_XA) and self._rows.concerns(statement)
