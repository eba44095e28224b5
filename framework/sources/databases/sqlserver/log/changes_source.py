"""The changes of SQL Server for `database_changes`: the request, and the log of one flow by change data capture.

All tables of a flow have one position: the LSN up to which the capture job had come when the batch began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from framework.foundation.errors import SourceError
from framework.sources.databases.options import Options
from framework.sources.databases.source_session import LogName
from framework.sources.databases.sqlserver.connecting import CAPTURE, TRACKING, changes_way
from framework.sources.databases.sqlserver.log.captured_tables import CapturedTables
from framework.sources.databases.sqlserver.log.change_rows import (
    ChangeWriter,
)
from framework.sources.databases.sqlserver.log.change_tables import commit_times, next_window
from framework.sources.databases.sqlserver.log.position import ensure_position
from framework.sources.databases.sqlserver.log.stored_position import (
    StoredPosition,
    captured_end,
    find_gap,
    read_identity,
)
from framework.sources.databases.sqlserver.log.tracked_tables import read_tracked
from framework.sources.databases.sqlserver.log.tracking import read_tracked_changes
from framework.sources.databases.sqlserver.log.wanted_tables import WantedTables
from framework.sources.databases.sqlserver.lsn import Lsn
from framework.sources.databases.sqlserver.tables.object_ids import find_object_ids
from framework.sources.databases.streams.change_log import ReadLimit

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.sqlserver.session import Connect, Session
    from framework.sources.databases.streams.spool import Spool, SpooledBatch

_ROWS_PER_TRIGGER = 1_000_000
_BYTES_PER_TRIGGER = 256 << 20
_FIRST_WINDOW, _LARGEST_WINDOW = 1000, 64_000
_ATTEMPTS = 3
_FAR, _IDLE_MICROSECONDS = 1 << 62, 6 * 3600 * 1_000_000


@dataclass(frozen=True)
class ChangesRequest:
    """The request for a stream of changes, as its options describe it."""

    connect: Connect
    connection: Connection
    name: str
    wanted: WantedTables
    limit: ReadLimit
    generation: int
    spool_folder: str | None
    advance_to: int
    not_after: int

    @classmethod
    def of(cls, options: Options, connect: Connect) -> ChangesRequest:
        """Read the options.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        return cls(
            connect=connect,
            connection=options.connection(),
            name=options.text("slot"),
            wanted=WantedTables.of(options),
            limit=ReadLimit(
                rows=options.number("maxRowsPerTrigger", _ROWS_PER_TRIGGER),
                bytes=options.size("maxBytesPerTrigger", _BYTES_PER_TRIGGER),
            ),
            generation=options.number("generation", 0, least=0),
            spool_folder=options.optional("spoolFolder"),
            advance_to=options.number("advanceTo", 0, least=0),
            not_after=options.number("notAfter", 0, least=0),
        )

    @property
    def log_name(self) -> LogName:
        """The names of the gateway."""
        return LogName(position=self.name, tables=self.name)

    def log(self, spool: Callable[[], Spool]) -> SqlServerLog:
        """Return the log.

        Args:
            spool: makes the folder of its batches, for the first one.
        """
        return SqlServerLog(self, spool)


