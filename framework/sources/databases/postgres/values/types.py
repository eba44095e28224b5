"""Types of PostgreSQL as types of Spark and Arrow, and the conversions of their values.

A value reaches the target by a snapshot (SQL expression, then Arrow) or by the log (text, then JSON); both give exactly
the same value. `MAPPINGS` is the table of types; the documentation is generated from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

import pyarrow as pa

from framework.foundation.errors import SourceError, UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.postgres.values import arrow_values as arrow
from framework.sources.databases.postgres.values import json_values as json
from framework.sources.databases.tables import SourceColumn, SourceTable, TableName

_MOST_DIGITS = 38
_LONGEST_VALUE = 100
_ARRAY = "[]"
_MODIFIER = re.compile(r"\(([^)]*)\)")


class Reading(Enum):
    """How a query selects a column; the placeholder is the quoted column."""

    AS_IS = "{0}"
    """ADBC gives a lossless Arrow type."""
    CAST = "{0}::text"
    """The cast gives the same text as the output function."""
    OUTPUT = "CASE WHEN {0} IS DISTINCT FROM NULL THEN pg_catalog.concat({0}) END"
    """The cast may differ from the output function: `inet` gets a mask, `char(n)` loses its spaces, `xml` keeps its
    encoding, and a user may define a cast. `concat` calls the output function. `IS DISTINCT FROM NULL` is true for a
    row of nulls, `IS NOT NULL` is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """One line of the table of types.

    Args:
        postgres: names of the types, as the catalog writes them without modifiers.
        spark: the Spark type.
        arrow_type: the Arrow type.
        reading: how a query selects a column of the type.
        convert: converts the array that ADBC reads.
        convert_text: converts an array of the texts of values, for elements of arrays.
        fragment: makes the function from a text to JSON.
        note: the note in the documentation.
    """

    postgres: tuple[str, ...]
    spark: str
    arrow_type: pa.DataType
    reading: Reading
    convert: arrow.Conversion
    convert_text: arrow.Conversion
    fragment: Callable[[json.Failure], json.Fragment]
    note: str = ""


def _number(name: str, spark: str, kind: pa.DataType) -> TypeMapping:
    return TypeMapping(
        postgres=(name,),
        spark=spark,
        arrow_type=kind,
        reading=Reading.AS_IS,
        convert=arrow.keep,
        convert_text=arrow.keep,
        fragment=json.number_fragment,
    )


def _float(name: str, spark: str, kind: pa.DataType) -> TypeMapping:
    return TypeMapping(
        postgres=(name,),
        spark=spark,
        arrow_type=kind,
        reading=Reading.AS_IS,
        convert=arrow.keep,
        convert_text=arrow.keep,
        fragment=json.float_fragment,
        note="With NaN, infinities and negative zero.",
    )


def _text(reading: Reading, *names: str, note: str = "") -> TypeMapping:
    return TypeMapping(
        postgres=names,
        spark="STRING",
        arrow_type=pa.string(),
        reading=reading,
        convert=arrow.keep,
        convert_text=arrow.keep,
        fragment=json.text_fragment,
        note=note,
    )


_RANGE_NOTE = "Years 1 to 9999; another date or an infinity is an error."

DECIMAL = TypeMapping(
    postgres=("numeric(p,s)",),
    spark="DECIMAL(p,s)",
    arrow_type=pa.decimal128(_MOST_DIGITS, 0),
    reading=Reading.CAST,
    convert=arrow.decimals_from_text,
    convert_text=arrow.decimals_from_text,
    fragment=json.decimal_fragment,
    note="p up to 38 and s from 0 to p. NaN is an error.",
)
EXACT_NUMBER = _text(
    Reading.CAST,
    "numeric",
    note="Without precision, with more than 38 digits, or a scale that Spark lacks: exact text.",
)
PADDED = _text(Reading.AS_IS, "character", "bpchar", note="Padded with spaces, as PostgreSQL returns it.")
OTHER = _text(Reading.OUTPUT, "any other type", note="Exactly PostgreSQL's text output.")

