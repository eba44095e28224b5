"""The moments of keys: what all that is known of a key says happened at one point.

Where events author whole rows, a moment is a point: a delete, or else the upsert that counts there.
Where they author parts, each event is a moment; the last at its point carries the values that the
key has after it, and the others are marked as inner: they only have a say in those values.
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
from framework.cdc.scd2.known_events import END, OLD, ORIGIN, REMEMBERED, SHOWN, SUPPOSED
from framework.cdc.spark.expression_cache import built_once

if TYPE_CHECKING:
    from framework.cdc.analysis.target_schema import CdcTarget

POINT = "__sluice_point"
LEAF_AUTHORS = "__sluice_leaf_authors"
WRITTEN = "__sluice_written"
"""What an event wrote itself, without the values that it left as they were."""
IS_INNER = "__sluice_is_inner"
FRESH = "__sluice_fresh"
"""The event comes from the batch or from a row, so nothing else may remember it."""
KNOWN = "__sluice_known"
"""The event is remembered."""

FINGERPRINT = "__sluice_fingerprint"
"""The fingerprint of an upsert's content."""

OLDS = "__sluice_olds"
"""How many rows of the target are at the moment; of whole rows, at all moments up to this one."""

_MOMENT = (POINT, OPERATION, FINGERPRINT, OLD, OLDS, FRESH, KNOWN)

_RANK = "__sluice_rank"
_STRENGTH = "strength"
_END_STRENGTH, _SUPPOSED_STRENGTH, _KNOWN_STRENGTH, _DELETE_STRENGTH = range(4)
_DIED = "__sluice_died"
_LATEST = "_latest"
_NEXT_POINT = "__sluice_next_point"
_OLD_BEFORE, _FRESH_BEFORE, _KNOWN_BEFORE = "__sluice_old_before", "__sluice_fresh_before", "__sluice_known_before"
_IS_AT_STAKE = "__sluice_is_at_stake"


@built_once
def key_columns(target: CdcTarget) -> list[Column]:
    """The key columns."""
    return [column(key) for key in target.keys]


def gather_moments(events: DataFrame, target: CdcTarget) -> DataFrame:
    """The moments of each key.

    Returns:
        The columns from the flows, `POINT`, `OPERATION`, `FINGERPRINT`, `OLD`, `OLDS`, `FRESH`, `KNOWN` and
        `IS_INNER`; for a target with authors which leaves the event wrote, `WRITTEN` and `LEAF_AUTHORS` too.
    """
    ranked = events.select("*", point_of(column(ORDER), target.order_type).alias(POINT), _rank().alias(_RANK))
    together = ranked.repartition(*key_columns(target))  # one shuffle; all that follows is by key
    return _filled(_by_rank(together, target), target) if target.is_authored else _by_point(together, target)


@built_once
def _rank() -> Column:
    """What counts at one point, the last of: an `END`, a supposed upsert, an upsert, a delete; then by content."""
    operation, is_known = column(OPERATION), column(ORIGIN) > F.lit(SUPPOSED)
    strength = (
        F.when(operation == F.lit(DELETE), F.lit(_DELETE_STRENGTH))
        .when(operation == F.lit(END), F.lit(_END_STRENGTH))
        .otherwise(F.when(is_known, F.lit(_KNOWN_STRENGTH)).otherwise(F.lit(_SUPPOSED_STRENGTH)))
    )
    content = F.when(operation == F.lit(UPSERT), column(ORDER).getField(CONTENT))
    return F.struct(strength.alias(_STRENGTH), content.alias(CONTENT))


def _by_point(events: DataFrame, target: CdcTarget) -> DataFrame:
    """One moment a point, where events author whole rows: the last there by rank, which tells what all there know.

    Remembered events from before the rows that are at stake are left out. One order of a key's events
    does for all of this, and for the histories made of it.
    """
    counts, moment = _last_at_point(target)
    return events.select("*", *_known_up_to(target)).where(counts).select(*moment)


@built_once
def _known_up_to(target: CdcTarget) -> list[Column]:
    """What an event must know of those before it, and of the next."""
    ordered = Window.partitionBy(*key_columns(target)).orderBy(POINT, _RANK)
    upto = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    point, origin, old = column(POINT), column(ORIGIN), column(OLD)
    newest = {
        _OLD_BEFORE: F.when(old.isNotNull(), F.struct(point.alias("point"), old.alias("old"))),
        _FRESH_BEFORE: F.when((origin >= F.lit(SHOWN)) & (column(OPERATION) != F.lit(END)), point),
        _KNOWN_BEFORE: F.when(origin == F.lit(REMEMBERED), _event()),
    }
    return [
        F.lead(POINT).over(ordered).alias(_NEXT_POINT),
        F.max(origin != F.lit(REMEMBERED)).over(upto).alias(_IS_AT_STAKE),
        F.count(OLD).over(upto).alias(OLDS),
        *(F.last(found, ignorenulls=True).over(upto).alias(name) for name, found in newest.items()),
    ]


def _event() -> Column:
    """What makes a remembered event the same as another of its key, where events author whole rows."""
    return F.struct(column(POINT), column(OPERATION), column(_RANK).getField(CONTENT).alias(CONTENT))


