"""Lossless conversion of any row to VARIANT and back.

A VARIANT stores numbers, decimals, binary, dates, timestamps and NaN natively, so a row needs no text form. The few
types that it lacks are stored in another form: a map with non-string keys as an array of entries, an interval or a time
as a text, and a nested VARIANT as an array element, because it has no separate SQL NULL.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from framework.cdc.model.columns import column

_PLAIN = (BinaryType, BooleanType, DateType, NumericType, StringType, TimestampNTZType, TimestampType)


def to_variant(schema: StructType) -> Column:
    """Return a frame's row with these columns as one VARIANT."""
    fields = [_stored(column(field.name), field.dataType).alias(field.name) for field in schema.fields]
    return F.to_variant_object(F.struct(*fields))


def from_variant(row: Column, schema: StructType) -> list[Column]:
    """Return the columns of a row that `to_variant` made.

    Args:
        row: the VARIANT.
        schema: the original columns.
    """
    stored = row.cast(_stored_type(schema))
    return [_restored(stored.getField(field.name), field.dataType).alias(field.name) for field in schema.fields]


def _is_plain(data_type: DataType) -> bool:
    """Whether a VARIANT stores values of a type natively."""
    if isinstance(data_type, StructType):
        return all(_is_plain(field.dataType) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _is_plain(data_type.elementType)
    if isinstance(data_type, MapType):
        return data_type.keyType == StringType() and _is_plain(data_type.valueType)
    return isinstance(data_type, _PLAIN)


def _stored(value: Column, data_type: DataType) -> Column:
    if _is_plain(data_type):
        return value
    if isinstance(data_type, StructType):
        fields = [_stored(value.getField(each.name), each.dataType).alias(each.name) for each in data_type.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(data_type, ArrayType):
        return F.transform(value, lambda element: _stored(element, data_type.elementType))
    if isinstance(data_type, MapType):
        return F.transform(F.map_entries(value), lambda entry: _stored_entry(entry, data_type))
    if isinstance(data_type, VariantType):
        return F.when(value.isNotNull(), F.array(value))
    return value.cast("string")


def _stored_entry(entry: Column, data_type: MapType) -> Column:
    key = _stored(entry.getField("key"), data_type.keyType)
    return F.struct(key.alias("key"), _stored(entry.getField("value"), data_type.valueType).alias("value"))


def _stored_type(data_type: DataType) -> DataType:
    """Return the type of `_stored`, with every part nullable."""
    if isinstance(data_type, StructType):
        return StructType([StructField(field.name, _stored_type(field.dataType)) for field in data_type.fields])
    if isinstance(data_type, ArrayType):
        return ArrayType(_stored_type(data_type.elementType))
    if isinstance(data_type, MapType) and _is_plain(data_type):
        return MapType(StringType(), _stored_type(data_type.valueType))
    if isinstance(data_type, MapType):
        fields = [("key", data_type.keyType), ("value", data_type.valueType)]
        return ArrayType(StructType([StructField(name, _stored_type(each)) for name, each in fields]))
    if isinstance(data_type, VariantType):
        return ArrayType(data_type)
    return data_type if isinstance(data_type, _PLAIN) else StringType()


def _restored(value: Column, data_type: DataType) -> Column:
    if _is_plain(data_type):
        return value
    if isinstance(data_type, StructType):
        fields = [_restored(value.getField(each.name), each.dataType).alias(each.name) for each in data_type.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(data_type, ArrayType):
        return F.transform(value, lambda element: _restored(element, data_type.elementType))
    if isinstance(data_type, MapType):
        return F.map_from_entries(F.transform(value, lambda entry: _restored_entry(entry, data_type)))
    if isinstance(data_type, VariantType):
        return value.getItem(0)
    return F.lit(None) if isinstance(data_type, NullType) else value.cast(data_type)


def _restored_entry(entry: Column, data_type: MapType) -> Column:
    key = _restored(entry.getField("key"), data_type.keyType)
    return F.struct(key.alias("key"), _restored(entry.getField("value"), data_type.valueType).alias("value"))
