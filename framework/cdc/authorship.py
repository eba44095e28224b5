"""Who wrote which leaf of a target's row.

The hidden column keeps the order of a leaf's author only where the row does not tell: a leaf with a
value was written by the row's newest event, a null one by nobody, unless it says otherwise. So most
rows keep no authors at all, and a column that is added later has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.columns import struct_of
from framework.cdc.order import order_of, row_order
from framework.cdc.reserved import AUTHORS

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from framework.cdc.leaves import Leaf


def kept_authors(
    hidden: Column, hidden_type: StructType, leaves: Sequence[Leaf], values: Sequence[Column]
) -> list[Column]:
    """The order of each leaf's author in a row of the target; null where nobody wrote it."""
    own = row_order(hidden, hidden_type)
    return [
        F.coalesce(*_told(hidden, hidden_type, leaf), F.when(value.isNotNull(), own))
        for leaf, value in zip(leaves, values, strict=True)
    ]


def _told(hidden: Column, hidden_type: StructType, leaf: Leaf) -> list[Column]:
    """What the hidden column says of a leaf, or of a struct around it from when that was one leaf."""
    authors_type = struct_of(hidden_type, AUTHORS)
    names = [part.name for part in (leaf, *reversed(leaf.ancestors)) if part.name in authors_type.names]
    kept = hidden.getField(AUTHORS)
    return [order_of(kept.getField(name), struct_of(authors_type, name)) for name in names]


def authors_to_keep(
    leaves: Sequence[Leaf],
    values: Sequence[Column],
    authors: Sequence[Column],
    newest: Column,
    authors_type: StructType,
) -> Column:
    """The hidden column's `authors` of a row whose newest event has the order `newest`."""
    kept = {}
    for leaf, value, author in zip(leaves, values, authors, strict=True):
        is_told = F.coalesce(value.isNotNull() & (author == newest), F.expr("false"))
        kept[leaf.name] = F.when(~is_told, author)
    fields = [kept.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in authors_type.fields]
    return F.struct(*fields)
