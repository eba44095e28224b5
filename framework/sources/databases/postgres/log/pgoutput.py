"""Messages of PostgreSQL's output plugin pgoutput, protocol version 1.

`decode` returns frozen values. `read_row` decodes only a row; for speed, the reader of the log calls it directly for
each change. https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Final

from framework.foundation.errors import InternalError
from framework.sources.databases.tables import TableName

# Microseconds from 1970 to 2000, where PostgreSQL's clock starts.
_EPOCH_MICROSECONDS = 946_684_800_000_000
_TEXT, _NULL, _UNCHANGED = b"tnu"
_FULL_IDENTITY = "f"

_read_count = Struct(">H").unpack_from
_read_length = Struct(">I").unpack_from
_read_long = Struct(">Q").unpack_from
_read_begin = Struct(">QqI").unpack_from
_read_commit = Struct(">BQQq").unpack_from
_read_column = Struct(">Ii").unpack_from


class Omitted:
    """The type of `OMITTED`, a value that the log left out because the update did not change it."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the name of the constant."""
        return "OMITTED"


OMITTED: Final = Omitted()
Value = str | None | Omitted
"""The text of a value, None for NULL, or OMITTED."""
Row = list[Value]


@dataclass(frozen=True, slots=True)
class Begin:
    """The start of a committed transaction.

    Args:
        position: start of its commit record.
        commit_microseconds: since 1970, UTC.
        xid: the low 32 bits of its transaction id.
    """

    position: int
    commit_microseconds: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction: start and end of its commit record."""

    position: int
    end: int
    commit_microseconds: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The server where a replicated transaction was originally made."""

    position: int
    name: str


@dataclass(frozen=True, slots=True)
class Type:
    """A type that is not built in."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of a table in the log."""

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool


@dataclass(frozen=True)
class Relation:
    """The definition of a table for the changes that follow.

    Args:
        oid: the table's object identifier.
        table: schema and name.
        replica_identity: d (default), i (an index), f (full) or n (nothing).
        columns: in the order of the table; generated columns are not in the log.
    """

    oid: int
    table: TableName
    replica_identity: str
    columns: tuple[RelationColumn, ...]

    @property
    def is_full(self) -> bool:
        """Whether the log has all columns of the old row."""
        return self.replica_identity == _FULL_IDENTITY

    @cached_property
    def schema_version(self) -> int:
        """The version of the columns."""
        return columns_version([(c.name, c.type_oid, c.type_modifier) for c in self.columns])


_NUMBERS = frozenset({1700, 1231})
"""The oids of `numeric` and its array."""
_AS_TEXT = {1043: 25, 1015: 1009}
"""`varchar` counts as `text`, and an array of `varchar` as an array of `text`."""


