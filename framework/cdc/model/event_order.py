"""The order of events: which of two events is older, and which of two events of one key counts.

An event's *point* is its sequence, or the literal if it is from a once flow with a literal sequence.
Points without a sequence sort first, so the rows of such a once flow sort before all other events. An
event's *order* is its point and the fingerprint of its content, so that the same one of two upserts at a point counts
in any order of arrival. Both are structs that Spark compares field by field, nulls first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.model.reserved_names import CONTENT, ONCE, SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


def point_of(value: Column, struct_type: StructType) -> Column:
    """Return the point within a hidden column, an order or a point; null if the struct is null.

    Args:
        value: the struct.
        struct_type: its type, whose fields may be in any order, because tables gain fields at the end.
    """
    return F.when(value.isNotNull(), _part(value, struct_type, (SEQUENCE, ONCE)))


def order_of(value: Column, struct_type: StructType) -> Column:
    """Return the order within a hidden column or an order; null if the struct is null."""
    return F.when(value.isNotNull(), _part(value, struct_type, (SEQUENCE, ONCE, CONTENT)))


def row_point(hidden: Column, struct_type: StructType) -> Column:
    """Return the point of a target row; a row that AUTO CDC did not write precedes all events."""
    return _part(hidden, struct_type, (SEQUENCE, ONCE))


def row_order(hidden: Column, struct_type: StructType) -> Column:
    """Return the order of a target row; a row that AUTO CDC did not write precedes all events."""
    return _part(hidden, struct_type, (SEQUENCE, ONCE, CONTENT))


def _part(value: Column, struct_type: StructType, names: tuple[str, ...]) -> Column:
    present = [name for name in names if name in struct_type.fieldNames()]
    return F.struct(*(value.getField(name).alias(name) for name in present))


def is_undone(point: Column, *, deleted: Column | None, floor: Column | None, deletes_first: bool) -> Column:
    """Return whether a delete or a truncate undoes a value written at a point.

    Args:
        point: the point of the write; a null point is not undone.
        deleted: the key's latest delete, which undoes writes up to its own point.
        floor: the latest truncate, which undoes writes before its own point.
        deletes_first: whether the delete comes before the writes at its own point; else it undoes them too.
    """
    undone = F.expr("false")
    if deleted is not None:
        is_before = point < deleted if deletes_first else point <= deleted
        undone = undone | F.coalesce(is_before, F.expr("false"))
    if floor is not None:
        undone = undone | F.coalesce(point < floor, F.expr("false"))
    return undone
