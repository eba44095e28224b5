"""What is known of keys' histories, taken apart into the events it was made of.

The rows of an SCD type 2 target and of its companion together hold a set of events. A row of the
target stands for the newest event of its run, and for the delete that ended it, if one did; all
other events are in the companion. Whatever both hold twice is one event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from framework.cdc.delta.transaction import PLACE, PLACE_TYPE
from framework.cdc.events.leaf_columns import aliased, author_names, flat_row, take_leaf, value_names, wrote_names
from framework.cdc.events.normalize import DELETE, OPERATION, ORDER, UPSERT
from framework.cdc.model.authorship import Leaf
from framework.cdc.model.columns import column, struct_of
from framework.cdc.model.equality import fingerprint
from framework.cdc.model.event_order import order_of, point_of, row_order, row_point
from framework.cdc.model.reserved_names import (
    AUTHORS,
    CONTENT,
    DELETED,
    END_AT,
    ENDED,
    HIDDEN_COLUMN,
    OPERATION_KIND,
    START_AT,
    STARTED,
)
from framework.cdc.scd2.displayed_sequence import point_at, shows
from framework.cdc.spark.expression_cache import built_once

if TYPE_CHECKING:
    from framework.cdc.analysis.target_schema import CdcTarget

ORIGIN = "__sluice_origin"
"""Where an event is known from: one of the four below, the surer the higher."""

SUPPOSED, REMEMBERED, SHOWN, NEW = 0, 1, 2, 3

END = "end"
"""The operation of an event that ends a row where nothing else is known at its point: what `__END_AT` says."""

OLD = "__sluice_old"
"""On the newest event of a row of the target: that row's interval, content, authors and place."""

EVENT_COLUMN = f"{HIDDEN_COLUMN}_event"

_STARTED, _ENDED = "__sluice_row_started", "__sluice_row_ended"
_HAS_KEPT_START, _HAS_KEPT_END = "__sluice_has_kept_start", "__sluice_has_kept_end"
_NEWEST = "__sluice_newest"
_POINT = "__sluice_newest_point"
_CONTENT = "__sluice_content"
_IS_BY_HAND = "__sluice_is_by_hand"

_KINDS = "__sluice_kinds"
_KIND = "__sluice_kind"
_LAST, _FIRST, _DELETED, _END = 1, 2, 3, 4
"""Kinds of events of a row: its newest, the first of its run, the delete that ended it, and its end without one."""


def as_new(events: DataFrame, target: CdcTarget) -> DataFrame:
    """The events of a batch, with where they come from."""
    return events.select("*", *_of_batch(target))


@built_once
def _of_batch(target: CdcTarget) -> list[Column]:
    return [F.lit(NEW).alias(ORIGIN), F.lit(None).cast(old_type(target)).alias(OLD)]


def old_type(target: CdcTarget) -> StructType:
    """The type of `OLD`."""
    point = target.point_type
    fields = [StructField("started", point), StructField("ended", point), StructField("deleted", BooleanType())]
    authors = [target.hidden_type[AUTHORS]] if target.is_authored else []
    return StructType([*fields, StructField(CONTENT, LongType()), *authors, StructField(PLACE, PLACE_TYPE)])


def old_row(
    target: CdcTarget,
    *,
    started: Column,
    ended: Column,
    deleted: Column,
    content: Column,
    authors: Column | None,
    place: Column,
) -> Column:
    """All that a row of the target depends on beside its newest event, as `OLD` keeps it."""
    kept = [] if authors is None else [authors.alias(AUTHORS)]
    parts = (started.alias("started"), ended.alias("ended"), deleted.alias("deleted"), content.alias(CONTENT))
    return F.struct(*parts, *kept, place.alias(PLACE)).cast(old_type(target))


def started_at(target: CdcTarget, *, of: str | None = None) -> Column:
    """The point at which a row of the target begins: the one that AUTO CDC wrote, unless the row shows another."""
    kept, is_kept = _kept_start(target, of)
    return F.when(is_kept, kept).otherwise(point_at(target, column(START_AT, of=of)))


