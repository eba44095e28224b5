"""The hidden column of a target: what must be known of a row beside what it shows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StructField, StructType

from framework.cdc.leaves import Leaf
from framework.cdc.reserved import AUTHORS, CONTENT, DELETED, ENDED, ONCE, SEQUENCE, STARTED


def point_type(sequence: DataType | None) -> StructType:
    """The type of a point; without a sequence while a target has literal flows only."""
    fields = [] if sequence is None else [StructField(SEQUENCE, sequence)]
    return StructType([*fields, StructField(ONCE, DoubleType())])


def order_type(sequence: DataType | None) -> StructType:
    """The type of an order: a point and the fingerprint of the content."""
    return StructType([*point_type(sequence).fields, StructField(CONTENT, LongType())])


def hidden_type(sequence: DataType | None, scd_type: int, authored: Sequence[Leaf]) -> StructType:
    """The type of the hidden column.

    The order of the row's newest event; per authored leaf the order of the event that wrote it,
    where that is not what the value itself says (see `authorship`); and for SCD type 2 the points at
    which the row's run began and ended, and whether a delete ended it.
    """
    fields = list(order_type(sequence).fields)
    if authored:
        authors = [StructField(leaf.name, order_type(sequence)) for leaf in authored]
        fields.append(StructField(AUTHORS, StructType(authors)))
    if scd_type == 2:
        point = point_type(sequence)
        fields += [StructField(STARTED, point), StructField(ENDED, point), StructField(DELETED, BooleanType())]
    return StructType(fields)
