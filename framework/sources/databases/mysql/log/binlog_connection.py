"""The stream of the log: the server sends its events as to a replica, over a connection of PyMySQL.

The place in the log is counted from the sizes of the events: the offsets in their headers have 32 bits.
"""

from __future__ import annotations

import io
import socket
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

import pymysql

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.log.events import (
    ARTIFICIAL,
    CHECKSUM_SIZE,
    Event,
    EventType,
    has_checksums,
    read_header,
    read_rotate,
)
from framework.sources.databases.mysql.log.gtids import MariaGtids, MySqlGtids
from framework.sources.databases.mysql.log.places import FIRST_OFFSET, LogPlace
from framework.sources.databases.mysql.session import abort

_DUMP, _DUMP_GTIDS = 0x12, 0x1E
_BY_GTIDS = 0x04
_MARIADB_CAPABILITY = 4
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_SHORT_PACKET = 9
_MOST_PACKET = (1 << 24) - 1
_BUFFER_BYTES = 256 << 10
_WRITE_SECONDS = 3600
_SILENCE_SECONDS = 60.0
_MOST_OFFSET = (1 << 32) - 1
_HALF = 1 << 31
_NANOSECONDS = 1_000_000_000
_HEARTBEATS = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
_OF_FILES = (EventType.ROTATE, EventType.FORMAT_DESCRIPTION)
_KIND_AT = 5
NOT_IN_LOG = 1236
"""The code of the error that the log does not have a place."""
_pack_dump = Struct("<IHI").pack
_pack_dump_gtids = Struct("<HII").pack
_pack_gtids = Struct("<QI").pack
_read_checksum = Struct("<I").unpack_from
_read_code = Struct("<H").unpack_from


class LogRefusedError(SourceError):
    """The server refused to send its log, with this error code; 1236 is that it does not have the place."""

    def __init__(self, code: int, cause: str) -> None:
        super().__init__("MYSQL_LOG_UNREADABLE", cause=cause)
        self.code = code
        self.cause = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStart:
    """Where and how the log is read.

    Args:
        server_id: the number by which the server knows this reader; of two readers with one number, it ends the first.
        place: the place from which it is read; None to begin after transactions.
        gtids: the transactions that are left out.
        heartbeat_seconds: how often the server says that there is nothing more.
    """

    server_id: int
    place: LogPlace | None = None
    gtids: MySqlGtids | MariaGtids | None = None
    heartbeat_seconds: float = 0.5