MAPPINGS: tuple[TypeMapping, ...] = (
    _number("smallint", "SMALLINT", pa.int16()),
    _number("integer", "INT", pa.int32()),
    _number("bigint", "BIGINT", pa.int64()),
    _float("real", "FLOAT", pa.float32()),
    _float("double precision", "DOUBLE", pa.float64()),
    DECIMAL,
    EXACT_NUMBER,
    TypeMapping(
        postgres=("boolean",),
        spark="BOOLEAN",
        arrow_type=pa.bool_(),
        reading=Reading.AS_IS,
        convert=arrow.keep,
        convert_text=arrow.booleans_from_text,
        fragment=json.boolean_fragment,
    ),
    _text(Reading.AS_IS, "text", "character varying"),
    PADDED,
    _text(Reading.CAST, "name", "citext"),
    TypeMapping(
        postgres=("bytea",),
        spark="BINARY",
        arrow_type=pa.binary(),
        reading=Reading.AS_IS,
        convert=arrow.keep,
        convert_text=arrow.binary_from_text,
        fragment=json.binary_fragment,
    ),
    TypeMapping(
        postgres=("date",),
        spark="DATE",
        arrow_type=pa.date32(),
        reading=Reading.AS_IS,
        convert=arrow.dates,
        convert_text=arrow.dates_from_text,
        fragment=json.date_fragment,
        note=_RANGE_NOTE,
    ),
    TypeMapping(
        postgres=("timestamp without time zone",),
        spark="TIMESTAMP_NTZ",
        arrow_type=pa.timestamp("us"),
        reading=Reading.AS_IS,
        convert=arrow.timestamps,
        convert_text=arrow.timestamps_from_text,
        fragment=json.timestamp_fragment,
        note=_RANGE_NOTE,
    ),
    TypeMapping(
        postgres=("timestamp with time zone",),
        spark="TIMESTAMP",
        arrow_type=pa.timestamp("us", "UTC"),
        reading=Reading.AS_IS,
        convert=arrow.timestamps,
        convert_text=arrow.timestamps_from_text,
        fragment=json.instant_fragment,
        note=_RANGE_NOTE,
    ),
    OTHER,
)
_BY_NAME = {name: mapping for mapping in MAPPINGS for name in mapping.postgres}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """How the values of one column are read, converted and written.

    Args:
        name: name of the column.
        spark_type: the Spark type, as DDL.
        arrow_type: the Arrow type that represents it.
        json_fragment: makes a fragment of JSON from PostgreSQL's text of a value other than NULL; raises SourceError.
        reading: how a query selects the column.
    """

    name: str
    spark_type: str
    arrow_type: pa.DataType
    json_fragment: json.Fragment
    reading: Reading
    _convert: arrow.Conversion = field(repr=False)
    _fail: json.Failure = field(repr=False)

    def select_expression(self, quoted_column: str) -> str:
        """Return the SQL expression for a query of ADBC.

        Args:
            quoted_column: the column in double quotes; with a table's alias if there are several tables.
        """
        # The name of a column may contain braces.
        return self.reading.value.replace("{0}", quoted_column)

    def from_arrow(self, array: Any) -> Any:
        """Convert an array that ADBC read, plain or chunked, to `arrow_type`.

        Raises:
            SourceError: DATABASE_VALUE_NOT_REPRESENTABLE.
        """
        if isinstance(array, pa.ChunkedArray):
            return pa.chunked_array([self.from_arrow(chunk) for chunk in array.chunks], self.arrow_type)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        return self._convert(array, self.arrow_type, self._fail)


def column_type(table: TableName, column: SourceColumn, *, as_text: bool = False) -> ColumnType:
    """Return the type of a column.

    Args:
        table: the table, for error texts.
        column: the column.
        as_text: whether to read it as PostgreSQL's text of the value (option `textColumns`).
    """
    fail = _failure(table, column)
    element_name = column.type_name.removesuffix(_ARRAY)
    mapping, spark, kind = _resolve(element_name if column.type_name.endswith(_ARRAY) else column.type_name)
    if as_text or (column.type_name.endswith(_ARRAY) and mapping is OTHER):
        mapping, spark, kind = OTHER, OTHER.spark, OTHER.arrow_type
    if mapping is OTHER or not column.type_name.endswith(_ARRAY):
        return ColumnType(
            name=column.name,
            spark_type=spark,
            arrow_type=kind,
            json_fragment=mapping.fragment(fail),
            reading=mapping.reading,
            _convert=mapping.convert,
            _fail=fail,
        )
    return ColumnType(
        name=column.name,
        spark_type=f"ARRAY<{spark}>",
        arrow_type=pa.list_(kind),
        json_fragment=json.array_fragment(mapping.fragment(fail), fail),
        reading=Reading.CAST,
        _convert=arrow.arrays_from_text(mapping.convert_text),
        _fail=fail,
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
    """Return the mapping, the Spark type and the Arrow type of a type that is not an array."""
    bare = _MODIFIER.sub("", type_name)
    if bare == "numeric":
        digits = _decimal_digits(type_name)
        if digits is None:
            return EXACT_NUMBER, EXACT_NUMBER.spark, EXACT_NUMBER.arrow_type
        return DECIMAL, f"DECIMAL({digits[0]},{digits[1]})", pa.decimal128(*digits)
    # An extension's type is in any schema.
    found = _BY_NAME.get("citext" if bare.endswith(".citext") else bare, OTHER)
    return found, found.spark, found.arrow_type


def _decimal_digits(type_name: str) -> tuple[int, int] | None:
    """Return precision and scale of a numeric type; None if Spark has no such decimal."""
    modifier = _MODIFIER.search(type_name)
    if modifier is None:
        return None
    precision, scale = (int(part) for part in modifier[1].split(","))
    return (precision, scale) if precision <= _MOST_DIGITS and 0 <= scale <= precision else None


def _failure(table: TableName, column: SourceColumn) -> json.Failure:
    def fail(value: str) -> NoReturn:
        raise SourceError(
            "DATABASE_VALUE_NOT_REPRESENTABLE",
            table=table,
            column=column.name,
            value=value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…",
            type=column.type_name,
        )

    return fail
