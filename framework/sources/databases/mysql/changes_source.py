"""The log of MySQL and MariaDB for `database_changes`: one stream serves all tables of a flow.

The server keeps nothing for a reader: it removes its log by age. The offset has all that is needed to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.gtid_runs import GtidRuns
from framework.sources.databases.mysql.history import LogHistory, WatchedStream, open_stream, server_id_of
from framework.sources.databases.mysql.log.binlog_connection import LogStart
from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.mysql.log.gtids import MySqlGtids
from framework.sources.databases.mysql.log.places import LogPlace, epoch_of
from framework.sources.databases.mysql.log.prepared_transactions import find_prepared
from framework.sources.databases.mysql.log.texts import ServerTexts
from framework.sources.databases.mysql.log.transactions import Begin, Commit, Idle, Rows, Step, TransactionReader
from framework.sources.databases.mysql.position import read_identity, read_log_end, read_state, safe_position
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import LastTransaction, StoredPosition
from framework.sources.databases.mysql.tables.catalog import read_tables
from framework.sources.databases.options import Options
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.streams.spool import Spool, SpooledBatch, SpoolWriter

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.tables import TableName

_ROWS_PER_TRIGGER = 1_000_000
_BYTES_PER_TRIGGER = 256 << 20
# A position without changes is stored only this far behind, so that an idle database costs no micro-batch.
_IDLE_LOG_BYTES = 16 << 20
_HEARTBEAT_SECONDS = 0.1
_NUMBER_BITS = 36


@dataclass(frozen=True)
class ChangesRequest:
    """The request for a stream of changes, as its options describe it."""

    connection: Connection
    name: str
    tables: tuple[TableName, ...]
    text_columns: dict[TableName, tuple[str, ...]]
    limit: ReadLimit
    generation: int
    spool_folder: str | None
    advance_to: int
    keeps_unreadable: bool
    not_after: int
    snapshots: tuple[StoredPosition, ...]
    keys: dict[TableName, tuple[str, ...]]
    reader: str
    server_id: int
    servers: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Options) -> ChangesRequest:
        """Read the options.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        name, reader = options.text("slot"), options.text("reader", "")
        given = options.number("serverId", 1) if options.optional("serverId") else 0
        return cls(
            connection=options.connection(),
            name=name,
            tables=options.tables("tables"),
            text_columns=options.columns_of_tables("textColumns"),
            limit=ReadLimit(
                rows=options.number("maxRowsPerTrigger", _ROWS_PER_TRIGGER),
                bytes=options.size("maxBytesPerTrigger", _BYTES_PER_TRIGGER),
            ),
            generation=options.number("generation", 0, least=0),
            spool_folder=options.optional("spoolFolder"),
            advance_to=options.number("advanceTo", 0, least=0),
            keeps_unreadable=options.choice("unreadableRows", ("fail", "keep")) == "keep",
            not_after=options.number("notAfter", 0, least=0),
            snapshots=tuple(
                StoredPosition.from_json(each) for each in json.loads(options.text("snapshots", "[]")) if each
            ),
            keys=options.columns_of_tables("keys"),
            reader=reader,
            server_id=given or server_id_of(reader, name),
            servers=tuple(json.loads(options.text("servers", "[]"))),
        )

    def refuse_other(self, identity: str) -> None:
        """Refuse a server if tables were read on another one whose changes must be read up to there first.

        Raises:
            SourceError: MYSQL_SERVER_TAKEN_OVER.
        """
        others = [each for each in self.servers if each != identity]
        if others:
            raise SourceError("MYSQL_SERVER_TAKEN_OVER", now=identity, before=", ".join(others), reader=self.name)

    def log(self, spool: Callable[[], Spool]) -> MysqlLog:
        """Return the log.

        Args:
            spool: makes the folder of its batches, for the first one.
        """
        return MysqlLog(self, spool)

    def copied(self, session: Session, stored: StoredPosition) -> dict[TableName, CopiedTable]:
        """Return what is known of the tables; one that was dropped since must not stop the changes of the others.

        A table that joins now has its name from now on: what the log says earlier is of another table, or of its begin.

        Raises:
            SourceError: the database can't be read.
        """
        found = {}
        end = replace(read_log_end(session), epoch=stored.place.epoch).order
        for name, table in read_tables(session, self.tables).items():
            columns = () if isinstance(table, SourceError) else table.columns
            given = self.keys.get(name)
            found[name] = CopiedTable(
                key=given or (() if isinstance(table, SourceError) else table.key),
                needs_key=given is not None,
                text_columns=self.text_columns.get(name, ()),
                types={each.name: each.type_name for each in columns},
                known_from=0 if name in stored.tables else end,
            )
        return found


