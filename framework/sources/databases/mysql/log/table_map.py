"""Tables in the log: TABLE_MAP events with the metadata of `binlog_row_metadata=FULL`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Protocol

from framework.sources.databases.mysql.log.events import HEADER_SIZE, read_length
from framework.sources.databases.tables import TableName

BINARY_COLLATION = 63
"""The number of the collation `binary`, which has the number in every version."""
IF_SET = "if the server is set so, `sluice ingest preflight` has the statement"
"""What a person does about a setting that leaves something out of the log."""


class FieldType(IntEnum):
    """The types of fields in the log."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    MARIA_BLOB_COMPRESSED = 140
    MARIA_VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_INTEGERS = {
    FieldType.TINY: "tinyint",
    FieldType.SHORT: "smallint",
    FieldType.INT24: "mediumint",
    FieldType.LONG: "int",
    FieldType.LONGLONG: "bigint",
}
_NUMBERS = (*_INTEGERS, FieldType.FLOAT, FieldType.DOUBLE, FieldType.NEWDECIMAL, FieldType.YEAR)
"""The types with a bit that says whether a number has a sign."""
_BLOBS = (FieldType.BLOB, FieldType.TINY_BLOB, FieldType.MEDIUM_BLOB, FieldType.LONG_BLOB)
_COMPRESSED = (FieldType.MARIA_BLOB_COMPRESSED, FieldType.MARIA_VARCHAR_COMPRESSED)
_TEXTS = (FieldType.VARCHAR, FieldType.VAR_STRING, FieldType.STRING, *_BLOBS, *_COMPRESSED)
_ONE_BYTE = frozenset(
    {
        *_BLOBS,
        FieldType.FLOAT,
        FieldType.DOUBLE,
        FieldType.JSON,
        FieldType.GEOMETRY,
        FieldType.VECTOR,
        FieldType.TIMESTAMP2,
        FieldType.DATETIME2,
        FieldType.TIME2,
        FieldType.MARIA_BLOB_COMPRESSED,
    }
)
_TWO_BYTES = (FieldType.VARCHAR, FieldType.BIT, FieldType.MARIA_VARCHAR_COMPRESSED)
_PLAIN = {FieldType.YEAR: "year", FieldType.DATE: "date", FieldType.FLOAT: "float", FieldType.DOUBLE: "double"}
_PLAIN |= {FieldType.JSON: "json", FieldType.GEOMETRY: "geometry"}
_TIMES = {FieldType.TIMESTAMP2: "timestamp", FieldType.DATETIME2: "datetime", FieldType.TIME2: "time"}
_OLD_TIMES = {FieldType.TIMESTAMP: "timestamp(0)", FieldType.DATETIME: "datetime(0)", FieldType.TIME: "time(0)"}