@built_once
def _last_at_point(target: CdcTarget) -> tuple[Column, list[Column]]:
    """Which events are moments, and the columns of a moment."""
    point, before, no = column(POINT), column(_OLD_BEFORE), F.expr("false")
    is_last = F.coalesce(column(_NEXT_POINT) != point, F.expr("true"))
    is_fresh_end = (column(OPERATION) == F.lit(END)) & (column(ORIGIN) >= F.lit(SHOWN))
    moment = [
        *(column(name) for name in target.row_schema.fieldNames()),
        *(point, column(OPERATION), column(_RANK).getField(CONTENT).alias(FINGERPRINT)),
        F.when(before.getField("point") == point, before.getField("old")).alias(OLD),
        (F.coalesce(column(_FRESH_BEFORE) == point, no) | is_fresh_end).alias(FRESH),
        F.coalesce(column(_KNOWN_BEFORE) == _event(), no).alias(KNOWN),
        *(no.alias(IS_INNER), column(OLDS)),
    ]
    return is_last & column(_IS_AT_STAKE), moment


def _by_rank(events: DataFrame, target: CdcTarget) -> DataFrame:
    """One moment an event, where they author parts; equal ones of several flows wrote what any of them did."""
    is_upsert = column(OPERATION) == F.lit(UPSERT)
    names, flags = value_names(target), wrote_names(target)
    wrote = [column(flag) & is_upsert for flag in flags]
    values = [F.max_by(column(name), F.when(flag, F.lit(1))) for name, flag in zip(names, wrote, strict=True)]
    grouped = events.groupBy(*key_columns(target), POINT, _RANK).agg(
        *aliased(names, values),
        *aliased(flags, [F.bool_or(flag) for flag in wrote]),
        *(F.max(OLD).alias(OLD), F.count(OLD).alias(OLDS)),
        (F.max(ORIGIN) >= F.lit(SHOWN)).alias(FRESH),
        F.collect_set(F.when(column(ORIGIN) == F.lit(REMEMBERED), _identity(target, column(_RANK)))).alias(KNOWN),
    )
    rank = column(_RANK)
    strength = rank.getField(_STRENGTH)
    operation = F.when(strength == F.lit(_DELETE_STRENGTH), F.lit(DELETE))
    operation = operation.when(strength == F.lit(_END_STRENGTH), F.lit(END)).otherwise(F.lit(UPSERT))
    moments = grouped.withColumns({OPERATION: operation, FINGERPRINT: rank.getField(CONTENT)})
    return moments.withColumn(KNOWN, F.array_contains(column(KNOWN), _identity(target, rank)))


def _identity(target: CdcTarget, rank: Column) -> Column:
    """What makes a remembered event the same as another of its key and point, where events author parts."""
    is_upsert = column(OPERATION) == F.lit(UPSERT)
    flags = (F.when(is_upsert, column(flag)) for flag in wrote_names(target))
    return F.xxhash64(is_upsert, F.when(is_upsert, rank.getField(CONTENT)), *flags)


def _filled(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Each upsert with the leaves that it did not write, as the newest event before it left them.

    A delete leaves nothing of what was before it and at its own point. An `END` does the same, but any other
    event at its point overrides it.
    """
    ordered = Window.partitionBy(*key_columns(target)).orderBy(POINT, _RANK)
    upto = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_inner = F.coalesce(F.lead(POINT).over(ordered) == column(POINT), F.expr("false"))
    operation = column(OPERATION)
    events = events.withColumn(IS_INNER, is_inner).where(~(column(IS_INNER) & (operation == F.lit(END))))
    died = F.last(F.when(operation.isin(DELETE, END), column(POINT)), ignorenulls=True).over(upto)
    names = value_names(target)
    row = assembled(target, [column(name) for name in names])
    written = F.struct(*(value.alias(name) for name, value in row.items()))
    marked = events.withColumns({_DIED: died, WRITTEN: written})
    # What a row supposes of its start does not count where the true event is known.
    counts = (column(_RANK).getField(_STRENGTH) >= F.lit(_KNOWN_STRENGTH)) | ~column(IS_INNER)
    order = _order(target)
    latest = {}
    for name, flag in zip(names, wrote_names(target), strict=True):
        value = F.struct(column(name).alias("value"), order.alias("order"))
        latest[f"{name}{_LATEST}"] = F.last(F.when(counts & column(flag), value), ignorenulls=True).over(upto)
    return marked.withColumns(latest).select(*_alive(target)).select(*_whole(target))


@built_once
def _alive(target: CdcTarget) -> list[Column]:
    """An event with values and authors of all leaves, those that it wrote and those that were there before it."""
    names, died = value_names(target), column(_DIED)
    latest = [column(f"{name}{_LATEST}") for name in names]
    alive = [
        F.when(F.coalesce(point_of(each.getField("order"), target.order_type) > died, F.expr("true")), each)
        for each in latest
    ]
    return [
        *map(column, (*target.keys, *_MOMENT, IS_INNER, WRITTEN, *wrote_names(target))),
        *aliased(names, [each.getField("value") for each in alive]),
        *aliased(author_names(target), [each.getField("order") for each in alive]),
    ]


@built_once
def _whole(target: CdcTarget) -> list[Column]:
    """The columns of a moment, from the flat columns of its leaves."""
    values, authors = ([column(name) for name in names] for names in (value_names(target), author_names(target)))
    kept = authors_to_keep(target.leaves, values, authors, _order(target), struct_of(target.hidden_type, KEPT_AUTHORS))
    row = assembled(target, values)
    return [
        *map(column, (*target.keys, *_MOMENT, IS_INNER, WRITTEN, *wrote_names(target))),
        *(value.alias(name) for name, value in row.items()),
        kept.alias(LEAF_AUTHORS),
    ]


def _order(target: CdcTarget) -> Column:
    """A moment's order."""
    point = column(POINT)
    return F.struct(
        *(point.getField(name).alias(name) for name in target.point_type.names), column(FINGERPRINT).alias(CONTENT)
    )