@dataclass(frozen=True, slots=True)
class _Transaction:
    """A transaction with the position of its rows: after its begin, so that it is after the end of the one before."""

    position: int
    commit_microseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The end of a read.

    Args:
        target: a place; everything before it is read.
        limit: ends the read earlier.
        transactions: the transactions that are read in place of those before the target, as text: for a target on
            another server. Their rows have positions of their own, after `first`.
        first: the order at which the read begins.
    """

    target: LogPlace
    limit: ReadLimit | None = None
    transactions: str = ""
    first: int = 0

    def is_reached(self, place: LogPlace, runs: GtidRuns) -> bool:
        """Whether a place, before which some transactions were read, is the end."""
        return runs.contains(self.transactions) if self.transactions else not place < self.target

    def leaves_out(self, stored: StoredPosition, *, is_mariadb: bool) -> Callable[[str], bool] | None:
        """Return what says of a GTID that its transaction was read before, or comes after the target.

        A successor may have committed in another order, so that both may follow the place where the reading begins.
        MariaDB may use a number twice, so that nothing is left out there.
        """
        if is_mariadb or not stored.gtids or not stored.place.epoch:
            return None
        before = MySqlGtids.parse(stored.gtids)
        wanted = MySqlGtids.parse(self.transactions) if self.transactions else None
        return lambda gtid: before.has(gtid) or not (wanted is None or wanted.has(gtid))

    def is_full(self, rows: int, size: int) -> bool:
        """Whether so many rows of so many bytes of the log are enough."""
        return self.limit is not None and (rows >= self.limit.rows or size >= self.limit.bytes)


class MysqlLog:
    """The log of a server, read over one connection that stays open.

    Args:
        request: what to read.
        spool: makes the folder of the batches, for the first one.
    """

    def __init__(self, request: ChangesRequest, spool: Callable[[], Spool]) -> None:
        self._request = request
        self._make_spool = spool
        self._spool: Spool | None = None
        self._reading: _Reading | None = None

    @property
    def idle_distance(self) -> int:
        """How far a stored position without changes may lag."""
        return _IDLE_LOG_BYTES

    @property
    def keeps_start(self) -> bool:
        """Nothing is kept for a reader."""
        return False

    def start(self) -> str:
        """Return a position of the log that is safe now, or the one where a snapshot has begun."""
        request = self._request
        with Session(request.connection) as session:
            history = LogHistory(session, request.name)
            request.refuse_other(read_identity(session))
            if not request.not_after:
                found = history.exact(safe_position(session))
                place = found.place.after(request.advance_to)
                begun, state = history.begun(place), read_state(session)
                return replace(found, place=place, begun=begun, state=state, tables=request.tables).to_json()
            for each in request.snapshots:
                history.require_log_of(each)
            place = _place_of(session, request.not_after)
            found = StoredPosition(place=place, source=read_identity(session), tables=request.tables)
            history.require(found)
            begun, gtids = history.begun(place), history.gtids_before(place)
            return replace(found, begun=begun, gtids=gtids, state=read_state(session)).to_json()

    def read_transactions(self, start: str, limit: ReadLimit | None) -> tuple[SpooledBatch, str]:
        """Read the transactions that end after a position."""
        stored = StoredPosition.from_json(start)
        with Session(self._request.connection) as session:
            target = read_log_end(session)
        reading = self._at(stored)
        target = replace(target, epoch=reading.place.epoch)
        batch = reading.read(stored, self._writer(reading), Goal(target=target, limit=limit))
        return batch, reading.stored.to_json()

    def read_range(self, start: str, end: str) -> SpooledBatch:
        """Read the transactions between two positions again."""
        begin, finish = (StoredPosition.from_json(each) for each in (start, end))
        self.release()
        reading = self._at(begin)
        if reading.stored.source != finish.source:
            with Session(self._request.connection) as session:
                LogHistory(session, self._request.name).require(finish)  # or it would be awaited for ever
        if (reading.place.epoch, reading.stored.source) == (finish.place.epoch, finish.source):
            batch = reading.read(begin, self._writer(reading), Goal(target=finish.place))
            if batch.end != finish.order:
                # Its rows would come twice, or not at all.
                cause = f"no transaction ends at {finish.place}, where an earlier read ended"
                raise SourceError("MYSQL_LOG_UNREADABLE", cause=cause)
            return replace(batch, caught_up=False)
        # Another server has the transactions at other places, perhaps in another order.
        goal = Goal(target=finish.place, transactions=finish.gtids, first=begin.order)
        batch = reading.read(begin, self._writer(reading), goal)
        self.release()
        return replace(batch, end=finish.order, caught_up=False)

    def acknowledge(self, position: str) -> None:
        """Do nothing: the server waits for no reader."""

    def release(self) -> None:
        """End the stream; the next read opens it again."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def close(self) -> None:
        """Close the connections."""
        self.release()

    def _writer(self, reading: _Reading) -> SpoolWriter:
        self._spool = self._spool or self._make_spool()
        return SpoolWriter(
            self._spool,
            generation=self._request.generation,
            buffer=reading.buffer,
            kinds=reading.kinds,
            complete=lambda _: 0,
        )

    def _at(self, stored: StoredPosition) -> _Reading:
        """Return the stream at a position; it is opened again if it stands elsewhere."""
        reading = self._reading
        if reading is not None and not reading.is_broken and reading.stored == stored:
            return reading
        self.release()
        request = self._request
        with Session(request.connection) as session:
            resumed = LogHistory(session, request.name).require(stored)
            request.refuse_other(resumed.source)
            copied = request.copied(session, resumed)
            is_mariadb = session.server.is_mariadb
        self._reading = _Reading(request, resumed, copied, is_mariadb=is_mariadb)
        return self._reading


