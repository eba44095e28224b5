"""Types of SQL Server as types of Spark and Arrow, with the expression by which a query selects each of them.

A snapshot and the change tables are read with the same expressions, so that a value is the same in both. `MAPPINGS` is
the table of types; the documentation is generated from it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn

import pyarrow as pa

from framework.foundation.errors import SourceError, UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.sqlserver.names import bracket
from framework.sources.databases.sqlserver.values import conversions
from framework.sources.databases.tables import SourceColumn, SourceTable, TableName

_LONGEST_VALUE = 100
_VERSION_BYTES = 7
_TEXT_TYPES = {
    "bit": "CONVERT(varchar(1), {0})",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "CONVERT(varchar(20), {0})"),
    **dict.fromkeys(("decimal", "numeric"), "CONVERT(varchar(41), {0})"),
    **dict.fromkeys(("money", "smallmoney"), "CONVERT(varchar(41), CONVERT(decimal(19, 4), {0}))"),
    **dict.fromkeys(("real", "float"), "CONVERT(varchar(32), {0}, 3)"),
    "date": "CONVERT(varchar(10), {0}, 23)",
    "time": "CONVERT(varchar(16), {0}, 121)",
    "smalldatetime": "CONVERT(varchar(19), {0}, 120)",
    "datetime": "CONVERT(varchar(23), {0}, 121)",
    "datetime2": "CONVERT(varchar(27), {0}, 121)",
    "datetimeoffset": "CONVERT(varchar(34), {0}, 121)",
    "uniqueidentifier": "CONVERT(varchar(36), {0})",
    **dict.fromkeys(("binary", "varbinary", "timestamp"), "CONVERT(varchar(max), {0}, 1)"),
    "image": "CONVERT(varchar(max), CONVERT(varbinary(max), {0}), 1)",
    **dict.fromkeys(("hierarchyid", "geography", "geometry"), "CONVERT(varchar(max), CONVERT(varbinary(max), {0}), 1)"),
    "sql_variant": "CONVERT(nvarchar(4000), {0})",
}
_OTHER_TEXT = "CONVERT(nvarchar(max), {0})"
# The style by which the text of a value becomes the same value again.
_STYLES = {
    **dict.fromkeys(("real", "float"), 3),
    "date": 23,
    **dict.fromkeys(("time", "datetime", "datetime2", "datetimeoffset"), 121),
    "smalldatetime": 120,
    **dict.fromkeys(("binary", "varbinary", "timestamp"), 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """One line of the table of types.

    Args:
        names: names of the types, as the catalog writes them without modifiers.
        spark: the Spark type.
        arrow_type: the Arrow type.
        select: the expression of a query; the placeholder is the quoted column.
        convert: converts the array that the driver reads.
        fragment: encodes a value that the driver reads as JSON.
        note: the note in the documentation.
    """

    names: tuple[str, ...]
    spark: str
    arrow_type: pa.DataType
    select: str = "{0}"
    convert: conversions.Conversion = conversions.keep
    fragment: conversions.Fragment = conversions.plain
    note: str = ""


def _as_text(*names: str, note: str = "") -> TypeMapping:
    return TypeMapping(
        names=names,
        spark="STRING",
        arrow_type=pa.string(),
        select=_TEXT_TYPES.get(names[0], _OTHER_TEXT),
        fragment=conversions.text_json,
        note=note,
    )


_DATES = "Read as text, which is exact."
_MICROSECONDS = "A value with a seventh digit of the fraction is an error; name the column in `text_columns`."
DECIMAL = TypeMapping(
    names=("decimal(p,s)", "numeric(p,s)"),
    spark="DECIMAL(p,s)",
    arrow_type=pa.decimal128(38, 0),
    select=_TEXT_TYPES["decimal"],
)
OTHER = _as_text("any other type", note="The text of `CONVERT(nvarchar(max), …)`.")
MAPPINGS: tuple[TypeMapping, ...] = (
    TypeMapping(names=("bit",), spark="BOOLEAN", arrow_type=pa.bool_(), fragment=conversions.boolean_json),
    TypeMapping(names=("tinyint",), spark="SMALLINT", arrow_type=pa.int16(), note="0 to 255: without a sign."),
    TypeMapping(names=("smallint",), spark="SMALLINT", arrow_type=pa.int16()),
    TypeMapping(names=("int",), spark="INT", arrow_type=pa.int32()),
    TypeMapping(names=("bigint",), spark="BIGINT", arrow_type=pa.int64()),
    DECIMAL,
    TypeMapping(names=("money",), spark="DECIMAL(19,4)", arrow_type=pa.decimal128(19, 4), select=_TEXT_TYPES["money"]),
    TypeMapping(
        names=("smallmoney",), spark="DECIMAL(10,4)", arrow_type=pa.decimal128(10, 4), select=_TEXT_TYPES["smallmoney"]
    ),
    TypeMapping(names=("real",), spark="FLOAT", arrow_type=pa.float32(), fragment=conversions.float_json),
    TypeMapping(names=("float",), spark="DOUBLE", arrow_type=pa.float64(), fragment=conversions.float_json),
    TypeMapping(
        names=("char", "varchar", "nchar", "nvarchar"),
        spark="STRING",
        arrow_type=pa.string(),
        fragment=conversions.text_json,
        note="`char` and `nchar` with their padding.",
    ),
    TypeMapping(
        names=("text", "ntext"),
        spark="STRING",
        arrow_type=pa.string(),
        select=_OTHER_TEXT,
        fragment=conversions.text_json,
    ),
    TypeMapping(
        names=("date",),
        spark="DATE",
        arrow_type=pa.date32(),
        select=_TEXT_TYPES["date"],
        fragment=conversions.text_json,
    ),
    TypeMapping(
        names=("smalldatetime",),
        spark="TIMESTAMP_NTZ",
        arrow_type=pa.timestamp("us"),
        select=_TEXT_TYPES["smalldatetime"],
        convert=conversions.timestamps,
        fragment=conversions.timestamp_json,
    ),
    TypeMapping(
        names=("datetime",),
        spark="TIMESTAMP_NTZ",
        arrow_type=pa.timestamp("us"),
        select=_TEXT_TYPES["datetime"],
        convert=conversions.timestamps,
        fragment=conversions.timestamp_json,
        note="With three digits, as SQL Server prints it.",
    ),
    TypeMapping(
        names=("datetime2",),
        spark="TIMESTAMP_NTZ",
        arrow_type=pa.timestamp("us"),
        select=_TEXT_TYPES["datetime2"],
        convert=conversions.timestamps,
        fragment=conversions.timestamp_json,
        note=_MICROSECONDS,
    ),
    TypeMapping(
        names=("datetimeoffset",),
        spark="TIMESTAMP",
        arrow_type=pa.timestamp("us", "UTC"),
        select=_TEXT_TYPES["datetimeoffset"],
        convert=conversions.instants,
        fragment=conversions.instant_json,
        note=f"The instant, without the offset. {_MICROSECONDS}",
    ),
    _as_text("time", note="`hh:mm:ss` with the fraction of the column."),
    _as_text("uniqueidentifier", note="In upper case."),
    TypeMapping(
        names=("binary", "varbinary", "timestamp", "rowversion"),
        spark="BINARY",
        arrow_type=pa.binary(),
        fragment=conversions.binary_json,
    ),
    TypeMapping(
        names=("image", "hierarchyid", "geography", "geometry"),
        spark="BINARY",
        arrow_type=pa.binary(),
        select="CONVERT(varbinary(max), {0})",
        fragment=conversions.binary_json,
        note="The bytes that are stored.",
    ),
    _as_text("xml", "json"),
    _as_text("sql_variant", note="The text of the value, without its type."),
    OTHER,
)
_BY_NAME = {name.partition("(")[0]: mapping for mapping in MAPPINGS for name in mapping.names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """How the values of one column are selected, converted and written.

    Args:
        name: name of the column.
        spark_type: the Spark type, as DDL.
        arrow_type: the Arrow type that represents it.
        select: the expression of a query, with its placeholder.
        table: for messages.
        type_name: for messages.
        mapping: the line of the table of types.
    """

    name: str
    spark_type: str
    arrow_type: pa.DataType
    select: str
    table: TableName
    type_name: str
    mapping: TypeMapping

    def select_expression(self, alias: str = "") -> str:
        """Return the expression with the column's name."""
        column = bracket(self.name)
        return f"{self.select.replace('{0}', alias + column)} AS {column}"

    def from_arrow(self, array: Any) -> Any:
        """Convert an array that the driver read to `arrow_type`.

        Raises:
            SourceError: DATABASE_VALUE_NOT_REPRESENTABLE.
        """
        return self.mapping.convert(array, self.arrow_type, self.fail)

    def json(self, value: Any) -> str:
        """Encode a value that the driver read.

        Raises:
            SourceError: DATABASE_VALUE_NOT_REPRESENTABLE.
        """
        return "null" if value is None else self.mapping.fragment(value, self.fail)

    def fail(self, value: str) -> NoReturn:
        """Raise the error of a value that the Spark type can't hold."""
        raise SourceError(
            "DATABASE_VALUE_NOT_REPRESENTABLE",
            table=self.table,
            column=self.name,
            value=value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…",
            type=self.type_name,
        )