class _Metadata(IntEnum):
    """The parts of the optional metadata."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_LABELS = 5
    ENUM_LABELS = 6
    SIMPLE_KEY = 8
    KEY_WITH_PREFIX = 9
    LABELS_DEFAULT_CHARSET = 10
    LABELS_COLUMN_CHARSET = 11
    VISIBILITY = 12
    VECTOR_SIZE = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumn:
    """A column of a table in the log.

    Args:
        name: the name.
        kind: the type of the field.
        size: its metadata: lengths, digits of fractions; for a decimal precision << 8 | scale.
        nullable: whether it may be NULL.
        is_unsigned: of a number.
        collation: the number of the collation of its texts or labels.
        labels: of an enum or a set.
        is_key: whether it belongs to the primary key.
        is_visible: whether `SELECT *` has it.
    """

    name: str
    kind: int
    size: int = 0
    nullable: bool = True
    is_unsigned: bool = False
    collation: int = BINARY_COLLATION
    labels: tuple[str, ...] = ()
    is_key: bool = False
    is_visible: bool = True

    @property
    def is_binary(self) -> bool:
        """Whether its bytes are not text."""
        return self.collation == BINARY_COLLATION

    @property
    def type_name(self) -> str:
        """The type, without what changes no value: widths of numbers, lengths of texts."""
        kind = self.kind
        if kind in _INTEGERS:
            return _INTEGERS[FieldType(kind)] + (" unsigned" if self.is_unsigned else "")
        if kind in _PLAIN:
            return _PLAIN[FieldType(kind)]
        if kind in _TIMES:
            return f"{_TIMES[FieldType(kind)]}({self.size})"
        return _OLD_TIMES.get(kind) or self._sized_name()  # type: ignore[call-overload]

    def _sized_name(self) -> str:
        kind = self.kind
        if kind == FieldType.NEWDECIMAL:
            return f"decimal({self.size >> 8},{self.size & 255})"
        if kind == FieldType.BIT:
            return f"bit({self.size})"
        if kind in (FieldType.ENUM, FieldType.SET):
            labels = ",".join("'" + label.replace("'", "''") + "'" for label in self.labels)
            return f"{'enum' if kind == FieldType.ENUM else 'set'}({labels})"
        if kind == FieldType.VECTOR:
            return "vector"
        if kind == FieldType.STRING:
            names = (f"binary({self.size})", "char")
        elif kind in (*_BLOBS, FieldType.MARIA_BLOB_COMPRESSED):
            names = ("blob", "text")
        else:
            names = ("varbinary", "varchar")
        return names[0] if self.is_binary else names[1]


@dataclass(frozen=True, eq=False)
class LoggedTable:
    """A table as the log describes it for the changes that follow.

    Args:
        table: the name.
        columns: in the order of the table.
        problem: why its rows can't be read; empty if they can.
    """

    table: TableName
    columns: tuple[LogColumn, ...]
    problem: str = ""

    @cached_property
    def schema_version(self) -> int:
        """The version of the columns."""
        return columns_version([(column.name, column.type_name) for column in self.columns])


def columns_version(columns: Sequence[tuple[str, str]]) -> int:
    """Return a positive 63-bit fingerprint of columns, each with the name of its type in the log.

    It is a fingerprint, not a counter, so it is the same after a restart and for the columns in the catalog.
    """
    digest = hashlib.sha256(json.dumps([list(column) for column in columns]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def table_name(data: bytes) -> tuple[TableName, int]:
    """Return the table of a TABLE_MAP event, and the index of what follows its name."""
    at = HEADER_SIZE + 8
    end = at + 1 + data[at]
    schema = data[at + 1 : end].decode(errors="replace")
    start = end + 1
    end = start + 1 + data[start]
    return TableName(schema=schema, table=data[start + 1 : end].decode(errors="replace")), end + 1


def read_table_map(data: bytes, texts: TextDecoder, *, is_mariadb: bool) -> LoggedTable:
    """Decode a TABLE_MAP event.

    Args:
        data: the event.
        texts: decodes labels.
        is_mariadb: whether MariaDB wrote it: its spatial columns have a collation, those of MySQL with vectors do.
    """
    table, at = table_name(data)
    count, at = read_length(data, at)
    kinds, at = data[at : at + count], at + count
    size, at = read_length(data, at)
    fields = list(_read_fields(kinds, data[at : at + size]))
    at += size
    nulls, at = data[at : at + (count + 7) // 8], at + (count + 7) // 8
    parts = dict(_read_parts(data, at))
    if _Metadata.COLUMN_NAME not in parts:
        problem = f"the log lacks the names of its columns: binlog_row_metadata was not FULL; {IF_SET}"
        return LoggedTable(table, (), problem)
    try:
        columns = _describe(
            fields, nulls, parts, _Dialect(texts, (*_TEXTS, FieldType.GEOMETRY if is_mariadb else FieldType.VECTOR))
        )
    except (IndexError, ValueError) as error:
        return LoggedTable(table, (), f"the description of its columns can't be read: {error}")
    return LoggedTable(table, columns)


def _read_parts(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(data):
        size, start = read_length(data, at + 1)
        yield data[at], data[start : start + size]
        at = start + size


def _read_fields(kinds: bytes, metadata: bytes) -> Iterator[tuple[int, int]]:
    """Yield the type and the size of each column; an enum, a set or a text of more than 255 bytes is a STRING."""
    at = 0
    for kind in kinds:
        if kind == FieldType.STRING:
            first, second = metadata[at], metadata[at + 1]
            at += 2
            if first & 0x30 != 0x30:
                yield FieldType.STRING, second | ((first & 0x30) ^ 0x30) << 4
            else:
                yield first, second
        elif kind == FieldType.NEWDECIMAL:
            yield kind, metadata[at] << 8 | metadata[at + 1]
            at += 2
        elif kind == FieldType.BIT:
            yield kind, metadata[at] + 8 * metadata[at + 1]
            at += 2
        elif kind in _TWO_BYTES or kind in (FieldType.VAR_STRING, FieldType.ENUM, FieldType.SET):
            yield kind, metadata[at] | metadata[at + 1] << 8
            at += 2
        elif kind in _ONE_BYTE:
            yield kind, metadata[at]
            at += 1
        else:
            yield kind, 0


class TextDecoder(Protocol):
    """Decodes texts of the character sets of the server."""

    def decoder(self, collation: int) -> Callable[[bytes], str]:
        """Return the function that decodes the bytes of a collation's character set, as the server converts them."""
        ...


