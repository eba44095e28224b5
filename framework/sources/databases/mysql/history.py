"""Whether the log of a server continues a stored position, and where: on the same server, or on its successor.

On the same server, the log has the file of the position, which was begun at the same time as before, and the same last
transaction. On another server with the same GTIDs, such as a replica that was promoted, the log goes on in a new epoch,
because its numbers can't be compared. Everything else is a gap.
"""

from __future__ import annotations

import os
import threading
import zlib
from dataclasses import dataclass, replace

import pymysql

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.faults import RIGHT_MISSING, named_error
from framework.sources.databases.mysql.gtid_runs import GtidRuns
from framework.sources.databases.mysql.log.binlog_connection import NOT_IN_LOG, EventStream, LogRefusedError, LogStart
from framework.sources.databases.mysql.log.errant import errant_transaction
from framework.sources.databases.mysql.log.events import Event, EventType, Gtid, read_gtid_list
from framework.sources.databases.mysql.log.gtids import MariaGtids, MySqlGtids, maria_state
from framework.sources.databases.mysql.log.places import FIRST_OFFSET, LogPlace
from framework.sources.databases.mysql.log.transactions import GTIDS
from framework.sources.databases.mysql.position import gtids_at, read_identity, read_log_end
from framework.sources.databases.mysql.session import Session, connect
from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.source_session import Gap

_BEFORE = "Previous_gtids"
_LOST = "DATABASE_POSITION_LOST"
_MOST_SERVER_ID = (1 << 31) - 1
_MOST_EPOCH = 63
_OUTSIDE = (EventType.FORMAT_DESCRIPTION, EventType.ROTATE, EventType.PREVIOUS_GTIDS, EventType.MARIA_GTID_LIST)


class WatchedStream(EventStream):
    """The events of the log; `begun` is when the present file was begun, in seconds since 1970."""

    begun = 0

    def read(self) -> Event | None:
        """Return the next event."""
        try:
            event = super().read()
        except LogRefusedError as error:
            if error.code == RIGHT_MISSING:
                raise _denied(self._source, error) from None
            raise
        if event is not None and event.kind == EventType.FORMAT_DESCRIPTION:
            self.begun = event.seconds
        return event


def server_id_of(*parts: object) -> int:
    """Return a number for a reader of the log; of two readers with one number, the server ends the first.

    Examples:
        >>> server_id_of("bank") == server_id_of("bank")
        True
    """
    return zlib.crc32("/".join(map(str, parts)).encode()) % _MOST_SERVER_ID | (1 << 31)


def _denied(connection: Connection, error: LogRefusedError) -> SourceError:
    with Session(connection) as session:
        denied = pymysql.OperationalError(error.code, error.cause)
        return named_error(denied, connection, account=session.account)


def open_stream(connection: Connection, start: LogStart) -> WatchedStream:
    """Open the log.

    Raises:
        SourceError: the server can't be reached, or refuses it.
    """
    return WatchedStream(connection, lambda: connect(connection), start)


