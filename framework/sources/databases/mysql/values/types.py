"""Types of MySQL and MariaDB as types of Spark and Arrow, and how a query reads them.

A value reaches the target by a snapshot (SQL expression, then Arrow) or by the log (bytes, then JSON); both give
exactly the same value. `MAPPINGS` is the table of types; the documentation is generated from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NoReturn

import pyarrow as pa

from framework.foundation.errors import SourceError, UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.mysql.values import arrow_values as arrow
from framework.sources.databases.tables import SourceColumn, SourceTable, TableName

_MOST_DIGITS = 38
_LONGEST_VALUE = 100
_SIZES = re.compile(r"\(([^)']*)\)")


class Reading(Enum):
    """How a query selects a column; the placeholder is the quoted column."""

    AS_IS = "{0}"
    """connectorx gives a lossless Arrow type."""
    TEXT = "CAST({0} AS CHAR CHARACTER SET utf8mb4)"
    """connectorx would round the value, or fails at it."""
    BYTES = "CAST({0} AS BINARY)"
    """connectorx does not know the type; its bytes are those of the log."""
    WIDE = "{0} + 0e0"
    """As a DOUBLE, whose text has all digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """One line of the table of types.

    Args:
        types: names of the types, as `normal_type` writes them, without sizes.
        spark: the Spark type.
        arrow_type: the Arrow type.
        reading: how a query selects a column of the type.
        convert: converts the array that connectorx reads.
        as_text: converts the array of a text column; None if the query selects the text of the database.
        note: the note in the documentation.
    """

    types: tuple[str, ...]
    spark: str
    arrow_type: pa.DataType
    reading: Reading = Reading.AS_IS
    convert: arrow.Conversion = arrow.keep
    as_text: arrow.Conversion | None = None
    note: str = ""


def _number(name: str, spark: str, kind: pa.DataType, note: str = "") -> TypeMapping:
    return TypeMapping(types=(name,), spark=spark, arrow_type=kind, note=note)


def _float(name: str, spark: str, kind: pa.DataType) -> TypeMapping:
    return TypeMapping(types=(name,), spark=spark, arrow_type=kind, as_text=arrow.text_of_number)


def _text(*names: str, reading: Reading = Reading.AS_IS, note: str = "") -> TypeMapping:
    return TypeMapping(types=names, spark="STRING", arrow_type=pa.string(), reading=reading, note=note)


def _binary(*names: str, reading: Reading = Reading.AS_IS, note: str = "") -> TypeMapping:
    return TypeMapping(
        types=names,
        spark="BINARY",
        arrow_type=pa.binary(),
        reading=reading,
        as_text=arrow.text_of_bytes,
        note=note,
    )


_RANGE_NOTE = "Years 1 to 9999; zero dates and days that do not exist are an error."

DECIMAL = TypeMapping(
    types=("decimal(p,s)",),
    spark="DECIMAL(p,s)",
    arrow_type=pa.decimal128(_MOST_DIGITS, 0),
    reading=Reading.TEXT,
    convert=arrow.decimals_from_text,
    note="p up to 38.",
)
EXACT_NUMBER = _text("decimal", reading=Reading.TEXT, note="With more than 38 digits: exact text.")
BOOLEAN = TypeMapping(
    types=("bit(1)",),
    spark="BOOLEAN",
    arrow_type=pa.bool_(),
    convert=arrow.bits_as_boolean,
    as_text=arrow.text_of_boolean,
)
OTHER = _text("any other type", reading=Reading.TEXT, note="The text of the database.")

