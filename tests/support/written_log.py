"""A log of MySQL in memory whose files may have any size, and a connection that sends it as a server does.

A file has the events that are given; what is between two of them is a part of the file that is not sent.
"""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Self

from framework.sources.databases.mysql.log.events import ARTIFICIAL, CHECKSUM_SIZE, HEADER_SIZE, EventType

_pack_header = Struct("<IBIIIH").pack
_pack_gtid = Struct("<QIB6x").pack
_pack_long = Struct("<Q").pack
_read_dump = Struct("<IHI").unpack_from
_MASK = (1 << 32) - 1
_MOST_PACKET = (1 << 24) - 1
_VERSION = "11.4.5-MariaDB"
_FORMAT = b"\x04\x00" + _VERSION.encode().ljust(50, b"\0") + bytes(4) + b"\x13" + bytes(60) + b"\x01"
_DUMP, _NOT_IN_LOG = 0x12, 1236
_ROWS = b"INSERT INTO t SELECT * FROM u"
_ROWS_SIZE = HEADER_SIZE + len(_ROWS) + CHECKSUM_SIZE
_XID_SIZE = HEADER_SIZE + 8 + CHECKSUM_SIZE


def encode_event(kind: int, body: bytes, *, end: int, seconds: int = 1, flags: int = 0) -> bytes:
    """Return an event with its checksum; its header has the low 32 bits of its end."""
    size = HEADER_SIZE + len(body) + CHECKSUM_SIZE
    data = _pack_header(seconds, kind, 1, size, end & _MASK, flags) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


@dataclass
class WrittenFile:
    """A file of the log.

    Args:
        name: its name.
        seconds: when it was begun.
    """

    name: str
    seconds: int = 1
    events: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 4

    def __post_init__(self) -> None:
        self.add(EventType.FORMAT_DESCRIPTION, _FORMAT)

    def add(self, kind: int, body: bytes, *, at: int | None = None) -> int:
        """Add an event at an offset, at the end of the file if omitted; return where it begins."""
        start = self.end if at is None else at
        self.end = start + HEADER_SIZE + len(body) + CHECKSUM_SIZE
        self.events.append((start, encode_event(kind, body, end=self.end, seconds=self.seconds)))
        return start

    def transact(self, number: int, *, ends_at: int | None = None) -> None:
        """Add a transaction with the GTID `0-1-number`, whose last event ends at an offset if that is given."""
        self.add(EventType.MARIA_GTID, _pack_gtid(number, 0, 0))
        if ends_at is not None:
            last = ends_at - _XID_SIZE - _ROWS_SIZE
            # No two events that are sent are further apart than 2 GiB, and the last two follow each other.
            for offset in (*range(self.end + (1 << 30), last - _ROWS_SIZE, 1 << 30), last):
                self.add(EventType.MARIA_ANNOTATE_ROWS, _ROWS, at=offset)
        self.add(EventType.XID, _pack_long(number))


class WrittenLog:
    """The files, in their order."""

    def __init__(self, files: Sequence[WrittenFile]) -> None:
        self.files: Mapping[str, WrittenFile] = {each.name: each for each in files}

    def connect(self) -> _Connection:
        """Return a connection, as PyMySQL would."""
        return _Connection(self)

    def packets(self, name: str, offset: int) -> list[bytes]:
        """Return what a server sends for a request."""
        names = [*self.files]
        sent = []
        for number, file in enumerate(names[names.index(name) :]):
            written = self.files[file]
            begin = offset if number == 0 else 4
            starts = [start for start, _ in written.events]
            if begin not in (*starts, written.end):
                return [b"\xff" + _NOT_IN_LOG.to_bytes(2, "little") + b"#HY000no such place"]
            rotate = _pack_long(begin) + file.encode()
            sent.append(encode_event(EventType.ROTATE, rotate, end=0, seconds=0, flags=ARTIFICIAL))
            if begin > 4:
                sent.append(encode_event(EventType.FORMAT_DESCRIPTION, _FORMAT, end=0, seconds=written.seconds))
            sent += [data for start, data in written.events if start >= begin]
        beat = name.encode()
        sent += [encode_event(EventType.HEARTBEAT, beat, end=4) for _ in range(5)]
        return [b"\0" + each for each in sent]


class _Connection:
    """The parts of a connection of PyMySQL that a stream uses."""

    def __init__(self, log: WrittenLog) -> None:
        self._log = log
        self._sock, self._far = socket.socketpair()

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Take any statement."""

    def fetchone(self) -> tuple[str]:
        """Return the version."""
        return (_VERSION,)

    def _execute_command(self, command: int, arguments: bytes) -> None:
        assert command == _DUMP
        offset = _read_dump(arguments)[0]
        packets = self._log.packets(arguments[10:].decode(), offset)
        threading.Thread(target=self._send, args=(packets,), daemon=True).start()

    def _send(self, packets: Sequence[bytes]) -> None:
        with suppress(OSError):
            for packet in packets:
                for at in range(0, len(packet) + 1, _MOST_PACKET):
                    part = packet[at : at + _MOST_PACKET]
                    self._far.sendall(len(part).to_bytes(3, "little") + b"\0" + part)
            self._far.shutdown(socket.SHUT_WR)

    def _force_close(self) -> None:
        self._sock.close()
        self._far.close()
