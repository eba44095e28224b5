"""Events of the log: their types, their headers, and the bodies of events without rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

HEADER_SIZE = 19
CHECKSUM_SIZE = 4
IGNORABLE = 0x80
"""The flag of events that a reader may skip without knowing their type."""
ARTIFICIAL = 0x20
"""The flag of events that are not in the file."""

read_header = Struct("<IBIIIH").unpack_from
"""Decode a header: time, type, server, size, low 32 bits of the offset after the event, flags."""
_read_short = Struct("<H").unpack_from
_read_long = Struct("<Q").unpack_from
_read_query = Struct("<IIBHH").unpack_from
_read_gtid = Struct("<B16sQ").unpack_from
_read_maria_gtid = Struct("<QIB").unpack_from
_read_int = Struct("<I").unpack_from
_read_listed, _LISTED_SIZE = Struct("<IIQ").unpack_from, Struct("<IIQ").size
_MOST_GTIDS = (1 << 28) - 1
_read_xid, _XID_SIZE = Struct("<iBB").unpack_from, Struct("<iBB").size
_STANDALONE, _GROUPED, _PREPARED = 0x01, 0x02, 0x40
_MICROS = 1_000_000
_FINE_TIME = 1 << 55
"""The bit of a commit time that says that the original time follows."""


class EventType(IntEnum):
    """The types of events that this reader knows; every other type may hold rows."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    SLAVE = 7
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIA_ANNOTATE_ROWS = 160
    MARIA_BINLOG_CHECKPOINT = 161
    MARIA_GTID = 162
    MARIA_GTID_LIST = 163
    MARIA_START_ENCRYPTION = 164
    MARIA_QUERY_COMPRESSED = 165
    MARIA_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIA_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIA_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIA_WRITE_ROWS_COMPRESSED = 169
    MARIA_UPDATE_ROWS_COMPRESSED = 170
    MARIA_DELETE_ROWS_COMPRESSED = 171


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Args:
        kind: the number of its type.
        seconds: when it was written, since 1970.
        server: the number of the server that wrote it first.
        flags: of the header.
        data: header and body, without the checksum.
        start: its offset in the file, that of its end if it is not in the file.
        end: the offset after it.
        rest: the bytes of a long compressed transaction that follow `data`, read from the server once and at most up
            to the next event; it raises at its end if the checksum is wrong.
    """

    kind: int
    seconds: int
    server: int
    flags: int
    data: bytes
    start: int = 0
    end: int = 0
    rest: Iterable[bytes] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A statement in the log: BEGIN, COMMIT, DDL, or DML in statement format."""

    schema: str
    text: str


@dataclass(frozen=True, slots=True)
class Gtid:
    """The start of a transaction or of a single statement.

    Args:
        text: `uuid:number`, `uuid:tag:number` or `domain-server-sequence`; empty for an anonymous transaction.
        commit_microseconds: since 1970.
        is_transaction: whether a transaction follows, and not a single statement (MariaDB; MySQL has a BEGIN).
        xid: the XA transaction that is prepared by it (MariaDB; MySQL has a statement); empty otherwise.
    """

    text: str
    commit_microseconds: int
    is_transaction: bool = False
    xid: str = ""


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded number and the index after it."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    if first == 0xFC:
        return _read_short(data, at + 1)[0], at + 3
    if first == 0xFD:
        return _read_short(data, at + 1)[0] | data[at + 3] << 16, at + 4
    return _read_long(data, at + 1)[0], at + 9


def has_checksums(data: bytes) -> bool:
    """Whether the events of a file end with a CRC-32; from its format description, which always has five more bytes."""
    return data[-CHECKSUM_SIZE - 1] == 1


def is_of_mariadb(data: bytes) -> bool:
    """Whether MariaDB wrote a file; from the version in its format description."""
    return b"mariadb" in data[HEADER_SIZE + 2 : HEADER_SIZE + 52].lower()


def read_rotate(data: bytes) -> tuple[str, int]:
    """Return the file that follows, and the offset where it is read."""
    return data[HEADER_SIZE + 8 :].decode(), _read_long(data, HEADER_SIZE)[0]


def read_query(data: bytes) -> Query:
    """Decode a QUERY event."""
    _, _, schema_size, _, variables_size = _read_query(data, HEADER_SIZE)
    start = HEADER_SIZE + 13 + variables_size
    schema = data[start : start + schema_size]
    return Query(schema.decode(errors="replace"), data[start + schema_size + 1 :].decode(errors="replace"))


def read_load_query(data: bytes) -> Query:
    """Decode the statement of an EXECUTE_LOAD_QUERY event, which has 13 more bytes in its header."""
    _, _, schema_size, _, variables_size = _read_query(data, HEADER_SIZE)
    start = HEADER_SIZE + 26 + variables_size
    schema = data[start : start + schema_size]
    return Query(schema.decode(errors="replace"), data[start + schema_size + 1 :].decode(errors="replace"))


def read_gtid(event: Event) -> Gtid:
    """Decode a GTID or ANONYMOUS_GTID event of MySQL."""
    data = event.data
    _, uuid, number = _read_gtid(data, HEADER_SIZE)
    text = f"{uuid_text(uuid)}:{number}" if event.kind == EventType.GTID else ""
    micros = event.seconds * _MICROS
    after = HEADER_SIZE + 42
    if len(data) >= after + 7:
        micros = int.from_bytes(data[after : after + 7], "little") & ~_FINE_TIME
    return Gtid(text, micros)


def read_maria_gtid(event: Event) -> Gtid:
    """Decode a GTID event of MariaDB."""
    data = event.data
    sequence, domain, flags = _read_maria_gtid(data, HEADER_SIZE)
    text = f"{domain}-{event.server}-{sequence}"
    xid = ""
    if flags & _PREPARED:
        # After the flags: the number of the group if there is one, then the parts of the XA transaction's name.
        at = HEADER_SIZE + 13 + (8 if flags & _GROUPED else 0)
        form, first, second = _read_xid(data, at)
        at += _XID_SIZE
        xid = f"X'{data[at : at + first].hex()}',X'{data[at + first : at + first + second].hex()}',{form}"
    return Gtid(text, event.seconds * _MICROS, is_transaction=not flags & _STANDALONE, xid=xid)


def read_gtid_list(data: bytes) -> str:
    """Return the last transaction of each domain and server before a file of MariaDB, from its GTID_LIST event."""
    count = _read_int(data, HEADER_SIZE)[0] & _MOST_GTIDS
    found = (_read_listed(data, HEADER_SIZE + 4 + _LISTED_SIZE * number) for number in range(count))
    return ",".join(f"{domain}-{server}-{sequence}" for domain, server, sequence in found)


def uuid_text(value: bytes) -> str:
    """Return the text of the 16 bytes of a UUID."""
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
