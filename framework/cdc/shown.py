"""How a point is shown: the values of `__START_AT` and `__END_AT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StructType, TimestampNTZType, TimestampType

from framework.cdc.reserved import ONCE, SEQUENCE, START_AT

if TYPE_CHECKING:
    from pyspark.sql import Column

    from framework.cdc.target import CdcTarget


def shown_point(target: CdcTarget, point: Column) -> Column:
    """A point in the type that the target shows: its sequence.

    The literal of a once flow is shown as itself where sequences are numbers, and as microseconds
    since 1970 where they are times, so that `lit(0)` is long ago; elsewhere it is null.
    """
    want = target.table_schema[START_AT].dataType
    literal = _literal(point.getField(ONCE), want)
    if target.sequence_type is None:
        return literal
    return F.coalesce(_sequence(point.getField(SEQUENCE), target.sequence_type, want), literal)


def _sequence(value: Column, have: DataType, want: DataType) -> Column:
    if isinstance(have, StructType) and isinstance(want, StructType):
        pairs = zip(have.fields, want.fields, strict=True)
        parts = [_sequence(value.getField(a.name), a.dataType, b.dataType).alias(b.name) for a, b in pairs]
        return F.when(value.isNotNull(), F.struct(*parts)).cast(want)
    return value.cast(want)


def _literal(value: Column, want: DataType) -> Column:
    if isinstance(want, NumericType):
        return value.cast(want)
    if isinstance(want, TimestampType | TimestampNTZType) or want.typeName() == "date":
        return F.timestamp_micros(value.cast("bigint")).cast(want)
    return F.lit(None).cast(want)