class SqlServerLog:
    """The log, read over one connection that stays open; the database waits for no reader.

    Args:
        request: what to read.
        spool: makes the folder of the batches, for the first one.
    """

    def __init__(self, request: ChangesRequest, spool: Callable[[], Spool]) -> None:
        self._request = request
        self._make_spool = spool
        self._spool: Spool | None = None
        self._session: Session | None = None
        self._is_stale = False

    @property
    def idle_distance(self) -> int:
        """How far a stored position may lag: six hours, or the clean-up job would pass a position without changes."""
        return 0 if self._is_stale else _FAR

    @property
    def keeps_start(self) -> bool:
        """Nothing is kept for a reader."""
        return False

    def start(self) -> str:
        """Return the position of the tables, whose capture instances are made if there are none."""
        request = self._request
        with request.connect(request.connection) as session:
            found = ensure_position(session, request.log_name, request.wanted.names)
            way = changes_way(request.connection)
            stored = StoredPosition(
                way=way,
                position=found.text,
                identity=read_identity(session),
            )
            if request.not_after and request.not_after < stored.order:
                stored = replace(stored, position=_position_of(way, request.not_after))
            stored = replace(stored, tables=_begun(session, request.wanted, stored))
            self._require(session, stored)
        return stored.to_json()

    def read_transactions(self, start: str, limit: ReadLimit | None) -> tuple[SpooledBatch, str]:
        """Read the transactions after a position, up to a limit."""
        stored = StoredPosition.from_json(start)
        with self._closed_by_faults():
            session = self._open()
            self._require(session, stored)
            if stored.way == TRACKING:
                return self._tracked(session, stored, None)
            end = captured_end(session) or stored.lsn
            return self._read(session, stored, max(end, stored.lsn), limit)

    def read_range(self, start: str, end: str) -> SpooledBatch:
        """Read the transactions between two positions again."""
        stored, last = StoredPosition.from_json(start), StoredPosition.from_json(end)
        with self._closed_by_faults():
            session = self._open()
            self._require(session, stored)
            if stored.way == TRACKING:
                return self._tracked(session, stored, last)[0]
            return self._read(session, stored, last.lsn, None)[0]

    def acknowledge(self, position: str) -> None:
        """Remove the files up to a position; the clean-up job removes changes by their age, read or not."""
        if self._spool is not None:
            self._spool.remove_until(StoredPosition.from_json(position).order)

    def release(self) -> None:
        """Do nothing: any number of readers may read."""

    def close(self) -> None:
        """Close the connection."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(SourceError):
                session.close()

    @contextmanager
    def _closed_by_faults(self) -> Iterator[None]:
        """Close the connection if the block fails: the next call opens another one."""
        with ExitStack() as failed:
            failed.callback(self.close)
            yield
            failed.pop_all()

    def _open(self) -> Session:
        if self._session is None:
            self._session = self._request.connect(self._request.connection)
        return self._session

    def _writer(self) -> ChangeWriter:
        self._spool = self._spool or self._make_spool()
        return ChangeWriter(self._spool, self._request.generation)

    def _require(self, session: Session, stored: StoredPosition) -> None:
        gap = find_gap(session, stored, self._request.name)
        if gap is not None:
            raise gap.error()

    def _tracked(
        self, session: Session, stored: StoredPosition, last: StoredPosition | None
    ) -> tuple[SpooledBatch, str]:
        writer = self._writer()
        with ExitStack() as undone:
            undone.callback(writer.discard)
            end, ids = read_tracked_changes(session, self._request.wanted, stored, last, writer)
            undone.pop_all()
        found = replace(stored, position=str(end), tables=ids)
        return writer.seal(stored.order, found.order, caught_up=True), found.to_json()

    def _read(
        self, session: Session, stored: StoredPosition, end: Lsn, limit: ReadLimit | None
    ) -> tuple[SpooledBatch, str]:
        """Read windows of transactions until a limit is reached."""
        for _ in range(_ATTEMPTS):
            found = self._attempt(session, stored, end, limit)
            if found is not None:
                return found
            self._require(session, stored)
        raise SourceError("SQLSERVER_CAPTURE_REMOVED", position=stored.position)

    def _attempt(
        self, session: Session, stored: StoredPosition, end: Lsn, limit: ReadLimit | None
    ) -> tuple[SpooledBatch, str] | None:
        """Read windows of transactions; None if the clean-up job has removed some of them meanwhile."""
        writer, reached, most = self._writer(), stored.lsn, _FIRST_WINDOW
        tables = CapturedTables.of(session, self._request.wanted, stored)
        with ExitStack() as undone:
            undone.callback(writer.discard)
            while reached < end:
                window, count = next_window(session, reached, most)
                to = end if window is None or count < most else min(window, end)
                tables.write(session, reached, to, writer)
                reached, most = to, min(most * 4, _LARGEST_WINDOW)
                if limit is not None and (writer.rows >= limit.rows or writer.bytes >= limit.bytes):
                    break
            if not tables.is_whole(session):
                return None
            undone.pop_all()
        if reached > stored.lsn and not writer.rows:
            times = commit_times(session, stored.lsn, reached)
            self._is_stale = bool(times) and max(times.values()) - min(times.values()) >= _IDLE_MICROSECONDS
        found = replace(stored, position=str(reached), tables=tables.read_ids())
        return writer.seal(stored.order, found.order, caught_up=reached >= end), found.to_json()


def _begun(session: Session, wanted: WantedTables, stored: StoredPosition) -> tuple[int, ...]:
    """Return the tables that have all changes after a position; another one joins at its own begin."""
    if stored.way == CAPTURE:
        tables = CapturedTables.of(session, wanted, stored)
        tables.join(stored.lsn)
        return tables.read_ids()
    tracked, ids = read_tracked(session), find_object_ids(session, wanted.names).values()
    return tuple(number for number in ids if number in tracked and tracked[number].oldest <= int(stored.position))


def _position_of(way: str, order: int) -> str:
    """Return the position of an order, which is where a snapshot began."""
    return str(order - 1) if way != CAPTURE else str(Lsn.of_order(order))