class _Reading:
    """One stream of the log, which stands at `stored` between two reads."""

    def __init__(
        self,
        request: ChangesRequest,
        stored: StoredPosition,
        copied: dict[TableName, CopiedTable],
        *,
        is_mariadb: bool,
    ) -> None:
        self.stored = stored
        self._begin = stored.place
        self.buffer = ChangeBuffer()
        self.is_broken = False
        self._request = request
        self._is_mariadb = is_mariadb
        self._events = self._open(stored.place)
        self._reader = TransactionReader(
            self._events,
            copied,
            self.buffer,
            ServerTexts(self._query),
            reopen=self._open_beside,
            find_prepared=self._find_prepared,
            keeps_unreadable=request.keeps_unreadable,
            prepared=stored.prepared,
        )
        self.kinds = self._reader.kinds
        self._steps: Iterator[Step] = self._reader.steps()

    @property
    def place(self) -> LogPlace:
        """Where it stands."""
        return self.stored.place

    def close(self) -> None:
        """End the stream."""
        self._events.close()

    def read(self, start: StoredPosition, writer: SpoolWriter, goal: Goal) -> SpooledBatch:
        """Read whole transactions up to a goal, which is the end of one.

        Raises:
            SourceError: the log can't be read.
        """
        self.is_broken = True
        try:
            batch = self._read(start, writer, goal)
        except BaseException:
            writer.discard()
            raise
        self.is_broken = False
        return batch

    def _read(self, start: StoredPosition, writer: SpoolWriter, goal: Goal) -> SpooledBatch:
        runs, last, place = GtidRuns(self.stored.gtids, is_mariadb=self._is_mariadb), self.stored.last, self.place
        begin, count = place.order, 0
        self._reader.leaves_out = goal.leaves_out(self.stored, is_mariadb=self._is_mariadb)
        while not goal.is_reached(place, runs):
            step = next(self._steps)
            if isinstance(step, Begin):
                count += 1
                position = goal.first + count if goal.transactions else step.position + 1
                writer.begin(_Transaction(position, step.commit_microseconds))
            elif isinstance(step, Rows):
                writer.bytes_in_buffer += step.bytes
                writer.relieve(most_pending=1)
            elif isinstance(step, Commit):
                place = step.place
                last = LastTransaction(place=step.begin, gtid=step.gtid, commit_microseconds=step.commit_microseconds)
                runs.add(step.gtid)
                if step.has_begun:
                    writer.commit()
                if goal.is_full(writer.rows + len(self.buffer.kinds), place.order - begin):
                    break
            elif isinstance(step, Idle):
                place = step.place
        self.stored = replace(
            self.stored,
            place=place,
            gtids=runs.text,
            state=runs.state(self.stored.state),
            last=last,
            begun=self._events.begun or self.stored.begun,
            prepared=dict(self._reader.prepared),
            tables=tuple(sorted(self._request.tables, key=str)),
        )
        return writer.seal(start.order, place.order, caught_up=goal.is_reached(place, runs))

    def _query(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with Session(self._request.connection) as session:
            return session.rows(statement, values)

    def _open(self, place: LogPlace, server_id: int = 0) -> WatchedStream:
        request = self._request
        start = LogStart(server_id=server_id or request.server_id, place=place, heartbeat_seconds=_HEARTBEAT_SECONDS)
        return open_stream(request.connection, start)

    def _open_beside(self, place: LogPlace) -> WatchedStream:
        """Open the log by another number, so that the server does not end the stream that is being read."""
        return self._open(place, server_id_of(self._request.server_id, "prepared"))

    def _find_prepared(self, xid: str) -> LogPlace | None:
        """Find an XA transaction that was prepared before this reading, and that no stored position has."""
        files = [str(row[0]) for row in self._query("SHOW BINARY LOGS", ())]
        return find_prepared(xid, self._begin, files, self._open_beside)


def _place_of(session: Session, order: int) -> LogPlace:
    """Return the place of an order in the log of a server.

    Raises:
        SourceError: the server gives no answer.
    """
    end = read_log_end(session)
    base, _, digits = end.file.rpartition(".")
    file = order >> _NUMBER_BITS & (1 << 21) - 1
    return LogPlace(f"{base}.{file:0{len(digits)}d}", order & (1 << _NUMBER_BITS) - 1, epoch_of(order))