def columns_version(columns: Sequence[tuple[str, int, int]]) -> int:
    """Return a positive 63-bit fingerprint of columns, each with the oid and the modifier of its type.

    It is a fingerprint, not a counter, so it is the same after a restart, in every process, and for the columns in the
    catalog. Columns are ordered by their numbers, so the version differs while two columns have exchanged names. The
    replica identity is left out. The length of a text and all modifiers except those of numbers are left out as well:
    changing them changes no value unless the database rewrites the rows, and the catalog shows a rewrite.

    Args:
        columns: in the order of the table.
    """
    counted = [[name, *_counted_type(oid, modifier)] for name, oid, modifier in columns]
    digest = hashlib.sha256(json.dumps(counted).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _counted_type(oid: int, modifier: int) -> tuple[int, int]:
    return _AS_TEXT.get(oid, oid), modifier if oid in _NUMBERS else -1


@dataclass(frozen=True, slots=True)
class InsertMessage:
    """A new row."""

    relation: int
    new: Row


@dataclass(frozen=True, slots=True)
class UpdateMessage:
    """A changed row.

    Args:
        relation: oid of the table.
        old: the old row: its key if the key changed, the full row with REPLICA IDENTITY FULL; None if it is not in the
            log.
        new: the new row; values may be OMITTED.
    """

    relation: int
    old: Row | None
    new: Row


@dataclass(frozen=True, slots=True)
class DeleteMessage:
    """A deleted row: its key, or all of it with REPLICA IDENTITY FULL."""

    relation: int
    old: Row


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncated tables."""

    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A message of `pg_logical_emit_message`."""

    transactional: bool
    position: int
    prefix: str
    content: bytes


LogMessage = (
    Begin | Commit | Origin | Type | Relation | InsertMessage | UpdateMessage | DeleteMessage | Truncate | Message
)


def decode(data: bytes, at: int = 0) -> LogMessage:
    """Return the message that starts at an index of the bytes.

    Raises:
        InternalError: the bytes are not a message of protocol version 1.
    """
    decoder = _DECODERS.get(data[at])
    if decoder is None:
        raise InternalError("POSTGRES_LOG_MESSAGE_UNKNOWN", kind=repr(data[at : at + 1]))
    return decoder(data, at + 1)


def read_oid(data: bytes, at: int) -> int:
    """Return the object identifier at an index of the bytes."""
    return int(_read_length(data, at)[0])


def read_row(data: bytes, at: int) -> tuple[Row, int]:
    """Return the row at an index of the bytes, and the index after it."""
    (count,) = _read_count(data, at)
    at += 2
    row: Row = []
    append = row.append
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + _read_length(data, at + 1)[0]
            append(data[start:at].decode())
        elif kind == _NULL:
            append(None)
            at += 1
        elif kind == _UNCHANGED:
            append(OMITTED)
            at += 1
        else:
            raise InternalError("POSTGRES_LOG_MESSAGE_UNKNOWN", kind=f"value {bytes([kind])!r}")
    return row, at


def read_columns(messages: Sequence[bytes], at: int) -> list[list[str | None]]:
    """Return the values of many rows by column; a row starts at this index of each message and ends with it.

    Args:
        messages: Inserts of one relation; they have no omitted values.
        at: where the row starts.

    Raises:
        UnicodeDecodeError: a text that is not UTF-8.
        InternalError: the bytes are not such rows.
    """
    import numpy as np  # the catalog needs this module, too, in each command

    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(lengths)
    data = b"".join(messages)
    # A NULL at the end has no length field, so four additional bytes are appended to be read as its length.
    octets = np.frombuffer(data + bytes(4), np.uint8)
    positions = ends - lengths + at + 2
    columns: list[list[str | None]] = []
    for _ in range(_read_count(messages[0], at)[0]):
        kinds = octets[positions]
        is_text = kinds == _TEXT
        if not (is_text | (kinds == _NULL)).all():
            raise InternalError("POSTGRES_LOG_MESSAGE_UNKNOWN", kind=f"values {bytes(np.unique(kinds))!r}")
        size = sum(octets[positions + 1 + place].astype(np.int64) << (24 - 8 * place) for place in range(4))
        starts = positions + np.where(is_text, 5, 1)
        positions = starts + np.where(is_text, size, 0)
        bounds = zip(starts.tolist(), positions.tolist(), strict=True)
        if is_text.all():
            columns.append([data[start:end].decode() for start, end in bounds])
        else:
            given = zip(bounds, is_text.tolist(), strict=True)
            columns.append([data[start:end].decode() if is_given else None for (start, end), is_given in given])
    if not np.array_equal(positions, ends):
        raise InternalError("POSTGRES_LOG_MESSAGE_UNKNOWN", kind="a row that does not end with its message")
    return columns


def read_update(data: bytes, at: int) -> tuple[Row | None, Row]:
    """Return the old row, if there is one, and the new row of an Update whose oid ends at this index."""
    old: Row | None = None
    if data[at] in b"KO":
        old, at = read_row(data, at + 1)
    return old, read_row(data, at + 1)[0]


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _begin(data: bytes, at: int) -> Begin:
    position, microseconds, xid = _read_begin(data, at)
    return Begin(position, microseconds + _EPOCH_MICROSECONDS, xid)


def _commit(data: bytes, at: int) -> Commit:
    _, position, end, microseconds = _read_commit(data, at)
    return Commit(position, end, microseconds + _EPOCH_MICROSECONDS)


def _origin(data: bytes, at: int) -> Origin:
    return Origin(_read_long(data, at)[0], _text(data, at + 8)[0])


def _type(data: bytes, at: int) -> Type:
    schema, after = _text(data, at + 4)
    return Type(read_oid(data, at), schema, _text(data, after)[0])


def _relation(data: bytes, at: int) -> Relation:
    oid = read_oid(data, at)
    schema, at = _text(data, at + 4)
    table, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _read_count(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[at] & 1)
        name, at = _text(data, at + 1)
        type_oid, type_modifier = _read_column(data, at)
        columns.append(RelationColumn(name, type_oid, type_modifier, is_key))
        at += 8
    # The schema pg_catalog is sent as an empty name.
    return Relation(oid, TableName(schema=schema or "pg_catalog", table=table), identity, tuple(columns))


def _insert(data: bytes, at: int) -> InsertMessage:
    return InsertMessage(read_oid(data, at), read_row(data, at + 5)[0])


def _update(data: bytes, at: int) -> UpdateMessage:
    return UpdateMessage(read_oid(data, at), *read_update(data, at + 4))


def _delete(data: bytes, at: int) -> DeleteMessage:
    return DeleteMessage(read_oid(data, at), read_row(data, at + 5)[0])


def _truncate(data: bytes, at: int) -> Truncate:
    count, options = read_oid(data, at), data[at + 4]
    relations = tuple(read_oid(data, at + 5 + 4 * index) for index in range(count))
    return Truncate(relations, cascade=bool(options & 1), restart_identity=bool(options & 2))


def _message(data: bytes, at: int) -> Message:
    transactional, (position,) = bool(data[at] & 1), _read_long(data, at + 1)
    prefix, at = _text(data, at + 9)
    return Message(transactional, position, prefix, data[at + 4 : at + 4 + read_oid(data, at)])


_DECODERS: Mapping[int, Callable[[bytes, int], LogMessage]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("Y"): _type,
    ord("R"): _relation,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _message,
}