@dataclass(frozen=True, slots=True)
class _Dialect:
    texts: TextDecoder
    collated: Sequence[int]


def _describe(
    fields: list[tuple[int, int]], nulls: bytes, parts: dict[int, bytes], dialect: _Dialect
) -> tuple[LogColumn, ...]:
    kinds = [kind for kind, _ in fields]
    names = [name.decode() for name in _texts(parts[_Metadata.COLUMN_NAME])]
    unsigned = _bits(parts, _Metadata.SIGNEDNESS, kinds, lambda kind: kind in _NUMBERS)
    collations = _collations(parts, _Metadata.DEFAULT_CHARSET, kinds, dialect.collated)
    collations |= _collations(parts, _Metadata.LABELS_DEFAULT_CHARSET, kinds, (FieldType.ENUM, FieldType.SET))
    visible = _bits(parts, _Metadata.VISIBILITY, kinds, lambda _: True)
    labels = {
        **dict(zip(_places(kinds, FieldType.ENUM), _labels(parts, _Metadata.ENUM_LABELS), strict=True)),
        **dict(zip(_places(kinds, FieldType.SET), _labels(parts, _Metadata.SET_LABELS), strict=True)),
    }
    key = frozenset(_key(parts))
    return tuple(
        LogColumn(
            name=name,
            kind=kind,
            size=size,
            nullable=bool(nulls[index // 8] >> index % 8 & 1),
            is_unsigned=index in unsigned,
            collation=collations.get(index, BINARY_COLLATION),
            labels=tuple(map(dialect.texts.decoder(collations[index]), labels[index])) if index in labels else (),
            is_key=index in key,
            is_visible=index in visible or _Metadata.VISIBILITY not in parts,
        )
        for index, (name, (kind, size)) in enumerate(zip(names, fields, strict=True))
    )


def _texts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = read_length(data, at)
        yield data[at : at + size]
        at += size


def _numbers(data: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(data):
        number, at = read_length(data, at)
        numbers.append(number)
    return numbers


def _places(kinds: Sequence[int], *counted: int) -> list[int]:
    return [index for index, kind in enumerate(kinds) if kind in counted]


def _bits(parts: dict[int, bytes], part: int, kinds: Sequence[int], is_counted: Callable[[int], bool]) -> set[int]:
    """Return the columns whose bit is set; the first column has the highest bit of the first byte."""
    data = parts.get(part, b"")
    places = [index for index, kind in enumerate(kinds) if is_counted(kind)]
    return {column for bit, column in enumerate(places) if bit < 8 * len(data) and data[bit // 8] << bit % 8 & 0x80}


def _collations(parts: dict[int, bytes], default: int, kinds: Sequence[int], counted: Sequence[int]) -> dict[int, int]:
    """Return the collations of columns: either a default with exceptions, or one for each."""
    places = _places(kinds, *counted)
    if default + 1 in parts:
        return dict(zip(places, _numbers(parts[default + 1]), strict=True))
    if default not in parts:
        return {}
    usual, *others = _numbers(parts[default])
    exceptions = dict(zip(others[::2], others[1::2], strict=True))
    return {column: exceptions.get(index, usual) for index, column in enumerate(places)}


def _labels(parts: dict[int, bytes], part: int) -> list[tuple[bytes, ...]]:
    data = parts.get(part, b"")
    columns, at = [], 0
    while at < len(data):
        count, at = read_length(data, at)
        labels = []
        for _ in range(count):
            size, at = read_length(data, at)
            labels.append(data[at : at + size])
            at += size
        columns.append(tuple(labels))
    return columns


def _key(parts: dict[int, bytes]) -> list[int]:
    if _Metadata.KEY_WITH_PREFIX in parts:
        return _numbers(parts[_Metadata.KEY_WITH_PREFIX])[::2]
    return _numbers(parts.get(_Metadata.SIMPLE_KEY, b""))
