"""The latest events of a batch: the newest upsert and the newest delete of each key, from one pass over the batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.batch_validation import BatchCounts, counting_columns, is_unordered, read_counts
from framework.cdc.events.leaf_columns import aliased, author_names, value_names, wrote_names
from framework.cdc.events.normalize import DELETE, OPERATION, ORDER, TRUNCATE, UPSERT
from framework.cdc.model.columns import column
from framework.cdc.model.event_order import is_undone, point_of
from framework.cdc.model.reserved_names import AUTHORS, RECORDED, TOMBSTONE
from framework.engine.jvm.java import built_once
from framework.engine.plans.expressions import struct_literal

DELETED = "__sluice_deleted"

IS_DELETED = "__sluice_is_deleted"
"""Flag of latest events, if deleted rows stay: whether a delete or a truncate undoes the newest upsert."""

_TRUNCATED = "__sluice_truncated"
_ROWS = "__sluice_rows"
_KEYED = "__sluice_keyed"
_NULL_SEQUENCES = "__sluice_null_sequences"
_VALUES = "__sluice_values"
_FLOOR = "__sluice_floor"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatestCounts:
    """Counts of a batch, from one pass over its latest events.

    Args:
        batch: the counts for the contract check.
        upserts: keys with an upsert that the batch itself does not undo.
        tombstones: keys with a delete that must be recorded.
        effects: keys that may change the target.
        floor: the literal of the batch's latest truncate; None if there is none.
    """

    batch: BatchCounts
    upserts: int
    tombstones: int
    effects: int
    floor: Column | None


def collect_latest_events(events: DataFrame, target: CdcTarget, *, truncates: bool) -> DataFrame:
    """Aggregate a batch to the latest events of each key: one row per key, from one scan of the batch.

    Rows that violate the contract are kept and counted, so that `count_latest_events` finds them without a second scan.

    Args:
        events: in the shape of `read_events`.
        target: the target.
        truncates: whether events may be truncates.

    Returns:
        The values and `ORDER` of the key's newest upsert, unless the batch itself undoes it; `DELETED`, the
        point of its newest delete; `TOMBSTONE`, the same point if the delete must be recorded. For a target with
        authors, each leaf has the value of its newest author, and a column of `author_names` has the author's order. If
        deleted rows stay, an undone upsert stays as well, and `IS_DELETED` flags it.
    """
    aggregates, made, tombstone = _gathering(target, truncates=truncates)
    grouped = events.groupBy(*(column(key) for key in target.keys)).agg(*aggregates)
    latest = grouped.select(*(column(key) for key in target.keys), *made, tombstone.alias(TOMBSTONE))
    return clear_undone(latest if target.flag is None else unflagged(latest), target, floor=None)


def unflagged(events: DataFrame) -> DataFrame:
    """Mark all events as not undone, for a target whose deleted rows stay."""
    return events.withColumn(IS_DELETED, F.expr("false"))


@built_once
def _gathering(target: CdcTarget, *, truncates: bool) -> tuple[list[Column], list[Column], Column]:
    """Return the aggregates of a key's events, the columns derived from them, and the delete to record."""
    operation, order = column(OPERATION), column(ORDER)
    point = point_of(order, target.order_type)
    upsert = F.when(operation == F.lit(UPSERT), order)
    counts = [F.count(F.lit(1)).alias(_ROWS), F.count_if(is_unordered(target, order)).alias(_NULL_SEQUENCES)]
    if truncates:
        counts.append(F.max(F.when(operation == F.lit(TRUNCATE), point)).alias(_TRUNCATED))
        counts.append(F.count_if(operation != F.lit(TRUNCATE)).alias(_KEYED))
    values, made = _authored_values(target, upsert) if target.is_authored else _whole_values(target, upsert)
    newest = [F.max(upsert).alias(ORDER), F.max(F.when(operation == F.lit(DELETE), point)).alias(DELETED)]
    kept = (ORDER, DELETED, _ROWS, _NULL_SEQUENCES, *((_TRUNCATED, _KEYED) if truncates else ()))
    return [*values, *newest, *counts], [*made, *(column(name) for name in kept)], _own_tombstone(target)


def _own_tombstone(target: CdcTarget) -> Column:
    """Return a key's delete if it must be recorded.

    A delete with a newer upsert in the batch need not be recorded: all events that it undoes are older than the row,
    and the row only gets newer. If leaves have authors, a newer row may hold older leaves, so every delete is recorded.
    """
    if target.is_authored:
        return column(DELETED)
    point = point_of(column(ORDER), target.order_type)
    undone = is_undone(point, deleted=column(DELETED), floor=None, deletes_first=target.deletes_first)
    survives = column(ORDER).isNotNull() & ~undone
    return F.when(~survives, column(DELETED))


def _whole_values(target: CdcTarget, upsert: Column) -> tuple[list[Column], list[Column]]:
    """Return the aggregate of the newest upsert's values, and the columns extracted from it."""
    names = [field.name for field in target.value_fields]
    if not names:
        return [], []
    payload = F.struct(*(column(name) for name in names))
    values = F.max_by(payload, upsert).alias(_VALUES)
    return [values], [column(_VALUES).getField(name).alias(name) for name in names]


