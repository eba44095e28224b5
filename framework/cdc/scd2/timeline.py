"""The timelines of keys: the known events of a key, in order and without duplicates.

If events author whole rows, an entry is a point: a delete, or else the upsert that counts there. If
events author parts of rows, each event is an entry. The last entry at a point carries the key's values
after that point; the earlier entries are marked as inner and only contribute to those values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from framework.cdc.events.leaf_columns import aliased, assembled, author_names, value_names, wrote_names
from framework.cdc.events.normalize import DELETE, OPERATION, ORDER, UPSERT
from framework.cdc.model.authorship import authors_to_keep
from framework.cdc.model.columns import column, struct_of
from framework.cdc.model.event_order import point_of
from framework.cdc.model.reserved_names import AUTHORS as KEPT_AUTHORS
from framework.cdc.model.reserved_names import CONTENT
from framework.cdc.scd2.known_events import END, FROM_AUXILIARY, FROM_TARGET, INFERRED, OLD, ORIGIN
from framework.engine.jvm.java import built_once

if TYPE_CHECKING:
    from framework.cdc.analysis.target_schema import CdcTarget

POINT = "__sluice_point"
LEAF_AUTHORS = "__sluice_leaf_authors"
WRITTEN = "__sluice_written"
"""The values that an event wrote, without the values that it left unchanged."""
IS_INNER = "__sluice_is_inner"
FRESH = "__sluice_fresh"
"""The event comes from the batch or from a target row, so the auxiliary table may lack it."""
KNOWN = "__sluice_known"
"""The auxiliary table records the event."""

FINGERPRINT = "__sluice_fingerprint"
"""The fingerprint of an upsert's content."""

OLD_ROWS = "__sluice_old_rows"
"""The number of target rows at the entry; if events author whole rows, at all entries up to this one."""

_ENTRY = (POINT, OPERATION, FINGERPRINT, OLD, OLD_ROWS, FRESH, KNOWN)

_RANK = "__sluice_rank"
_STRENGTH = "strength"
_END_STRENGTH, _EARLY_DELETE_STRENGTH, _INFERRED_STRENGTH, _KNOWN_STRENGTH, _DELETE_STRENGTH = range(5)
_CLEARED_AT = "__sluice_cleared_at"
_LATEST = "_latest"
_NEXT_POINT = "__sluice_next_point"
_OLD_BEFORE, _FRESH_BEFORE, _KNOWN_BEFORE = "__sluice_old_before", "__sluice_fresh_before", "__sluice_known_before"
_IS_RELEVANT = "__sluice_is_relevant"


@built_once
def key_columns(target: CdcTarget) -> list[Column]:
    """Return the key columns."""
    return [column(key) for key in target.keys]