def ended_at(target: CdcTarget, *, of: str | None = None) -> Column:
    """The point at which a row of the target ends, NULL while it is open; if it was edited, the one that it shows."""
    kept, is_kept = _kept_end(target, of)
    shown = column(END_AT, of=of)
    return F.when(is_kept, kept).otherwise(F.when(shown.isNotNull(), point_at(target, shown)))


def _kept_start(target: CdcTarget, of: str | None = None) -> tuple[Column, Column]:
    """The start in the hidden column, and whether the row shows it."""
    hidden, hidden_type = column(HIDDEN_COLUMN, of=of), target.hidden_type
    started = point_of(hidden.getField(STARTED), struct_of(hidden_type, STARTED))
    kept = F.coalesce(started, row_point(hidden, hidden_type))
    return kept, hidden.isNotNull() & shows(target, kept, column(START_AT, of=of))


def _kept_end(target: CdcTarget, of: str | None = None) -> tuple[Column, Column]:
    """The end in the hidden column, and whether the row shows it."""
    hidden = column(HIDDEN_COLUMN, of=of)
    kept = point_of(hidden.getField(ENDED), struct_of(target.hidden_type, ENDED))
    return kept, hidden.isNotNull() & F.coalesce(shows(target, kept, column(END_AT, of=of)), F.expr("false"))


def shown_events(rows: DataFrame, target: CdcTarget) -> DataFrame:
    """The events that rows of the target, with their `PLACE`, stand for.

    The newest event of the row's run; the delete that ended it, or else an `END`; and, in case its true first event
    is not remembered any more, one at its start with the same values, which counts where no other is known.
    """
    flat, events = _flat_and_exploded(target)
    # In a projection of their own, bounds are computed once: Spark does not merge it with one that reads them often.
    bounded = rows.select("*", *_bounds_of_row(target))
    named = bounded.select(*flat).select("*", F.explode(column(_KINDS)).alias(_KIND)).where(column(_KIND).isNotNull())
    return named.select(*events)


@built_once
def _bounds_of_row(target: CdcTarget) -> list[Column]:
    return [
        started_at(target).alias(_STARTED),
        ended_at(target).alias(_ENDED),
        _kept_start(target)[1].alias(_HAS_KEPT_START),
        _kept_end(target)[1].alias(_HAS_KEPT_END),
    ]


@built_once
def _flat_and_exploded(target: CdcTarget) -> tuple[list[Column], list[Column]]:
    """A row's columns as its events need them, and those of each of its events."""
    hidden, started, ended, newest = column(HIDDEN_COLUMN), column(_STARTED), column(_ENDED), _newest_point(target)
    is_deleted = F.coalesce(hidden.getField(DELETED) & column(_HAS_KEPT_END), F.expr("false"))
    old = old_row(
        target,
        started=started,
        ended=ended,
        deleted=is_deleted,
        content=F.when(column(_HAS_KEPT_START) & column(_HAS_KEPT_END), hidden.getField(CONTENT)),
        authors=hidden.getField(AUTHORS) if target.is_authored else None,
        place=column(PLACE),
    )
    kinds = F.array(
        F.lit(_LAST),
        F.when(started != newest, F.lit(_FIRST)),
        F.when(is_deleted, F.lit(_DELETED)).when(ended > started, F.lit(_END)),
    )
    told = {
        _NEWEST: row_order(hidden, target.hidden_type),
        _POINT: newest,
        _CONTENT: F.coalesce(hidden.getField(CONTENT), fingerprint(target.value_fields)).cast("bigint"),
        _IS_BY_HAND: hidden.isNull(),
        OLD: old,
        _KINDS: kinds,
    }
    flat = [
        *map(column, (*target.keys, _STARTED, _ENDED)),
        *_flat_values(target),
        *(value.alias(name) for name, value in told.items()),
    ]
    return flat, [*map(column, (*target.keys, *value_names(target))), *_exploded(target)]


def _newest_point(target: CdcTarget) -> Column:
    """The point of a row's newest event; the row's start, if that event lies outside of what the row shows."""
    hidden, started, ended = column(HIDDEN_COLUMN), column(_STARTED), column(_ENDED)
    point = row_point(hidden, target.hidden_type)
    lies_within = hidden.isNotNull() & (point >= started) & F.coalesce(point < ended, F.expr("true"))
    return F.when(lies_within, point).otherwise(started)


