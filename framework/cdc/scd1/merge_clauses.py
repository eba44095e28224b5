"""SCD type 1 without authors: the effect of latest events on target rows, as expressions for the clauses of a merge."""

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
from framework.cdc.model.event_order import is_undone, row_order, row_point
from framework.cdc.model.reserved_names import AUTHORS, HIDDEN_COLUMN
from framework.cdc.scd1.latest_events import DELETED
from framework.cdc.spark.expression_cache import built_once

SOURCE = "__sluice_source"
TARGET = "__sluice_target"

CHANGE = "__sluice_change"
"""The change of a row in the table: one of the three constants below, or null."""

INSERTED, UPDATED, REMOVED = "inserted", "updated", "deleted"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changes:
    """The clauses of a merge of `SOURCE` (latest events) into `TARGET`.

    Args:
        delete: condition on which a matched row is deleted.
        update: condition on which a matched row that is not deleted becomes `updated`.
        updated: the new values of an updated row.
        insert: condition on which a key without a row gets the row `inserted`.
        inserted: the values of an inserted row.
        sweep: condition on which a truncate deletes a row whose key has no events.
    """

    delete: Column
    update: Column
    updated: Mapping[str, Column]
    insert: Column
    inserted: Mapping[str, Column]
    sweep: Column | None = None


def changes_to(target: CdcTarget, *, floor: Column | None) -> Changes:
    """Return the clauses of a merge: a delete removes rows up to its point, an upsert replaces older rows.

    Merging the same events again changes nothing, because each clause applies only to older or missing rows.

    Args:
        target: the target, whose rows have one author each.
        floor: the literal of a truncate in the batch, which also deletes rows of keys without events.
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
        delete=upsert.isNull() & is_undone(point, deleted=column(DELETED, of=SOURCE), floor=floor),
        update=upsert > row_order(hidden, target.hidden_type),
        updated=row,
        insert=upsert.isNotNull(),
        inserted=keys | row,
        sweep=None if floor is None else point < floor,
    )


def hidden_column(target: CdcTarget, order: Column, authors: Column | None = None) -> Column:
    """Return the hidden column of a row whose newest event has this order, its fields in the table's order."""
    made = {name: order.getField(name) for name in target.order_type.names}
    if authors is not None:
        made[AUTHORS] = authors
    fields = target.hidden_type.fields
    return F.struct(*(made.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))


@built_once
def same_key(target: CdcTarget) -> Column:
    """Return whether the source and target rows have the same key."""
    return reduce(operator.and_, (column(key, of=SOURCE) == column(key, of=TARGET) for key in target.keys))
