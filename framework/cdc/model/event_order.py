"""The order of events: what comes first, and what of two events of one key counts.

An event's *point* is where it stands: its sequence, and for the rows of a once flow with a literal
sequence that literal. Points without a sequence come first, so such rows come before everything. Its
*order* is the point and the content's fingerprint, so that of two upserts at one point the same one
counts whichever comes first. Both are structs that Spark compares field by field, nulls first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.model.reserved_names import CONTENT, ONCE, SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


def point_of(value: Column, struct_type: StructType) -> Column:
    """The point within a hidden column, an order or a point; null where there is none.

    Args:
        value: the struct.
        struct_type: its type, whose fields may stand in any order, for tables grow by addition.
    """
    return F.when(value.isNotNull(), _part(value, struct_type, (SEQUENCE, ONCE)))


def order_of(value: Column, struct_type: StructType) -> Column:
    """The order within a hidden column or an order; null where there is none."""
    return F.when(value.isNotNull(), _part(value, struct_type, (SEQUENCE, ONCE, CONTENT)))


def row_point(hidden: Column, struct_type: StructType) -> Column:
    """The point of a target's row; a row that AUTO CDC did not write stands before everything."""
    return _part(hidden, struct_type, (SEQUENCE, ONCE))


def row_order(hidden: Column, struct_type: StructType) -> Column:
    """The order of a target's row; a row that AUTO CDC did not write stands before everything."""
    return _part(hidden, struct_type, (SEQUENCE, ONCE, CONTENT))


def _part(value: Column, struct_type: StructType, names: tuple[str, ...]) -> Column:
    present = [name for name in names if name in struct_type.fieldNames()]
    return F.struct(*(value.getField(name).alias(name) for name in present))


def is_dead(point: Column, *, deleted: Column | None, floor: Column | None) -> Column:
    """Whether something written at a point is undone.

    Args:
        point: where it was written; null is not dead.
        deleted: the key's latest delete: it undoes its own point and all before.
        floor: the latest truncate: it undoes all before its own point.
    """
    dead = F.expr("false")
    if deleted is not None:
        dead = dead | F.coalesce(point <= deleted, F.expr("false"))
    if floor is not None:
        dead = dead | F.coalesce(point < floor, F.expr("false"))
    return dead
