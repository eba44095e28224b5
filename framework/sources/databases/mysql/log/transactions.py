"""Transactions of the log: their rows in a buffer, their begins and ends, and the statements between them.

The rows of one event at most are in memory beyond what the caller writes. A prepared XA transaction is left out, and
read again from its place when it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.log.binlog_connection import NOT_IN_LOG, LogRefusedError
from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.mysql.log.compressed import maria_query, payload_events
from framework.sources.databases.mysql.log.events import (
    HEADER_SIZE,
    IGNORABLE,
    Event,
    EventType,
    Gtid,
    Query,
    is_of_mariadb,
    read_gtid,
    read_header,
    read_load_query,
    read_maria_gtid,
    read_query,
)
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.log.statements import Statement, StatementKind, read_statement
from framework.sources.databases.mysql.log.table_map import TextDecoder
from framework.sources.databases.mysql.log.tagged_gtids import read_tagged_gtid
from framework.sources.databases.mysql.log.written_rows import ROW_EVENTS, WrittenRows
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.tables import TableName

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Begin:
    """The begin of a transaction with rows or statements of copied tables.

    Args:
        place: where it begins.
        position: the order of the place.
        commit_microseconds: when it was committed, since 1970.
        gtid: its identifier; empty if it has none.
    """

    place: LogPlace
    position: int
    commit_microseconds: int
    gtid: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows were added to the buffer, from so many bytes of the log."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction.

    Args:
        place: the place after it.
        begin: where it begins.
        gtid: its identifier; empty if it has none.
        commit_microseconds: when it was committed, since 1970, as its first event says.
        has_begun: whether a `Begin` came before.
    """

    place: LogPlace
    begin: LogPlace
    gtid: str
    commit_microseconds: int
    has_begun: bool


@dataclass(frozen=True, slots=True)
class Idle:
    """Everything before the place was delivered; there is nothing more at present, or nothing of copied tables."""

    place: LogPlace


Step = Begin | Rows | Statement | Commit | Idle


class Events(Protocol):
    """The events of the log, see `EventStream`."""

    @property
    def place(self) -> LogPlace:
        """The place after the last event."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of its places."""
        ...

    @property
    def file(self) -> str:
        """The present file."""
        ...

    def read(self) -> Event | None:
        """Return the next event; None if there is none at present."""
        ...

    def close(self) -> None:
        """End the stream."""
        ...


class _Group:
    """A transaction, or a single statement, that is being read."""

    def __init__(self, begin: LogPlace, gtid: Gtid) -> None:
        self.begin = begin
        self.gtid = gtid.text
        self.commit_microseconds = gtid.commit_microseconds
        self.is_transaction = gtid.is_transaction
        self.has_begun = False
        self.is_left_out = False
        """Whether its rows and statements do not count."""
        self.xid = gtid.xid
        """The XA transaction that is prepared by it, whose rows are left out."""


