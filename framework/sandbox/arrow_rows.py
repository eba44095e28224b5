"""Rows as Arrow tables, for files that are written without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from framework.schema.data_types import leaf_types

_SCALARS = (
    BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType,
    TimestampNTZType, TimestampType,
)  # fmt: skip


def is_plain_arrow(kind: DataType) -> bool:
    """Whether Arrow writes and reads values of a type in Parquet files as Spark does."""
    return all(type(leaf) is StringType or isinstance(leaf, _SCALARS) for leaf in leaf_types(kind))


def arrow_table(schema: StructType, rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows of plain types as an Arrow table; points in time are in UTC."""
    kinds = to_arrow_schema(schema, timezone="UTC")
    columns = [*zip(*rows, strict=True)] if rows else [() for _ in schema.fields]
    arrays = [
        pa.array([_value(each, field.dataType) for each in values], kind)
        for values, field, kind in zip(columns, schema.fields, kinds.types, strict=True)
    ]
    return pa.table(arrays, kinds)


def _value(value: Any, kind: DataType) -> Any:
    """Return a value as Arrow takes it: structs as dicts, maps as pairs."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _value(each, field.dataType) for field, each in zip(kind.fields, value, strict=True)}
    if isinstance(kind, ArrayType):
        return [_value(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return [(_value(key, kind.keyType), _value(each, kind.valueType)) for key, each in value.items()]
    return value
