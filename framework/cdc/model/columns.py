"""Columns of a source: lookup by name, selection by a flow, and conversion to a table's schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType, TimestampType

from framework.declare.specs import ColumnSelection
from framework.engine.jvm.java import built_once
from framework.schema.data_types import leaf_types

_NULL_PARTITION = b"__HIVE_DEFAULT_PARTITION__"
"""Hive's name for NULL in a path."""


def quote(name: str) -> str:
    """Return a column name as SQL, in backticks."""
    return f"`{name.replace('`', '``')}`"


@built_once
def column(name: str, *, of: str | None = None) -> Column:
    """Return the column called exactly `name` (dots are part of the name), of the frame with the alias `of`."""
    return F.col(quote(name) if of is None else f"{of}.{quote(name)}")


def bare_name(text: str) -> str:
    """Return a column name without enclosing backticks, which a declaration may have."""
    if len(text) > 2 and text.startswith("`") and text.endswith("`"):
        return text[1:-1].replace("``", "`")
    return text


def find_field(schema: StructType, declared: str) -> StructField | None:
    """Return the field that a declaration names, which may have backticks around the name; None if there is none."""
    return match_field(schema, bare_name(declared))


def match_field(schema: StructType, name: str) -> StructField | None:
    """Return the field called `name`, exactly or else case-insensitively; None if there is no such field.

    Unlike in a declaration, backticks are a part of the name.
    """
    found = [field for field in schema.fields if field.name.lower() == name.lower()]
    exact = [field for field in found if field.name == name]
    return next(iter(exact or found), None)


def struct_of(schema: StructType, name: str) -> StructType:
    """Return the type of the struct column `name`.

    Raises:
        KeyError: there is no such column.
    """
    data_type = schema[name].dataType
    assert isinstance(data_type, StructType), name
    return data_type


def missing_names(schema: StructType, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names for which the schema has no column, in their order."""
    return tuple(name for name in names if find_field(schema, name) is None)


def repeated_names(data_type: DataType, path: str = "") -> tuple[str, ...]:
    """Return names, at any depth, that occur more than once in the same struct, ignoring case."""
    if isinstance(data_type, ArrayType):
        return repeated_names(data_type.elementType, path)
    if isinstance(data_type, MapType):
        return (*repeated_names(data_type.keyType, path), *repeated_names(data_type.valueType, path))
    if not isinstance(data_type, StructType):
        return ()
    folded = Counter(field.name.lower() for field in data_type.fields)
    found = [f"{path}{field.name}" for field in data_type.fields if folded[field.name.lower()] > 1]
    below = [name for field in data_type.fields for name in repeated_names(field.dataType, f"{path}{field.name}.")]
    return (*found, *below)


def select_fields(schema: StructType, selection: ColumnSelection) -> tuple[StructField, ...]:
    """Return the fields of `schema` that a selection keeps, in the schema's order."""
    if selection.columns is None:
        return tuple(schema.fields)
    named = {bare_name(name).lower() for name in selection.columns}
    return tuple(field for field in schema.fields if (field.name.lower() in named) is not selection.excluded)


def align_column(value: Column, have: DataType, want: DataType) -> Column:
    """Convert `value` to the type `want`: fields match by name, missing ones are null, at every depth."""
    if have == want:
        return value
    if isinstance(have, StructType) and isinstance(want, StructType):
        fields = [_align_field(value, have, field).alias(field.name) for field in want.fields]
        return F.when(value.isNotNull(), F.struct(*fields)).cast(want)
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        inner = (have.elementType, want.elementType)
        return F.transform(value, lambda element: align_column(element, *inner)).cast(want)
    if isinstance(have, MapType) and isinstance(want, MapType):
        inner = (have.valueType, want.valueType)
        return F.transform_values(value, lambda _, element: align_column(element, *inner)).cast(want)
    return value.cast(want)


def _align_field(value: Column, have: StructType, want: StructField) -> Column:
    field = match_field(have, want.name)
    if field is None:
        return F.lit(None).cast(want.dataType)
    return align_column(value.getField(field.name), field.dataType, want.dataType)


def has_void(data_type: DataType) -> bool:
    """Return whether the type is or contains the void type of NULL."""
    return any(isinstance(leaf, NullType) for leaf in leaf_types(data_type))


def is_storable(value: Column, data_type: DataType) -> Column:
    """Return whether a string or a timestamp stays the same when stored as a partition value.

    Delta stores partition values as text in paths and in its log. An empty string and Hive's name for NULL are read as
    NULL, invalid UTF-8 is replaced, and a path can't contain the character NUL. A timestamp is stored without its
    offset: when clocks of the session's time zone are set back, the second of two equal hours is read as the first.
    """
    if isinstance(data_type, TimestampType):
        return value.eqNullSafe(as_stored(value, data_type))
    return _is_some(value) & F.is_valid_utf8(value) & ~F.contains(value.cast("binary"), F.lit(b"\x00"))


def as_stored(value: Column, data_type: DataType) -> Column:
    """Return a string or a timestamp as it reads back after being stored as a partition value."""
    if isinstance(data_type, TimestampType):
        return value.cast("string").try_cast("timestamp")
    return F.when(_is_some(value), F.make_valid_utf8(value))


def _is_some(value: Column) -> Column:
    return (F.octet_length(value) > F.lit(0)) & (value.cast("binary") != F.lit(_NULL_PARTITION))