def _authored_values(target: CdcTarget, upsert: Column) -> tuple[list[Column], list[Column]]:
    """Return the aggregates of each leaf's newest author and its value, and their columns."""
    values, authors = value_names(target), author_names(target)
    written = [F.when(column(wrote), upsert) for wrote in wrote_names(target)]
    aggregates = [
        *aliased(values, [F.max_by(column(value), order) for value, order in zip(values, written, strict=True)]),
        *aliased(authors, [F.max(order) for order in written]),
    ]
    return aggregates, [column(name) for name in (*values, *authors)]


def apply_recorded_deletes(
    latest: DataFrame, target: CdcTarget, *, tombstones: DataFrame, floor: DataFrame | None
) -> DataFrame:
    """Apply the recorded deletes and truncates to latest events.

    Args:
        latest: the result of `collect_latest_events`.
        target: the target.
        tombstones: the keys and `RECORDED`, the newest recorded delete of each.
        floor: one row with the latest recorded truncate, also called `RECORDED`.

    Returns:
        The latest events that may still change the target; `ORDER` is null if the newest upsert is undone, unless
        deleted rows stay, and `DELETED` is the newest known delete.
    """
    # A merge join, because both sides are sorted by key; a broadcast would be a job to wait for.
    checked = latest.join(tombstones.hint("merge"), list(target.keys), "left")
    checked = checked.withColumn(DELETED, F.greatest(column(DELETED), column(RECORDED))).drop(RECORDED)
    if floor is None:
        return clear_undone(checked, target, floor=None)
    checked = checked.crossJoin(F.broadcast(floor))
    checked = clear_undone(checked, target, floor=column(RECORDED)).drop(RECORDED)
    return checked.where(has_effect())


def clear_undone(latest: DataFrame, target: CdcTarget, *, by_deletes: bool = True, floor: Column | None) -> DataFrame:
    """Clear the upserts, and the leaves, that a delete or a truncate undoes; if deleted rows stay, flag the upserts.

    Args:
        latest: latest events.
        target: the target.
        by_deletes: whether the deletes in `DELETED` undo them.
        floor: the latest truncate; None if there is none.
    """
    if floor is None:
        return latest.withColumns(_cleared(target, by_deletes=by_deletes, by_truncate=False))
    cleared = _cleared(target, by_deletes=by_deletes, by_truncate=True)
    return latest.withColumn(_FLOOR, floor).withColumns(cleared).drop(_FLOOR)


@built_once
def _cleared(target: CdcTarget, *, by_deletes: bool, by_truncate: bool) -> dict[str, Column]:
    """Return the columns that undone events change; the latest truncate is in the column `_FLOOR`."""
    order, deleted = column(ORDER), column(DELETED) if by_deletes else None
    floor = column(_FLOOR) if by_truncate else None
    undoing = partial(is_undone, deleted=deleted, floor=floor, deletes_first=target.deletes_first)
    undone = undoing(point_of(order, target.order_type))
    if target.flag is not None:
        return {IS_DELETED: column(IS_DELETED) | undone}
    changes = {ORDER: F.when(~undone, order)}
    if target.is_authored:
        for value, author in zip(value_names(target), author_names(target), strict=True):
            is_cleared = undoing(point_of(column(author), target.order_type))
            changes |= {name: F.when(~is_cleared, column(name)) for name in (value, author)}
    return changes


@built_once
def has_effect() -> Column:
    """Return whether a key's latest events may change the target: an upsert that is not undone, or a delete."""
    return column(ORDER).isNotNull() | column(DELETED).isNotNull()


def count_latest_events(latest: DataFrame, target: CdcTarget, *, truncates: bool) -> LatestCounts:
    """Compute and count a batch's latest events: one job, and a second job if the batch has truncates."""
    row = latest.agg(*_counting(target, truncates=truncates)).first()
    assert row is not None  # an aggregate without groups has one row
    return LatestCounts(
        batch=read_counts(row, target),
        upserts=row["upserts"],
        tombstones=row["tombstones"],
        effects=row["effects"],
        floor=struct_literal(latest.agg(F.max(column(_TRUNCATED)))) if truncates and row["truncates"] else None,
    )


@built_once
def _counting(target: CdcTarget, *, truncates: bool) -> list[Column]:
    counting = counting_columns(
        target,
        rows=F.sum(_ROWS),
        null_sequences=F.sum(_NULL_SEQUENCES),
        keyed=column(_KEYED if truncates else _ROWS),
        counts=has_effect(),
    )
    if truncates:
        counting.append(F.count(column(_TRUNCATED)).alias("truncates"))
    return [
        *counting,
        F.count(column(ORDER)).alias("upserts"),
        F.count(column(TOMBSTONE)).alias("tombstones"),
        F.count_if(has_effect()).alias("effects"),
    ]


def flag_of(target: CdcTarget, value: Column) -> dict[str, Column]:
    """Return the target's flag column with a value; empty if deleted rows are removed."""
    return {} if target.flag is None else {target.flag: value}


def hidden_column(target: CdcTarget, order: Column, authors: Column | None = None) -> Column:
    """Return the hidden column of a row whose newest event has this order, with fields in the table's order."""
    made = {name: order.getField(name) for name in target.order_type.names}
    if authors is not None:
        made[AUTHORS] = authors
    fields = target.hidden_type.fields
    return F.struct(*(made.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))