def base_name(type_name: str) -> str:
    """Return a type without its modifiers."""
    return type_name.partition("(")[0].lower()


def text_expression(type_name: str, column: str) -> str:
    """Return the expression of the exact text of a value."""
    return _TEXT_TYPES.get(base_name(type_name), _OTHER_TEXT).replace("{0}", column)


def value_expression(type_name: str, collation: str | None) -> str:
    """Return the expression of the value whose exact text is an argument."""
    argument = "?" if collation is None else f"? COLLATE {collation}"
    style = _STYLES.get(base_name(type_name))
    return f"CONVERT({type_name}, {argument}{'' if style is None else f', {style}'})"


def column_type(table: TableName, column: SourceColumn, *, as_text: bool = False) -> ColumnType:
    """Return the type of a column.

    Args:
        table: the table, for error texts.
        column: the column.
        as_text: whether to read it as the exact text of the value (option `textColumns`).
    """
    name = base_name(column.type_name)
    mapping = OTHER if as_text else _BY_NAME.get(name, OTHER)
    spark, kind = mapping.spark, mapping.arrow_type
    if mapping is DECIMAL:
        precision, scale = (int(part) for part in column.type_name.partition("(")[2].rstrip(")").split(","))
        spark, kind = f"DECIMAL({precision},{scale})", pa.decimal128(precision, scale)
    select = _TEXT_TYPES.get(name, _OTHER_TEXT) if as_text else mapping.select
    return ColumnType(
        name=column.name,
        spark_type=spark,
        arrow_type=kind,
        select=select,
        table=table,
        type_name=column.type_name,
        mapping=mapping,
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


def version_of(columns: Sequence[tuple[str, str]]) -> int:
    """Return the version of columns in the log: a number that changes with their names or types, and is positive."""
    text = "\n".join(f"{name}\t{kind}" for name, kind in columns)
    return int.from_bytes(sha256(text.encode()).digest()[:_VERSION_BYTES], "big") + 1


def type_text(name: str, max_length: int, precision: int, scale: int) -> str:
    """Return a type as T-SQL, from its row of the catalog.

    Examples:
        >>> [type_text("nvarchar", 100, 0, 0), type_text("varbinary", -1, 0, 0), type_text("datetime2", 8, 26, 6)]
        ['nvarchar(50)', 'varbinary(max)', 'datetime2(6)']
    """
    if name in ("decimal", "numeric"):
        return f"{name}({precision},{scale})"
    if name in ("time", "datetime2", "datetimeoffset"):
        return f"{name}({scale})"
    if name in ("char", "varchar", "binary", "varbinary", "nchar", "nvarchar"):
        length = max_length // 2 if name.startswith("n") else max_length
        return f"{name}({'max' if max_length < 0 else length})"
    return name
