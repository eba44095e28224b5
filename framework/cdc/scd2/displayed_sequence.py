"""The displayed form of a point: the values of `__START_AT` and `__END_AT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, NumericType, StructType, TimestampNTZType, TimestampType

from framework.cdc.analysis.flow_input import literal_rank
from framework.cdc.events.normalize import align_sequence
from framework.cdc.model.reserved_names import ONCE, SEQUENCE, START_AT

if TYPE_CHECKING:
    from pyspark.sql import Column

    from framework.cdc.analysis.target_schema import CdcTarget


def displayed_point(target: CdcTarget, point: Column) -> Column:
    """Return the displayed value of a point: its sequence, in the type of `__START_AT`.

    If sequences are numbers, the literal of a once flow is displayed as a number. If they are times, the
    literal is microseconds since 1970, so `lit(0)` is in the past. For other types the value is null.
    """
    want = target.table_schema[START_AT].dataType
    literal = _literal(point.getField(ONCE), want)
    if target.sequence_type is None:
        return literal
    return F.coalesce(_sequence(point.getField(SEQUENCE), target.sequence_type, want), literal)


def displays(target: CdcTarget, point: Column, value: Column) -> Column:
    """Return whether a value of `__START_AT` or `__END_AT` displays a point.

    A literal displayed as a date, or as a timestamp without a zone, depends on the time zone of the session that wrote
    it. So any value counts as a display of such a literal.
    """
    is_same = displayed_point(target, point).eqNullSafe(value)
    if isinstance(target.table_schema[START_AT].dataType, DateType | TimestampNTZType):
        return is_same | point.getField(ONCE).isNotNull()
    return is_same


def point_at(target: CdcTarget, value: Column) -> Column:
    """Return the point for a value of `__START_AT` or `__END_AT`; NULL becomes the first of all points."""
    have = target.table_schema[START_AT].dataType
    parts = {ONCE: F.lit(None)}
    if target.sequence_type is None:
        parts[ONCE] = literal_rank(value, have)
    else:
        parts[SEQUENCE] = align_sequence(value, have, target.sequence_type)
    return F.struct(*(parts[f.name].cast(f.dataType).alias(f.name) for f in target.point_type.fields))


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
