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

from framework.cdc.authorship import kept_authors
from framework.cdc.columns import align_column, column, fingerprint, struct_of
from framework.cdc.events import AUTHORED, DELETE, OPERATION, ORDER, UPSERT
from framework.cdc.expressions import built_once
from framework.cdc.order import order_of, point_of, row_order, row_point
from framework.cdc.reserved import (
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
from framework.cdc.shown import point_at, shows
from framework.cdc.transaction import PLACE, PLACE_TYPE

if TYPE_CHECKING:
    from framework.cdc.target import CdcTarget

ORIGIN = "__sluice_origin"
"""Where an event is known from: one of the four below, the surer the higher."""

SUPPOSED, REMEMBERED, SHOWN, NEW = 0, 1, 2, 3

END = "end"
"""The operation of an event that ends a row where nothing else is known at its point: what `__END_AT` says."""

OLD = "__sluice_old"
"""On the newest event of a row of the target: that row's interval, content, authors and place."""

EVENT_COLUMN = f"{HIDDEN_COLUMN}_event"

_ONE = "__sluice_one"
_STARTED, _ENDED = "__sluice_row_started", "__sluice_row_ended"
_HAS_KEPT_START, _HAS_KEPT_END = "__sluice_has_kept_start", "__sluice_has_kept_end"


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
    is remembered no more, one at its start with the same values, which counts where no other is known.
    """
    known, events = _events_of_row(target)
    # In a projection of their own, bounds are computed once: Spark does not merge it with one that reads them often.
    bounded = rows.select("*", *_bounds_of_row(target))
    exploded = bounded.select(*known, F.explode(events).alias(_ONE)).where(column(_ONE).isNotNull())
    return exploded.select(*known, f"{_ONE}.*")


@built_once
def _bounds_of_row(target: CdcTarget) -> list[Column]:
    return [
        started_at(target).alias(_STARTED),
        ended_at(target).alias(_ENDED),
        _kept_start(target)[1].alias(_HAS_KEPT_START),
        _kept_end(target)[1].alias(_HAS_KEPT_END),
    ]


@built_once
def _events_of_row(target: CdcTarget) -> tuple[list[Column], Column]:
    """The columns that all events of a row have, and an array of its events, some of them null."""
    hidden, started, ended, newest = column(HIDDEN_COLUMN), column(_STARTED), column(_ENDED), _newest_point(target)
    is_deleted = F.coalesce(hidden.getField(DELETED) & column(_HAS_KEPT_END), F.expr("false"))
    content, none = F.coalesce(hidden.getField(CONTENT), fingerprint(target.value_fields)), F.lit(None)
    old = old_row(
        target,
        started=started,
        ended=ended,
        deleted=is_deleted,
        content=F.when(column(_HAS_KEPT_START) & column(_HAS_KEPT_END), hidden.getField(CONTENT)),
        authors=hidden.getField(AUTHORS) if target.is_authored else None,
        place=column(PLACE),
    )
    some, own = _authorship(target)
    first = _event(target, started, content, SUPPOSED, authored=some)
    last = _event(target, newest, content, SHOWN, authored=own, old=old)
    delete = _event(target, ended, none, SHOWN, authored=some, operation=DELETE)
    end = _event(target, ended, none, SHOWN, authored=some, operation=END)
    ends = F.when(is_deleted, delete).when(ended > started, end)
    events = F.array(last, F.when(started != newest, first), ends)
    return [column(name) for name in target.row_schema.fieldNames()], events


def _newest_point(target: CdcTarget) -> Column:
    """The point of a row's newest event; the row's start, if that event lies outside of what the row shows."""
    hidden, started, ended = column(HIDDEN_COLUMN), column(_STARTED), column(_ENDED)
    point = row_point(hidden, target.hidden_type)
    lies_within = hidden.isNotNull() & (point >= started) & F.coalesce(point < ended, F.expr("true"))
    return F.when(lies_within, point).otherwise(started)


def _authorship(target: CdcTarget) -> tuple[list[Column], list[Column]]:
    """Per leaf of a row whether it has a value, and whether the newest event wrote it; a row by hand wrote all."""
    if not target.is_authored:
        return [], []
    hidden, hidden_type = column(HIDDEN_COLUMN), target.hidden_type
    values = [leaf.of() for leaf in target.leaves]
    authors, newest = kept_authors(hidden, hidden_type, target.leaves, values), row_order(hidden, hidden_type)
    return [value.isNotNull() for value in values], [hidden.isNull() | (author == newest) for author in authors]


def _event(
    target: CdcTarget,
    point: Column,
    content: Column,
    origin: int,
    *,
    authored: list[Column],
    operation: str = UPSERT,
    old: Column | None = None,
) -> Column:
    parts = [point.getField(name).alias(name) for name in target.point_type.names]
    order = F.struct(*parts, content.cast("bigint").alias(CONTENT))
    told = zip(authored, target.leaves if target.is_authored else (), strict=True)
    flags = [F.coalesce(wrote, F.expr("false")).alias(leaf.name) for wrote, leaf in told]
    return F.struct(
        *([F.struct(*flags).alias(AUTHORED)] if target.is_authored else []),
        order.alias(ORDER),
        F.lit(operation).alias(OPERATION),
        F.lit(origin).alias(ORIGIN),
        (F.lit(None) if old is None else old).cast(old_type(target)).alias(OLD),
    )


def remembered_events(companion: DataFrame, target: CdcTarget) -> DataFrame:
    """The events that the companion holds, in the target's present shape."""
    event, remembered = _remembered(target, companion.schema)
    return companion.withColumn(EVENT_COLUMN, event).select(*remembered)


@built_once
def _remembered(target: CdcTarget, schema: StructType) -> tuple[Column, list[Column]]:
    """A companion's event in the target's present shape, and the columns that are taken from it."""
    hidden_type = struct_of(schema, HIDDEN_COLUMN)
    hidden = column(HIDDEN_COLUMN)
    told = order_of(hidden, hidden_type)
    present = {name: told.getField(name) for name in target.order_type.names if name in hidden_type.names}
    order = [present.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.order_type.fields]
    wanted = struct_of(target.companion_schema, EVENT_COLUMN)
    event = align_column(column(EVENT_COLUMN), struct_of(schema, EVENT_COLUMN), wanted)
    row = column(EVENT_COLUMN).getField("row")
    authored = [_remembered_authorship(target).alias(AUTHORED)] if target.is_authored else []
    return event, [
        *(column(key) for key in target.keys),
        *(row.getField(field.name).alias(field.name) for field in target.value_fields),
        *authored,
        F.struct(*order).alias(ORDER),
        hidden.getField(OPERATION_KIND).alias(OPERATION),
        F.lit(REMEMBERED).alias(ORIGIN),
        F.lit(None).cast(old_type(target)).alias(OLD),
    ]


def _remembered_authorship(target: CdcTarget) -> Column:
    """Which leaves a remembered event wrote; one that was remembered before leaves had authors wrote its values."""
    kept, row = column(EVENT_COLUMN).getField("authored"), column(EVENT_COLUMN).getField("row")
    flags = []
    for leaf in target.leaves:
        value = row
        for part in leaf.path:
            value = value.getField(part)
        told = F.coalesce(kept.getField(leaf.name), value.isNotNull(), F.expr("false"))
        flags.append(told.alias(leaf.name))
    return F.struct(*flags)
