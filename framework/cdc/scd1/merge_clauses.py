"""SCD type 1 without authors: what facts do to the rows of a target, as expressions for the clauses of a merge."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.normalize import ORDER
from framework.cdc.model.columns import column
from framework.cdc.model.event_order import is_dead, row_order, row_point
from framework.cdc.model.reserved_names import AUTHORS, HIDDEN_COLUMN
from framework.cdc.scd1.latest_events import DELETED
from framework.cdc.spark.expression_cache import built_once

SOURCE = "__sluice_source"
TARGET = "__sluice_target"

DOES = "__sluice_does"
"""What a decided row does to the table: one of the three below, or nothing."""

INSERTED, UPDATED, REMOVED = "inserted", "updated", "deleted"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changes:
    """The clauses of a merge of `SOURCE` (facts) into `TARGET`.

    Args:
        delete: a matched row goes.
        update: a matched row that does not go becomes `updated`.
        insert: a key without a row gets `inserted`.
        sweep: a row that no fact is about goes, for a truncate undoes it.
    """

    delete: Column
    update: Column
    updated: Mapping[str, Column]
    insert: Column
    inserted: Mapping[str, Column]
    sweep: Column | None = None


def changes_to(target: CdcTarget, *, floor: Column | None) -> Changes:
    """What facts do to rows: a delete removes what is up to its point, an upsert replaces what is older.

    Applying the same facts again changes nothing, for each clause asks for something newer.

    Args:
        target: the target, whose rows have one author each.
        floor: the literal of a truncate in the batch, by which rows without facts go too.
    """
    return _changes_without_floor(target) if floor is None else _changes(target, floor)


@built_once
def _changes_without_floor(target: CdcTarget) -> Changes:
    return _changes(target, None)


def _changes(target: CdcTarget, floor: Column | None) -> Changes:
    upsert, hidden = column(ORDER, of=SOURCE), column(HIDDEN_COLUMN, of=TARGET)
    point = row_point(hidden, target.hidden_type)
    row = {field.name: column(field.name, of=SOURCE) for field in target.value_fields}
    row[HIDDEN_COLUMN] = hidden_column(target, upsert)
    keys = {key: column(key, of=SOURCE) for key in target.keys}
    return Changes(
        delete=upsert.isNull() & is_dead(point, deleted=column(DELETED, of=SOURCE), floor=floor),
        update=upsert > row_order(hidden, target.hidden_type),
        updated=row,
        insert=upsert.isNotNull(),
        inserted=keys | row,
        sweep=None if floor is None else point < floor,
    )


def hidden_column(target: CdcTarget, order: Column, authors: Column | None = None) -> Column:
    """The hidden column of a row whose newest event has this order, its fields in the table's order."""
    made = {name: order.getField(name) for name in target.order_type.names}
    if authors is not None:
        made[AUTHORS] = authors
    fields = target.hidden_type.fields
    return F.struct(*(made.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))


@built_once
def same_key(target: CdcTarget) -> Column:
    """Whether a fact and a row have the same key."""
    return reduce(operator.and_, (column(key, of=SOURCE) == column(key, of=TARGET) for key in target.keys))