class TransactionReader:
    """Reads transactions.

    Args:
        events: the log from a place between two transactions on.
        tables: the copied tables; the rows of others are skipped.
        buffer: receives the rows.
        texts: decodes texts.
        keeps_unreadable: whether a row that can't be read is kept with the operation UNREADABLE. Otherwise it is an
            error, which ends the changes of all tables.
        prepared: the XA transactions that are prepared before the place, with the places where they begin.
        reopen: opens the log at the begin of a prepared transaction.
        find_prepared: finds the begin of another one, by its name; None if the log does not have it.
    """

    def __init__(
        self,
        events: Events,
        tables: Mapping[TableName, CopiedTable],
        buffer: ChangeBuffer,
        texts: TextDecoder,
        *,
        reopen: Callable[[LogPlace], Events],
        find_prepared: Callable[[str], LogPlace | None] = lambda _: None,
        keeps_unreadable: bool = False,
        prepared: Mapping[str, LogPlace] | None = None,
    ) -> None:
        self._events = events
        self._reopen = reopen
        self._find_prepared = find_prepared
        self._rows = WrittenRows(tables, buffer, texts, keeps_unreadable=keeps_unreadable)
        self.kinds = self._rows.kinds
        self.prepared = dict(prepared or {})
        """The XA transactions that are prepared and not yet ended, with the places where they begin."""
        self.leaves_out: Callable[[str], bool] | None = None
        """Says of the GTID of a transaction whether its rows and statements do not count."""
        self._group: _Group | None = None

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the log, without an end.

        Raises:
            SourceError: the log can't be read; or a row is unreadable and not kept.
        """
        while True:
            event = self._events.read()
            if event is None:
                if self._group is None:
                    yield Idle(self._events.place)
            elif event.kind == EventType.ROTATE:
                if self._group is not None:
                    yield from self._cut(event, "a transaction has no end in its file of the log")
                yield Idle(self._events.place)
            else:
                was_outside = self._group is None
                yield from self._take(event)
                if was_outside and self._group is None:
                    # A read that ended here ends here again, though transactions follow by now.
                    yield Idle(self._events.place)

    def _take(self, event: Event) -> Iterator[Step]:
        kind = event.kind
        if kind == EventType.TABLE_MAP:
            self._rows.describe(event.data)
        elif kind in ROW_EVENTS:
            yield from self._row_event(event)
        elif kind == EventType.FORMAT_DESCRIPTION:
            self._rows.is_mariadb = is_of_mariadb(event.data)
        elif kind in GTIDS:
            self._open(GTIDS[kind](event), event)
        elif kind == EventType.XID:
            yield from self._end(event)
        elif kind in QUERIES:
            yield from self._query(QUERIES[kind](event.data), event)
        elif kind == EventType.TRANSACTION_PAYLOAD:
            yield from self._payload(event)
        elif kind == EventType.XA_PREPARE:
            yield from self._prepare(event)
        elif kind not in _IGNORED and not event.flags & IGNORABLE:
            yield from self._refuse(_UNREADABLE.get(kind, f"an event of the unknown type {kind} may have rows"), event)

    def _open(self, gtid: Gtid, event: Event) -> None:
        place = LogPlace(self._events.file, event.start, self._events.epoch)
        self._group = _Group(place, gtid)
        if self.leaves_out is not None and gtid.text:
            self._group.is_left_out = self.leaves_out(gtid.text)

    def _opened(self, event: Event) -> _Group:
        """Return the present group; one without an identifier begins here."""
        if self._group is None:
            self._open(Gtid("", event.seconds * _MICROS), event)
        assert self._group is not None
        return self._group

    def _begin(self, event: Event) -> Iterator[Begin]:
        """Yield the begin of the present group before its first row."""
        group = self._opened(event)
        if not group.has_begun:
            group.has_begun = True
            yield Begin(group.begin, group.begin.order, group.commit_microseconds, group.gtid)

    def _row_event(self, event: Event) -> Iterator[Step]:
        group = self._opened(event)
        if group.xid or group.is_left_out or not self._rows.is_copied(event.data):
            return
        yield from self._begin(event)
        self._rows.add(event.kind, event.data)
        yield Rows(len(event.data))

    def _query(self, query: Query, event: Event) -> Iterator[Step]:
        group = self._opened(event)
        statement = read_statement(query.text, query.schema)
        kind = statement.kind
        if kind == StatementKind.BEGIN:
            group.is_transaction = True
        elif kind == StatementKind.XA_START:
            group.is_transaction, group.xid = True, statement.xid
        elif kind == StatementKind.COMMIT:
            yield from self._end(event)
        elif kind == StatementKind.ROLLBACK:
            yield from self._cut(event, "the log has rows of a transaction that was rolled back")
        else:
            yield from self._statement(statement, event)
            if not group.is_transaction:
                yield from self._end(event)

    def _cut(self, event: Event, problem: str) -> Iterator[Step]:
        """End a transaction that was not committed; which of its rows the tables have is unknown, if it has any."""
        if self._opened(event).has_begun:
            yield from self._refuse(problem, event)
        yield from self._end(event)

    def _statement(self, statement: Statement, event: Event) -> Iterator[Step]:
        if statement.kind == StatementKind.XA_COMMIT:
            yield from self._commit_prepared(statement.xid, event)
        elif statement.kind == StatementKind.XA_ROLLBACK:
            self.prepared.pop(statement.xid, None)
        elif self._is_of_copied(statement, event):
            yield from self._begin(event)
            self._rows.apply(statement, self._opened(event).begin.order)
            yield Rows(len(event.data))
            yield statement

    def _is_of_copied(self, statement: Statement, event: Event) -> bool:
        group = self._opened(event)
        is_harmless = statement.kind == StatementKind.HARMLESS or bool(group.xid)
        return not is_harmless and not group.is_left_out and self._rows.concerns(statement)

    def _payload(self, event: Event) -> Iterator[Step]:
        """Take the events in a compressed transaction."""
        try:
            for data in payload_events(event):
                seconds, kind, server, _, _, flags = read_header(data, 0)
                yield from self._take(Event(kind, seconds, server, flags, data, event.start, event.end))
        except ValueError as error:
            yield from self._refuse(f"a compressed transaction can't be read: {error}", event)

    def _prepare(self, event: Event) -> Iterator[Step]:
        """End the group of a prepared XA transaction; one of a single phase is committed."""
        group = self._opened(event)
        xid, group.xid = group.xid, ""
        self.prepared[xid] = group.begin
        if event.data[HEADER_SIZE]:
            yield from self._commit_prepared(xid, event)
        yield from self._end(event)

    def _commit_prepared(self, xid: str, event: Event) -> Iterator[Step]:
        """Read the rows of a prepared transaction again, as rows of the group that commits it."""
        place = self.prepared.pop(xid, None)
        if not self._rows.tables or self._opened(event).is_left_out:
            return
        place = place or self._find_prepared(xid)
        events = None if place is None else self._opened_again(place)
        if events is None:
            yield from self._refuse(f"the XA transaction {xid} was prepared in a part of the log that is gone", event)
            return
        try:
            yield from self._read_prepared(events, event)
        finally:
            events.close()

    def _opened_again(self, place: LogPlace) -> Events | None:
        """Return the events of a prepared transaction after its first one; None if the log does not have the place."""
        events = self._reopen(place)
        try:
            while (event := events.read()) is not None:
                if event.kind in GTIDS:
                    return events
        except LogRefusedError as error:
            if error.code != NOT_IN_LOG:
                raise
        events.close()
        return None

    def _read_prepared(self, events: Events, event: Event) -> Iterator[Step]:
        while True:
            found = events.read()
            if found is None:
                continue
            for inner in unpacked(found):
                if inner.kind == EventType.TABLE_MAP:
                    self._rows.describe(inner.data)
                elif inner.kind in ROW_EVENTS:
                    if self._rows.is_copied(inner.data):
                        yield from self._begin(event)
                        self._rows.add(inner.kind, inner.data)
                        yield Rows(len(inner.data))
                elif inner.kind == EventType.XA_PREPARE:
                    return

    def _refuse(self, problem: str, event: Event) -> Iterator[Step]:
        """Add an unreadable row for each copied table."""
        if self._rows.tables and not self._opened(event).is_left_out:
            yield from self._begin(event)
            self._rows.refuse_all(problem)
            yield Rows(len(event.data))

    def _end(self, event: Event) -> Iterator[Step]:
        group = self._opened(event)
        self._group = None
        self._rows.forget()
        yield Commit(self._events.place, group.begin, group.gtid, group.commit_microseconds, group.has_begun)


class NoTexts:
    """A `TextDecoder` for readings without rows."""

    def decoder(self, collation: int) -> NoReturn:
        """Refuse it.

        Raises:
            SourceError: always.
        """
        raise SourceError("MYSQL_LOG_UNREADABLE", cause=f"the collation {collation} belongs to no copied table")


def unpacked(event: Event) -> Iterator[Event]:
    """Yield the events of a compressed transaction, or the event."""
    if event.kind != EventType.TRANSACTION_PAYLOAD:
        yield event
        return
    for data in payload_events(event):
        seconds, kind, server, _, _, flags = read_header(data, 0)
        yield Event(kind, seconds, server, flags, data)


def _read_maria_query(data: bytes) -> Query:
    return read_query(maria_query(data))


GTIDS: Mapping[int, Callable[[Event], Gtid]] = {
    EventType.GTID: read_gtid,
    EventType.ANONYMOUS_GTID: read_gtid,
    EventType.GTID_TAGGED: read_tagged_gtid,
    EventType.MARIA_GTID: read_maria_gtid,
}
QUERIES: Mapping[int, Callable[[bytes], Query]] = {
    EventType.QUERY: read_query,
    EventType.EXECUTE_LOAD_QUERY: read_load_query,
    EventType.MARIA_QUERY_COMPRESSED: _read_maria_query,
}
_IGNORED = frozenset(
    {
        EventType.STOP,
        EventType.INTVAR,
        EventType.APPEND_BLOCK,
        EventType.DELETE_FILE,
        EventType.RAND,
        EventType.USER_VAR,
        EventType.BEGIN_LOAD_QUERY,
        EventType.IGNORABLE,
        EventType.ROWS_QUERY,
        EventType.PREVIOUS_GTIDS,
        EventType.TRANSACTION_CONTEXT,
        EventType.VIEW_CHANGE,
        EventType.MARIA_ANNOTATE_ROWS,
        EventType.MARIA_BINLOG_CHECKPOINT,
        EventType.MARIA_GTID_LIST,
        EventType.MARIA_START_ENCRYPTION,
    }
)
"""Events without rows; a statement follows those that prepare one."""
_UNREADABLE: Mapping[int, str] = {
    EventType.PARTIAL_UPDATE_ROWS: "an update has parts of JSON values: binlog_row_value_options was PARTIAL_JSON",
    EventType.INCIDENT: "the server lost changes: an INCIDENT event",
}