class EventStream:
    """The events of the log from a place on; it is read by one thread.

    Args:
        source: the server, for error texts.
        connect: opens a connection, which the stream closes.
        start: where it begins.

    Raises:
        SourceError: DATABASE_UNREACHABLE, MYSQL_LOG_UNREADABLE.
    """

    def __init__(self, source: Connection, connect: Callable[[], Any], start: LogStart) -> None:
        self._source = source
        self._has_checksums = False
        self._skip_until = 0
        self._rest: Iterator[bytes] = iter(())
        self.file = start.place.file if start.place else ""
        self.offset = start.place.offset if start.place else 0
        self.epoch = start.place.epoch if start.place else 0
        self._connection = connect()
        try:
            self._prepare(start)
            self._packets = self._open_packets()
            self._request(start)
        except pymysql.MySQLError as error:
            self.close()
            raise LogRefusedError(error.args[0] if error.args else 0, self._hidden(error.args[-1])) from None
        except BaseException:
            self.close()
            raise

    @property
    def place(self) -> LogPlace:
        """The place after the last event; where the reading begins, before that is reached."""
        return LogPlace(self.file, max(self.offset, self._skip_until), self.epoch)

    def read(self) -> Event | None:
        """Return the next event, with the place after it in `place`; None if there is none at present.

        Raises:
            SourceError: DATABASE_UNREACHABLE, MYSQL_LOG_UNREADABLE.
            LogRefusedError: the server sent an error.
        """
        while True:
            event = self._event(self._packet())
            if event.kind in _HEARTBEATS:
                return None
            if event.kind == EventType.ROTATE:
                self._rotate(*read_rotate(event.data))
            if not self._is_skipped(event):
                return event

    def _rotate(self, file: str, offset: int) -> None:
        if file != self.file:
            self._skip_until = 0
        self.file, self.offset = file, offset

    def _is_skipped(self, event: Event) -> bool:
        """Whether an event is before the place where the reading begins, for which a request has no room."""
        if not self._skip_until or event.kind in _OF_FILES:
            return False
        if event.start < self._skip_until:
            return True
        if event.start > self._skip_until:
            raise LogRefusedError(NOT_IN_LOG, f"{self._skip_until} in {self.file} is within an event")
        self._skip_until = 0
        return False

    def close(self) -> None:
        """End the stream and close its connection."""
        abort(self._connection)  # `close` would wait for a server that sends

    def _prepare(self, start: LogStart) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            is_mariadb = "mariadb" in cursor.fetchone()[0].lower()
            period = int(start.heartbeat_seconds * _NANOSECONDS)
            for name in ("master", "source"):
                cursor.execute(f"SET @{name}_binlog_checksum = 'CRC32', @{name}_heartbeat_period = {period}")
            # A reader that is slow, because its target is, must not lose the connection.
            cursor.execute(f"SET SESSION net_write_timeout = {_WRITE_SECONDS}")
            if is_mariadb:
                cursor.execute(f"SET @mariadb_slave_capability = {_MARIADB_CAPABILITY}")
            if isinstance(start.gtids, MariaGtids):
                cursor.execute("SET @slave_connect_state = %s", [str(start.gtids)])
                cursor.execute("SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0")

    def _open_packets(self) -> io.BufferedReader:
        raw: socket.socket = self._connection._sock  # noqa: SLF001 - PyMySQL has no public way to a stream
        raw.settimeout(_SILENCE_SECONDS)
        return io.BufferedReader(raw.makefile("rb", buffering=0), _BUFFER_BYTES)

    def _request(self, start: LogStart) -> None:
        name, offset = self.file.encode(), self.offset or FIRST_OFFSET
        if offset > _MOST_OFFSET:  # the request has 32 bits
            self._skip_until = offset
            offset = self.offset = FIRST_OFFSET
        if isinstance(start.gtids, MySqlGtids):
            encoded = start.gtids.encode()
            arguments = _pack_dump_gtids(_BY_GTIDS, start.server_id, len(name)) + name
            arguments += _pack_gtids(offset, len(encoded)) + encoded
            command = _DUMP_GTIDS
        else:
            arguments = _pack_dump(offset, 0, start.server_id) + name
            command = _DUMP
        self._connection._execute_command(command, arguments)  # noqa: SLF001 - PyMySQL has no public way to a command

    def _packet(self) -> bytes:
        """Return the next packet: parts of a longer one are joined, except for those of a compressed transaction."""
        for _ in self._rest:  # what the caller left
            pass
        data = self._part()
        if len(data) == _MOST_PACKET and data[_KIND_AT] != EventType.TRANSACTION_PAYLOAD:
            parts = [data]
            while len(parts[-1]) == _MOST_PACKET:
                parts.append(self._part())
            data = b"".join(parts)
        if data[0] == _ERROR:
            raise LogRefusedError(_read_code(data, 1)[0], self._hidden(data[9:].decode(errors="replace")))
        if data[0] == _END and len(data) < _SHORT_PACKET:
            cause = "the server ended the stream"
            raise self._lost(cause)
        return data

    def _parts_after(self, first: bytes, size: int) -> Iterator[bytes]:
        """Yield the parts of a long event after the first one; its checksum, which ends it, is checked at the end."""
        part, held = first, first[self._end_of(first) :]
        left = size + 1 - len(first)
        checksum = zlib.crc32(memoryview(first)[1 : len(first) - len(held)])
        while len(part) == _MOST_PACKET:
            part = self._part()
            left -= len(part)
            held += part
            body = held[: self._end_of(held)]
            held = held[len(body) :]
            checksum = zlib.crc32(body, checksum)
            yield body
        if left:
            cause = f"an event before {self.place} has {size - left} bytes instead of {size}"
            raise self._broken(cause)
        if held and _read_checksum(held)[0] != checksum:
            cause = f"the checksum of an event before {self.place} is wrong"
            raise self._broken(cause)

    def _end_of(self, data: bytes) -> int:
        return len(data) - CHECKSUM_SIZE if self._has_checksums else len(data)

    def _part(self) -> bytes:
        try:
            return self._read_part()
        except OSError as error:
            raise self._lost(str(error) or "the connection was lost") from None

    def _read_part(self) -> bytes:
        read = self._packets.read
        header = read(4)
        if len(header) < 4:
            msg = "the server closed the connection"
            raise OSError(msg)
        size = int.from_bytes(header[:3], "little")
        data = read(size)
        if len(data) < size:
            msg = "the server closed the connection"
            raise OSError(msg)
        return data

    def _event(self, packet: bytes) -> Event:
        seconds, kind, server, size, low, flags = read_header(packet, 1)
        if len(packet) == _MOST_PACKET and kind == EventType.TRANSACTION_PAYLOAD:
            start, self._rest = self._advance(size, low), self._parts_after(packet, size)
            data = packet[1 : self._end_of(packet)]
            return Event(kind, seconds, server, flags, data, start, self.offset, self._rest)
        end = self._end_of_body(packet, kind)
        if size != len(packet) - 1:
            cause = f"an event after {self.place} has {len(packet) - 1} bytes instead of {size}"
            raise self._broken(cause)
        start = self.offset
        if kind not in _HEARTBEATS and (low or self._is_at_wrap(kind, size, flags)):
            start = self._advance(size, low)
        return Event(kind, seconds, server, flags, packet[1:end], start, self.offset)

    def _is_at_wrap(self, kind: int, size: int, flags: int) -> bool:
        """Whether an event without an end in its header ends at a multiple of 4 GiB; others like it are in no file."""
        is_in_file = kind not in _OF_FILES and not flags & ARTIFICIAL
        return is_in_file and self.offset > 0 and not (self.offset + size) & _MOST_OFFSET

    def _end_of_body(self, packet: bytes, kind: int) -> int:
        """Check the checksum of an event; return where its body ends."""
        if kind == EventType.FORMAT_DESCRIPTION:
            self._has_checksums = has_checksums(packet)
        end = len(packet) - CHECKSUM_SIZE
        is_equal = zlib.crc32(memoryview(packet)[1:end]) == _read_checksum(packet, end)[0]
        if kind == EventType.ROTATE:
            # One before the first format description may have a checksum or not.
            return end if is_equal else len(packet)
        if self._has_checksums and not is_equal:
            cause = f"the checksum of an event after {self.place} is wrong"
            raise self._broken(cause)
        return end if self._has_checksums or kind == EventType.FORMAT_DESCRIPTION else len(packet)

    def _advance(self, size: int, low: int) -> int:
        """Move the place behind an event; return where it begins. Events that the server leaves out make a distance."""
        after = self.offset + size
        distance = (low - after) & _MOST_OFFSET
        if distance >= _HALF:
            cause = f"an event after {self.place} ends at {low}, before its begin"
            raise self._broken(cause)
        self.offset = after + distance
        return self.offset - size

    def _broken(self, cause: str) -> SourceError:
        return SourceError("MYSQL_LOG_UNREADABLE", cause=cause)

    def _lost(self, cause: str) -> SourceError:
        return SourceError(
            "DATABASE_UNREACHABLE",
            address=self._source.address,
            connection=self._source.name,
            cause=self._hidden(cause),
        )

    def _hidden(self, text: object) -> str:
        return self._source.hide(one_line(str(text))).rstrip(". ")