def _flat_values(target: CdcTarget) -> list[Column]:
    if target.is_authored:
        return aliased([*value_names(target), *author_names(target)], flat_row(target))
    return list(map(column, value_names(target)))


def _exploded(target: CdcTarget) -> list[Column]:
    """The columns of one event of a row, but for its keys and values."""
    kind = column(_KIND)
    is_last, is_upsert = kind == F.lit(_LAST), kind.isin(_LAST, _FIRST)
    newest, started, ended = column(_POINT), column(_STARTED), column(_ENDED)
    parts = []
    for name in target.point_type.names:
        part = F.when(is_last, newest.getField(name)).when(is_upsert, started.getField(name))
        parts.append(part.otherwise(ended.getField(name)).alias(name))
    order = F.struct(*parts, F.when(is_upsert, column(_CONTENT)).alias(CONTENT))
    operation = F.when(kind == F.lit(_DELETED), F.lit(DELETE)).when(kind == F.lit(_END), F.lit(END))
    wrote = _wrote(target, is_last) if target.is_authored else []
    return [
        *aliased(wrote_names(target), wrote),
        order.alias(ORDER),
        operation.otherwise(F.lit(UPSERT)).alias(OPERATION),
        F.when(kind == F.lit(_FIRST), F.lit(SUPPOSED)).otherwise(F.lit(SHOWN)).alias(ORIGIN),
        F.when(is_last, column(OLD)).alias(OLD),
    ]


def _wrote(target: CdcTarget, is_last: Column) -> list[Column]:
    """Which leaves an event of a row wrote: the newest those that it is the author of, others all with a value.

    A row by hand is one event, which wrote all leaves.
    """
    flags = []
    for author, value in zip(author_names(target), value_names(target), strict=True):
        is_own = column(_IS_BY_HAND) | F.coalesce(column(author) == column(_NEWEST), F.expr("false"))
        flags.append(F.when(is_last, is_own).otherwise(column(value).isNotNull()))
    return flags


def remembered_events(companion: DataFrame, target: CdcTarget) -> DataFrame:
    """The events that the companion holds, in the target's present shape."""
    return companion.select(*_remembered(target, companion.schema))


@built_once
def _remembered(target: CdcTarget, schema: StructType) -> list[Column]:
    """The columns of an event in the target's present shape, from a row of the companion."""
    hidden_type = struct_of(schema, HIDDEN_COLUMN)
    hidden = column(HIDDEN_COLUMN)
    told = order_of(hidden, hidden_type)
    present = {name: told.getField(name) for name in target.order_type.names if name in hidden_type.names}
    order = [present.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.order_type.fields]
    return [
        *map(column, target.keys),
        *aliased([*value_names(target), *wrote_names(target)], _remembered_values(target, schema)),
        F.struct(*order).alias(ORDER),
        hidden.getField(OPERATION_KIND).alias(OPERATION),
        F.lit(REMEMBERED).alias(ORIGIN),
        F.lit(None).cast(old_type(target)).alias(OLD),
    ]


def _remembered_values(target: CdcTarget, schema: StructType) -> list[Column]:
    """The values of a remembered event, then which leaves it wrote.

    An event that was remembered before leaves had authors wrote its values.
    """
    stored, event = struct_of(schema, EVENT_COLUMN), column(EVENT_COLUMN)
    row, rows = event.getField("row"), struct_of(stored, "row") if "row" in stored.names else StructType([])
    if not target.is_authored:
        whole = [Leaf(path=(field.name,), data_type=field.dataType) for field in target.value_fields]
        return [take_leaf(leaf, rows, row.getField) for leaf in whole]
    kept = event.getField("authored") if "authored" in stored.names else None
    flags = struct_of(stored, "authored").names if kept is not None else []
    values = [take_leaf(leaf, rows, row.getField) for leaf in target.leaves]
    wrote = []
    for leaf, value in zip(target.leaves, values, strict=True):
        told = [kept.getField(leaf.name)] if kept is not None and leaf.name in flags else []
        wrote.append(F.coalesce(*told, value.isNotNull()))
    return [*values, *wrote]