@dataclass(frozen=True, slots=True)
class LogHistory:
    """The log of a server, compared with a stored position.

    Args:
        session: any session of the server.
        name: the name of the reader, for texts.
    """

    session: Session
    name: str

    def find_gap(self, stored: StoredPosition) -> Gap | None:
        """Return why the log can't be read on from a position; None if it can.

        Raises:
            SourceError: the server gives no answer.
        """
        found = self.continued(stored)
        return found if isinstance(found, Gap) else None

    def require(self, stored: StoredPosition) -> StoredPosition:
        """Return the position where the log goes on: the stored one, or another in a new epoch.

        Raises:
            SourceError: DATABASE_POSITION_LOST with its kind, or the server gives no answer.
        """
        found = self.continued(stored)
        if isinstance(found, Gap):
            raise found.error()
        return found

    def require_log_of(self, snapshot: StoredPosition) -> None:
        """Refuse a log that is not the one of the position where a snapshot began.

        Nothing was read from it yet that would recognize it. MySQL's says too little of what is before a position.

        Raises:
            SourceError: DATABASE_POSITION_LOST with its kind, or the server gives no answer.
        """
        identity, gap = read_identity(self.session), self._missing(snapshot)
        if identity != snapshot.source:
            gap = self._gap("SOURCE", snapshot, kind="the server", before=snapshot.source, now=identity)
        elif gap is None and self.session.server.is_mariadb:
            is_same = gtids_at(self.session, snapshot.place) == snapshot.gtids
            gap = None if is_same else self._gap("LOG_REPLACED", snapshot)
        if gap is not None:
            raise gap.error()

    def continued(self, stored: StoredPosition) -> StoredPosition | Gap:
        """Return the position where the log goes on, or the gap.

        Raises:
            SourceError: the server gives no answer.
        """
        identity = read_identity(self.session)
        if identity != stored.source:
            return self._successor(stored, identity)
        return self._missing(stored) or self._replaced(stored) or stored

    def _gap(self, name: str, stored: StoredPosition, **fields: object) -> Gap:
        return Gap(condition=f"{_LOST}.{name}", fields={"reader": self.name, "position": stored.place.text, **fields})

    def _missing(self, stored: StoredPosition) -> Gap | None:
        """Return the gap of a place that is in no file of the log."""
        files = {str(row[0]): int(row[1]) for row in self.session.rows("SHOW BINARY LOGS")}
        place = stored.place
        if place.file in files and place.offset <= files[place.file]:
            return None
        end = read_log_end(self.session)
        if place.file in files or place.order & ~(-1 << 57) > end.order:
            return self._gap("LOG_RESET", stored, end=end.text)
        return self._gap("LOG_REMOVED", stored)

    def _replaced(self, stored: StoredPosition) -> Gap | None:
        """Return the gap of a log that has other transactions before the place."""
        last = stored.last
        try:
            if stored.begun and self._begun(stored.place, is_followed=True) != stored.begun:
                return self._gap("LOG_REPLACED", stored)
            if last is None or last.place.file != stored.place.file:
                return None
            found = self._first(LogStart(server_id=self._server_id(), place=last.place))
        except LogRefusedError as error:
            if error.code != NOT_IN_LOG:
                raise
            return self._gap("LOG_REPLACED", stored)
        is_same = found is not None and (found[0].text, found[0].commit_microseconds) == (
            last.gtid,
            last.commit_microseconds,
        )
        return None if is_same else self._gap("LOG_REPLACED", stored)

    def begun(self, place: LogPlace) -> int:
        """Return when the file of a place was begun, in seconds since 1970.

        Raises:
            SourceError: the log can't be read.
        """
        return self._begun(place)

    def gtids_before(self, place: LogPlace) -> str:
        """Return the transactions before a place; empty if the server has no GTIDs.

        MySQL writes those before a file at its begin; those of the file are read.

        Raises:
            SourceError: the log can't be read.
        """
        if self.session.server.is_mariadb:
            return gtids_at(self.session, place)
        if self.session.variables(("gtid_mode",)).get("gtid_mode") != "ON":
            return ""
        start = LogStart(server_id=self._server_id(), place=replace(place, offset=FIRST_OFFSET))
        runs = GtidRuns(str(self._before(place.file)), is_mariadb=False, is_known=True)
        stream = open_stream(self.session.connection, start)
        try:
            while stream.place < place and (event := stream.read()) is not None:
                if event.kind in GTIDS and event.start < place.offset:
                    runs.add(GTIDS[event.kind](event).text)
        finally:
            stream.close()
        return runs.text

    def exact(self, found: StoredPosition) -> StoredPosition:
        """Return a new position with the GTIDs before its place; MySQL tells those of a moment after it.

        Raises:
            SourceError: the log can't be read.
        """
        if self.session.server.is_mariadb or not found.gtids:
            return found
        gtids, end = MySqlGtids.parse(found.gtids), read_log_end(self.session)
        stream = self._stream(found.place)
        try:
            while stream.place < end:
                event = stream.read()
                if event is not None and event.kind in GTIDS:
                    gtids = gtids.without(GTIDS[event.kind](event).text)
        finally:
            stream.close()
        return replace(found, gtids=str(gtids))

    def _begun(self, place: LogPlace, *, is_followed: bool = False) -> int:
        """Return when the file of a place was begun.

        Args:
            place: the place.
            is_followed: whether an event is read after it, too: the server refuses a place that is within an event.
        """
        stream = open_stream(self.session.connection, LogStart(server_id=self._server_id(), place=place))
        try:
            while not stream.begun:
                stream.read()
            if is_followed:
                stream.read()
            return stream.begun
        finally:
            stream.close()

    def _first(self, start: LogStart) -> tuple[Gtid, LogPlace] | None:
        """Return the GTID event at the begin of a stream; None if there is nothing, or another event."""
        stream = open_stream(self.session.connection, start)
        try:
            while (event := stream.read()) is not None:
                if event.kind in GTIDS:
                    return GTIDS[event.kind](event), LogPlace(stream.file, event.start, stream.epoch)
                if event.kind not in _OUTSIDE and start.gtids is None:
                    return None
            return None
        finally:
            stream.close()

    def _server_id(self) -> int:
        # Not that of the reader, which would lose its connection.
        return server_id_of(self.name, "check", os.getpid(), threading.get_ident())

    def _successor(self, stored: StoredPosition, identity: str) -> StoredPosition | Gap:
        """Return where another server has what comes after the transactions that were read."""
        epoch = stored.place.epoch + 1
        if not stored.gtids or epoch > _MOST_EPOCH:
            return self._gap("SOURCE", stored, kind="the server", before=stored.source, now=identity)
        if self.session.server.is_mariadb:
            found = self._lacking_of_mariadb(stored, identity) or self._next_of_mariadb(stored, identity)
        else:
            found = self._lacking(stored, identity) or self._next_of_mysql(stored, identity)
        if isinstance(found, Gap):
            return found
        place, begun = replace(found, epoch=epoch), self._begun(found)
        return replace(stored, place=place, source=identity, last=None, begun=begun, prepared={})

    def _lacking_of_mariadb(self, stored: StoredPosition, identity: str) -> Gap | None:
        """Return the gap of a server that lacks a transaction that was read.

        MariaDB itself goes on after one of a domain that it does not know.
        """
        found = self.session.variables(("gtid_binlog_state", "gtid_slave_pos"))
        state = maria_state(*found.values())
        missing = [
            f"{domain}-{server}-{sequence}"
            for (domain, server), sequence in maria_state(stored.gtids).items()
            if state.get((domain, server), 0) < sequence
        ]
        if not missing:
            return None
        text = f"it lacks {', '.join(missing)}"
        return self._gap("GTIDS_MISSING", stored, before=stored.source, now=identity, missing=text)

    def _unread_before(self, stored: StoredPosition, place: LogPlace) -> str:
        """Return a transaction of MariaDB before a place that was not read; of those in files that are gone, any."""
        read = maria_state(stored.state, stored.gtids)
        first = LogPlace(str(self.session.rows("SHOW BINARY LOGS")[0][0]), FIRST_OFFSET)
        stream = self._stream(first)
        try:
            while (event := stream.read()) is not None and event.kind != EventType.MARIA_GTID_LIST:
                pass
            gone = maria_state("" if event is None else read_gtid_list(event.data))
            unread = [(*source, sequence) for source, sequence in gone.items() if read.get(source, 0) < sequence]
            if unread:
                return "-".join(map(str, unread[0]))
            return errant_transaction(
                stream,
                place,
                stored.tables,
                is_read=lambda gtid: all(read.get(key, 0) >= number for key, number in maria_state(gtid).items()),
                is_expected=lambda _: False,
                is_read_from_end=True,
            )
        finally:
            stream.close()

    def _unread_after(self, stored: StoredPosition, place: LogPlace) -> str:
        """Return a transaction of MySQL after a place that was not read, though a later one was."""
        stream, read = self._stream(place), MySqlGtids.parse(stored.gtids)
        own = f"{stored.source}:"
        try:
            return errant_transaction(
                stream,
                read_log_end(self.session),
                stored.tables,
                is_read=read.has,
                is_expected=lambda gtid: gtid.startswith(own),
            )
        finally:
            stream.close()

    def _stream(self, place: LogPlace) -> WatchedStream:
        return open_stream(self.session.connection, LogStart(server_id=self._server_id(), place=place))

    def _next_of_mariadb(self, stored: StoredPosition, identity: str) -> LogPlace | Gap:
        """Return where the server would go on to send; it knows where each of its files begins."""
        gtids = MariaGtids.parse(stored.gtids)
        while True:
            # The end first: what is logged in between comes with the stream.
            end = read_log_end(self.session)
            try:
                found = self._first(LogStart(server_id=self._server_id(), gtids=gtids))
            except LogRefusedError as error:
                return self._gap("GTIDS_MISSING", stored, before=stored.source, now=identity, missing=error.cause)
            if found is None and not gtids.contains(MariaGtids.parse(gtids_at(self.session, end))):
                continue
            place = end if found is None else found[1]
            unread = self._unread_before(stored, place) if stored.state else ""
            return self._unless_unread(unread, stored, identity) or place

    def _next_of_mysql(self, stored: StoredPosition, identity: str) -> LogPlace | Gap:
        """Return the place of the first transaction that was not read; a server may have committed in another order."""
        gtids = MySqlGtids.parse(stored.gtids)
        end = read_log_end(self.session)
        files = [str(row[0]) for row in self.session.rows("SHOW BINARY LOGS")]
        first = next((file for file in reversed(files) if gtids.contains(self._before(file))), files[0])
        before = GtidRuns(str(self._before(first)), is_mariadb=False, is_known=True)
        stream = self._stream(LogPlace(first, FIRST_OFFSET))
        try:
            while stream.place < end:
                event = stream.read()
                if event is not None and event.kind in GTIDS:
                    gtid = GTIDS[event.kind](event).text
                    if not gtids.has(gtid):
                        place = LogPlace(stream.file, event.start)
                        unread = "" if before.contains(stored.gtids) else self._unread_after(stored, place)
                        return self._unless_unread(unread, stored, identity) or place
                    before.add(gtid)
        finally:
            stream.close()
        return end

    def _unless_unread(self, gtid: str, stored: StoredPosition, identity: str) -> Gap | None:
        """Return the gap of a server whose tables have a transaction that was not read."""
        if not gtid:
            return None
        return self._gap("GTIDS_UNREAD", stored, before=stored.source, now=identity, unread=gtid)

    def _before(self, file: str) -> MySqlGtids:
        """Return the transactions before a file of MySQL, as it says itself."""
        rows = self.session.rows("SHOW BINLOG EVENTS IN %s LIMIT 3", [file])
        return MySqlGtids.parse(next((str(row[5]) for row in rows if row[2] == _BEFORE), ""))

    def _lacking(self, stored: StoredPosition, identity: str) -> Gap | None:
        """Return the gap of a server that lacks transactions that were read, or has removed later ones."""
        gtids = MySqlGtids.parse(stored.gtids)
        ((executed, purged),) = self.session.rows("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")
        if not MySqlGtids.parse(str(executed)).contains(gtids):
            missing = f"it has {executed or 'none'}, and {gtids} were read"
            return self._gap("GTIDS_MISSING", stored, before=stored.source, now=identity, missing=missing)
        if not gtids.contains(MySqlGtids.parse(str(purged))):
            return self._gap("LOG_REMOVED", stored)
        return None