def build_timeline(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Build the timeline of each key.

    Returns:
        The columns from the flows, `POINT`, `OPERATION`, `FINGERPRINT`, `OLD`, `OLD_ROWS`, `FRESH`, `KNOWN` and
        `IS_INNER`. For a target with authors, also the flags of the leaves that the event wrote, `WRITTEN` and
        `LEAF_AUTHORS`.
    """
    ranked = events.select("*", point_of(column(ORDER), target.order_type).alias(POINT), _rank(target).alias(_RANK))
    together = ranked.repartition(*key_columns(target))  # one shuffle: all further steps are by key
    return _filled(_by_rank(together, target), target) if target.is_authored else _by_point(together, target)


@built_once
def _rank(target: CdcTarget) -> Column:
    """Return an event's rank at its point, ascending: `END`, supposed upsert, upsert, delete; then by content.

    If deletes come first, they rank between `END` and the upserts.
    """
    operation, is_known = column(OPERATION), column(ORIGIN) > F.lit(INFERRED)
    delete = _EARLY_DELETE_STRENGTH if target.deletes_first else _DELETE_STRENGTH
    strength = (
        F.when(operation == F.lit(DELETE), F.lit(delete))
        .when(operation == F.lit(END), F.lit(_END_STRENGTH))
        .otherwise(F.when(is_known, F.lit(_KNOWN_STRENGTH)).otherwise(F.lit(_INFERRED_STRENGTH)))
    )
    content = F.when(operation == F.lit(UPSERT), column(ORDER).getField(CONTENT))
    return F.struct(strength.alias(_STRENGTH), content.alias(CONTENT))


def _by_point(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the highest-ranked event per point, where events author whole rows.

    Its `OLD` and `FRESH` combine all events at its point. Recorded events before the key's first event from
    the batch or the target are omitted. This step and the histories share one sort of a key's events.
    """
    counts, entry = _last_at_point(target)
    return events.select("*", *_known_up_to(target)).where(counts).select(*entry)


@built_once
def _known_up_to(target: CdcTarget) -> list[Column]:
    """Return the columns of previous events that an event depends on, and the point of the next event."""
    ordered = Window.partitionBy(*key_columns(target)).orderBy(POINT, _RANK)
    upto = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    point, origin, old = column(POINT), column(ORIGIN), column(OLD)
    newest = {
        _OLD_BEFORE: F.when(old.isNotNull(), F.struct(point.alias("point"), old.alias("old"))),
        _FRESH_BEFORE: F.when((origin >= F.lit(FROM_TARGET)) & (column(OPERATION) != F.lit(END)), point),
        _KNOWN_BEFORE: F.when(origin == F.lit(FROM_AUXILIARY), _event()),
    }
    return [
        F.lead(POINT).over(ordered).alias(_NEXT_POINT),
        F.max(origin != F.lit(FROM_AUXILIARY)).over(upto).alias(_IS_RELEVANT),
        F.count(OLD).over(upto).alias(OLD_ROWS),
        *(F.last(found, ignorenulls=True).over(upto).alias(name) for name, found in newest.items()),
    ]


def _event() -> Column:
    """Return the identity of a recorded event within its key, where events author whole rows."""
    return F.struct(column(POINT), column(OPERATION), column(_RANK).getField(CONTENT).alias(CONTENT))


@built_once
def _last_at_point(target: CdcTarget) -> tuple[Column, list[Column]]:
    """Return which events are timeline entries, and the columns of an entry."""
    point, before, no = column(POINT), column(_OLD_BEFORE), F.expr("false")
    is_last = F.coalesce(column(_NEXT_POINT) != point, F.expr("true"))
    is_fresh_end = (column(OPERATION) == F.lit(END)) & (column(ORIGIN) >= F.lit(FROM_TARGET))
    entry = [
        *(column(name) for name in target.row_schema.fieldNames()),
        *(point, column(OPERATION), column(_RANK).getField(CONTENT).alias(FINGERPRINT)),
        F.when(before.getField("point") == point, before.getField("old")).alias(OLD),
        (F.coalesce(column(_FRESH_BEFORE) == point, no) | is_fresh_end).alias(FRESH),
        F.coalesce(column(_KNOWN_BEFORE) == _event(), no).alias(KNOWN),
        *(no.alias(IS_INNER), column(OLD_ROWS)),
    ]
    return is_last & column(_IS_RELEVANT), entry


def _by_rank(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Return one entry per event, where events author parts of rows; equal events of several flows are merged."""
    aggregates, entry, is_known = _merged_leaves(target)
    grouped = events.groupBy(*key_columns(target), POINT, _RANK).agg(*aggregates)
    return grouped.withColumns(entry).withColumn(KNOWN, is_known)


@built_once
def _merged_leaves(target: CdcTarget) -> tuple[list[Column], dict[str, Column], Column]:
    """Return the aggregates of equal events, the columns of their entry, and whether one is recorded."""
    is_upsert = column(OPERATION) == F.lit(UPSERT)
    names, flags = value_names(target), wrote_names(target)
    wrote = [column(flag) & is_upsert for flag in flags]
    values = [F.max_by(column(name), F.when(flag, F.lit(1))) for name, flag in zip(names, wrote, strict=True)]
    rank = column(_RANK)
    aggregates = [
        *aliased(names, values),
        *aliased(flags, [F.bool_or(flag) for flag in wrote]),
        *(F.max(OLD).alias(OLD), F.count(OLD).alias(OLD_ROWS)),
        (F.max(ORIGIN) >= F.lit(FROM_TARGET)).alias(FRESH),
        F.collect_set(F.when(column(ORIGIN) == F.lit(FROM_AUXILIARY), _identity(target, rank))).alias(KNOWN),
    ]
    strength = rank.getField(_STRENGTH)
    operation = F.when(strength.isin(_EARLY_DELETE_STRENGTH, _DELETE_STRENGTH), F.lit(DELETE))
    operation = operation.when(strength == F.lit(_END_STRENGTH), F.lit(END)).otherwise(F.lit(UPSERT))
    entry = {OPERATION: operation, FINGERPRINT: rank.getField(CONTENT)}
    return aggregates, entry, F.array_contains(column(KNOWN), _identity(target, rank))


def _identity(target: CdcTarget, rank: Column) -> Column:
    """Return the identity of a recorded event within its key and point, where events author parts of rows."""
    is_upsert = column(OPERATION) == F.lit(UPSERT)
    flags = (F.when(is_upsert, column(flag)) for flag in wrote_names(target))
    return F.xxhash64(is_upsert, F.when(is_upsert, rank.getField(CONTENT)), *flags)


def _filled(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Fill the leaves that an upsert did not write with their values after the previous event.

    A delete clears all leaves written before it and, unless deletes come first, at its own point. An `END` does the
    same, but any other event at its point overrides it.
    """
    is_inner, counts, marks, latest = _leaves_before(target)
    marked = events.withColumn(IS_INNER, is_inner).where(counts).withColumns(marks).withColumns(latest)
    return marked.select(*_current_leaves(target)).select(*_whole(target))


@built_once
def _leaves_before(target: CdcTarget) -> tuple[Column, Column, dict[str, Column], dict[str, Column]]:
    """Return how leaves are filled.

    Returns:
        Whether an entry is inner; whether it counts; where leaves were last cleared and what an event wrote; each
        leaf's latest value with its order.
    """
    ordered = Window.partitionBy(*key_columns(target)).orderBy(POINT, _RANK)
    upto = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_inner = F.coalesce(F.lead(POINT).over(ordered) == column(POINT), F.expr("false"))
    operation = column(OPERATION)
    cleared_at = F.last(F.when(operation.isin(DELETE, END), column(POINT)), ignorenulls=True).over(upto)
    names = value_names(target)
    row = assembled(target, [column(name) for name in names])
    written = F.struct(*(value.alias(name) for name, value in row.items()))
    # The supposed upsert at a row's start does not count if the true event is known.
    counts = (column(_RANK).getField(_STRENGTH) >= F.lit(_KNOWN_STRENGTH)) | ~column(IS_INNER)
    order = _order(target)
    latest = {}
    for name, flag in zip(names, wrote_names(target), strict=True):
        value = F.struct(column(name).alias("value"), order.alias("order"))
        latest[f"{name}{_LATEST}"] = F.last(F.when(counts & column(flag), value), ignorenulls=True).over(upto)
    return (
        is_inner,
        ~(column(IS_INNER) & (operation == F.lit(END))),
        {_CLEARED_AT: cleared_at, WRITTEN: written},
        latest,
    )


@built_once
def _current_leaves(target: CdcTarget) -> list[Column]:
    """Return an event with the values and authors of all leaves, written by it or by earlier events."""
    names, cleared_at = value_names(target), column(_CLEARED_AT)
    latest = [column(f"{name}{_LATEST}") for name in names]
    points = [point_of(each.getField("order"), target.order_type) for each in latest]
    kept = [point >= cleared_at if target.deletes_first else point > cleared_at for point in points]
    current = [F.when(F.coalesce(is_kept, F.expr("true")), each) for is_kept, each in zip(kept, latest, strict=True)]
    return [
        *map(column, (*target.keys, *_ENTRY, IS_INNER, WRITTEN, *wrote_names(target))),
        *aliased(names, [each.getField("value") for each in current]),
        *aliased(author_names(target), [each.getField("order") for each in current]),
    ]


@built_once
def _whole(target: CdcTarget) -> list[Column]:
    """Return the columns of an entry, from the flat columns of its leaves."""
    values, authors = ([column(name) for name in names] for names in (value_names(target), author_names(target)))
    kept = authors_to_keep(target.leaves, values, authors, _order(target), struct_of(target.hidden_type, KEPT_AUTHORS))
    row = assembled(target, values)
    return [
        *map(column, (*target.keys, *_ENTRY, IS_INNER, WRITTEN, *wrote_names(target))),
        *(value.alias(name) for name, value in row.items()),
        kept.alias(LEAF_AUTHORS),
    ]


def _order(target: CdcTarget) -> Column:
    """Return an entry's order."""
    point = column(POINT)
    return F.struct(
        *(point.getField(name).alias(name) for name in target.point_type.names), column(FINGERPRINT).alias(CONTENT)
    )
