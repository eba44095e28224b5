"""The order of events: what comes first, and what of two events of one key counts.

An event's *point* is where it stands: its sequence, and for the rows of a once flow with a literal
sequence that literal. Points without a sequence come first, so such rows come before everything. Its
*order* is the point and the content's fingerprint, so that of two upserts at one point the same one
counts whichever comes first. Both are structs that Spark compares field by field, nulls first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.reserved import CONTENT, ONCE, SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

POINT = (SEQUENCE, ONCE)
ORDER = (SEQUENCE, ONCE, CONTENT)


def point_of(value: Column, struct_type: StructType) -> Column:
    """The point within a hidden column, an order or a point, as a comparable struct.

    Args:
        value: the struct.
        struct_type: its type, whose fields may stand in any order: tables grow by addition.
    """
    return _canonical(value, struct_type, POINT)


def order_of(value: Column, struct_type: StructType) -> Column:
    """The order within a hidden column or an order, as a comparable struct."""
    return _canonical(value, struct_type, ORDER)


def _canonical(value: Column, struct_type: StructType, names: tuple[str, ...]) -> Column:
    present = [name for name in names if name in struct_type.fieldNames()]
    return F.when(value.isNotNull(), F.struct(*(value.getField(name).alias(name) for name in present)))


def later(left: Column, right: Column) -> Column:
    """The later of two points or orders; a null one is before all others."""
    return F.greatest(left, right)
