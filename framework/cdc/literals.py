"""Values that went to the driver, back in an expression without loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, Row, StructType, TimestampNTZType, TimestampType

if TYPE_CHECKING:
    from pyspark.sql import Column


def portable(value: Column, data_type: DataType) -> Column:
    """What to collect so that `rebuild` finds it again: times as microseconds, for Python's local times lose hours."""
    if isinstance(data_type, StructType):
        fields = [portable(value.getField(f.name), f.dataType).alias(f.name) for f in data_type.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(data_type, TimestampType):
        return F.unix_micros(value)
    if isinstance(data_type, TimestampNTZType):
        return value.cast("string")
    return value


def rebuild(value: object, data_type: DataType) -> Column:
    """The literal of a collected value."""
    if value is None:
        return F.lit(None).cast(data_type)
    if isinstance(data_type, StructType):
        assert isinstance(value, Row), value
        return F.struct(*(rebuild(value[f.name], f.dataType).alias(f.name) for f in data_type.fields)).cast(data_type)
    if isinstance(data_type, TimestampType):
        return F.timestamp_micros(F.lit(value))
    return F.lit(value).cast(data_type)