MAPPINGS: tuple[TypeMapping, ...] = (
    _number("tinyint", "TINYINT", pa.int8(), "Also BOOLEAN, which is a number in MySQL."),
    _number("tinyint unsigned", "SMALLINT", pa.int16()),
    _number("smallint", "SMALLINT", pa.int16()),
    _number("smallint unsigned", "INT", pa.int32()),
    _number("mediumint", "INT", pa.int32()),
    _number("mediumint unsigned", "INT", pa.int32()),
    _number("int", "INT", pa.int32()),
    _number("int unsigned", "BIGINT", pa.int64()),
    _number("bigint", "BIGINT", pa.int64()),
    _number("bigint unsigned", "DECIMAL(20,0)", pa.decimal128(20, 0)),
    _number("year", "SMALLINT", pa.int16(), "0 is the year 0000."),
    _float("float", "FLOAT", pa.float32()),
    _float("double", "DOUBLE", pa.float64()),
    DECIMAL,
    EXACT_NUMBER,
    BOOLEAN,
    _binary("bit", note="More than one bit: as many bytes as they need, the highest bits first."),
    _text("char", "varchar", "text", note="In the order of letters of Unicode, without the padding of CHAR."),
    _text("enum", "set", note="The labels; an invalid value is the empty text."),
    _text("json", reading=Reading.TEXT, note="MySQL's own text of the document; MariaDB's JSON is a text."),
    _text("uuid", "inet6", "inet4", reading=Reading.TEXT, note="MariaDB."),
    _binary("binary", note="With the zero bytes at its end."),
    _binary("varbinary", "blob"),
    _binary("geometry", reading=Reading.BYTES, note="All spatial types: four bytes of the SRID, then WKB."),
    _binary("vector", reading=Reading.BYTES, note="The numbers as four bytes each, in little-endian order."),
    TypeMapping(types=("date",), spark="DATE", arrow_type=pa.date32(), convert=arrow.dates, note=_RANGE_NOTE),
    TypeMapping(
        types=("datetime",),
        spark="TIMESTAMP_NTZ",
        arrow_type=pa.timestamp("us"),
        convert=arrow.timestamps,
        note=_RANGE_NOTE,
    ),
    TypeMapping(
        types=("timestamp",),
        spark="TIMESTAMP",
        arrow_type=pa.timestamp("us", "UTC"),
        convert=arrow.timestamps,
        note="The zero timestamp is an error.",
    ),
    _text("time", reading=Reading.TEXT, note="Up to 838 hours, also negative."),
    OTHER,
)
_BY_NAME = {name: mapping for mapping in MAPPINGS for name in mapping.types}
_MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """How the values of one column are read and converted.

    Args:
        name: name of the column.
        spark_type: the Spark type, as DDL.
        arrow_type: the Arrow type that represents it.
        reading: how a query selects the column.
    """

    name: str
    spark_type: str
    arrow_type: pa.DataType
    reading: Reading
    _convert: arrow.Conversion = field(repr=False)
    _fail: arrow.Failure = field(repr=False)

    def select_expression(self, quoted_column: str) -> str:
        """Return the SQL expression for a query.

        Args:
            quoted_column: the column in backticks; with a table's alias if there are several tables.
        """
        # The name of a column may contain braces.
        return self.reading.value.replace("{0}", quoted_column)

    def from_arrow(self, array: Any) -> Any:
        """Convert an array that was read, plain or chunked, to `arrow_type`.

        Raises:
            SourceError: DATABASE_VALUE_NOT_REPRESENTABLE.
        """
        if isinstance(array, pa.ChunkedArray):
            return pa.chunked_array([self.from_arrow(chunk) for chunk in array.chunks], self.arrow_type)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), self.arrow_type)
        return self._convert(array, self.arrow_type, self._fail)

    def refuse(self, value: str) -> NoReturn:
        """Refuse a value.

        Raises:
            SourceError: DATABASE_VALUE_NOT_REPRESENTABLE.
        """
        self._fail(value)

    @property
    def is_float(self) -> bool:
        """Whether the database rounds the text of a value, so that it must be made a DOUBLE first."""
        return self.spark_type == "FLOAT" or (self.reading == Reading.AS_IS and self._convert is arrow.text_of_number)

    @property
    def is_moment(self) -> bool:
        """Whether the database may have values that connectorx fails at: dates that do not exist."""
        return self.reading == Reading.AS_IS and self.spark_type in _MOMENTS

    def widened(self) -> ColumnType:
        """Return the same column for a reader of texts, in which a FLOAT has six digits only."""
        return replace(self, reading=Reading.WIDE) if self.is_float else self

    def as_moment_text(self) -> ColumnType:
        """Return the same column, read as text; a value that does not exist then has an error with its text."""
        return replace(self, reading=Reading.TEXT) if self.is_moment else self


def column_type(table: TableName, column: SourceColumn, *, as_text: bool = False) -> ColumnType:
    """Return the type of a column.

    Args:
        table: the table, for error texts.
        column: the column.
        as_text: whether to read it as text (option `textColumns`).
    """
    fail = _failure(table, column)
    mapping, spark, kind = _resolve(column.type_name)
    reading, convert = mapping.reading, mapping.convert
    if as_text and mapping.spark != "STRING":
        reading = mapping.reading if mapping.as_text else Reading.TEXT
        spark, kind, convert = "STRING", pa.string(), mapping.as_text or arrow.keep
    return ColumnType(
        name=column.name, spark_type=spark, arrow_type=kind, reading=reading, _convert=convert, _fail=fail
    )


def column_types(table: SourceTable, text_columns: Collection[str] = ()) -> tuple[ColumnType, ...]:
    """Return the types of all columns of a table, in their order.

    Args:
        table: the table.
        text_columns: names of the columns that are read as text; other names are ignored, see `check_text_columns`.
    """
    return tuple(column_type(table.name, column, as_text=column.name in text_columns) for column in table.columns)


def check_text_columns(table: SourceTable, text_columns: Collection[str]) -> None:
    """Check that a table has all columns that the options list as text columns.

    Raises:
        UserError: DATABASE_TEXT_COLUMN_UNKNOWN.
    """
    known = [column.name for column in table.columns]
    for name in text_columns:
        if name not in known:
            raise UserError(
                "DATABASE_TEXT_COLUMN_UNKNOWN", table=table.name, column=name, hint=nearest_hint(name, known)
            )


def _resolve(type_name: str) -> tuple[TypeMapping, str, pa.DataType]:
    """Return the mapping, the Spark type and the Arrow type of a normal type."""
    bare = _SIZES.sub("", type_name).partition("(")[0]
    if bare == "decimal":
        precision, scale = _decimal_digits(type_name)
        if precision > _MOST_DIGITS:
            return EXACT_NUMBER, EXACT_NUMBER.spark, EXACT_NUMBER.arrow_type
        return DECIMAL, f"DECIMAL({precision},{scale})", pa.decimal128(precision, scale)
    found = BOOLEAN if type_name == "bit(1)" else _BY_NAME.get(bare, OTHER)
    return found, found.spark, found.arrow_type


def _decimal_digits(type_name: str) -> tuple[int, int]:
    sizes = _SIZES.search(type_name)
    precision, _, scale = (sizes[1] if sizes else "10").partition(",")
    return int(precision), int(scale or 0)


def _failure(table: TableName, column: SourceColumn) -> arrow.Failure:
    def fail(value: str) -> NoReturn:
        raise SourceError(
            "DATABASE_VALUE_NOT_REPRESENTABLE",
            table=table,
            column=column.name,
            value=value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…",
            type=column.type_name,
        )

    return fail
