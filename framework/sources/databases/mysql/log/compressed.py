"""Compressed events: transactions of MySQL, as a stream in bounded memory, and single events of MariaDB."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

import pyarrow as pa

from framework.sources.databases.mysql.log.events import HEADER_SIZE, Event, read_header, read_length

_PAYLOAD_SIZE, _COMPRESSION = 1, 2
_ZSTD, _NONE = 0, 255
_read_short = Struct("<H").unpack_from
_read_int = Struct("<I").unpack_from


def payload_events(event: Event) -> Iterator[bytes]:
    """Yield the events in a TRANSACTION_PAYLOAD event, which have no checksums; the last one when all were checked.

    Raises:
        ValueError: the compression is unknown, or the payload ends in an event.
        SourceError: the checksum is wrong, or the server can't be reached.
    """
    held = b""
    with _payload(event) as stream:
        for data in _read_events(stream):
            if held:
                yield held
            held = data
    # A commit is in the last event. It does not count before the checksum is read.
    for _ in event.rest:
        pass
    if held:
        yield held


def _payload(event: Event) -> pa.NativeFile:
    """Return the decompressed payload as a stream."""
    data, at, fields = event.data, HEADER_SIZE, {}
    while (kind := data[at]) != 0:
        _, at = read_length(data, at)
        size, at = read_length(data, at)
        fields[kind] = read_length(data, at)[0]
        at += size
    compression = fields.get(_COMPRESSION, _NONE)
    if compression not in (_ZSTD, _NONE):
        msg = f"a transaction is compressed by the method {compression}"
        raise ValueError(msg)
    if event.rest:
        source = pa.PythonFile(_Parts(data[at + 1 :], iter(event.rest), fields[_PAYLOAD_SIZE]), "r")
    else:
        source = pa.BufferReader(pa.py_buffer(data)[at + 1 : at + 1 + fields[_PAYLOAD_SIZE]])
    return pa.CompressedInputStream(source, "zstd") if compression == _ZSTD else source


class _Parts:
    """A long payload as a file for PyArrow, of which one part is in memory.

    Args:
        first: its first part.
        rest: the others.
        size: its size in bytes; what follows is left out.
    """

    def __init__(self, first: bytes, rest: Iterator[bytes], size: int) -> None:
        self.closed = False
        self._part, self._rest, self._left = memoryview(first), rest, size

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most so many; none at the end."""
        while not self._part and self._left:
            part = next(self._rest, b"")
            if not part:
                return b""
            self._part = memoryview(part)
        taken = bytes(self._part[: min(size, self._left)])
        self._part, self._left = self._part[len(taken) :], self._left - len(taken)
        return taken

    def close(self) -> None:
        """Close the file."""
        self.closed = True


def _read_events(stream: pa.NativeFile) -> Iterator[bytes]:
    while header := _read(stream, HEADER_SIZE):
        size = read_header(header, 0)[3]
        yield header + _read(stream, size - HEADER_SIZE)


def _read(stream: pa.NativeFile, size: int) -> bytes:
    """Return exactly so many bytes; none at the end."""
    parts = []
    left = size
    while left and (part := stream.read(left)):
        parts.append(part)
        left -= len(part)
    if left and parts:
        msg = "a compressed transaction ends in an event"
        raise ValueError(msg)
    return b"".join(parts)


def maria_rows(data: bytes, *, has_extra: bool, is_update: bool) -> bytes:
    """Return a compressed row event of MariaDB with its rows decompressed; they follow the columns of their images."""
    at = HEADER_SIZE + 8
    if has_extra:
        at += _read_short(data, at)[0]
    width, at = read_length(data, at)
    at += (width + 7) // 8 * (1 + is_update)
    return data[:at] + _maria_block(data, at)


def maria_query(data: bytes) -> bytes:
    """Return a compressed QUERY event of MariaDB with its statement decompressed."""
    schema_size = data[HEADER_SIZE + 8]
    variables_size = _read_short(data, HEADER_SIZE + 11)[0]
    at = HEADER_SIZE + 13 + variables_size + schema_size + 1
    return data[:at] + _maria_block(data, at)


def _maria_block(data: bytes, at: int) -> bytes:
    """Decompress a block: a byte with the method and the size of the length, the length, and the stream of zlib."""
    header = data[at]
    method, size = header >> 4 & 7, header & 7
    if method:
        msg = f"an event is compressed by the method {method}"
        raise ValueError(msg)
    return zlib.decompress(data[at + 1 + size :])
