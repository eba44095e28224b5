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
from framework.cdc.columns import align_column, column, struct_of
from framework.cdc.events import AUTHORED, DELETE, OPERATION, ORDER, UPSERT
from framework.cdc.expressions import built_once
from framework.cdc.order import order_of, point_of, row_order, row_point
from framework.cdc.reserved import AUTHORS, CONTENT, DELETED, ENDED, HIDDEN_COLUMN, OPERATION_KIND, STARTED
from framework.cdc.transaction import PLACE, PLACE_TYPE

if TYPE_CHECKING:
    from framework.cdc.target import CdcTarget

ORIGIN = "__sluice_origin"
"""Where an event is known from: one of the four below, the surer the higher."""

SUPPOSED, REMEMBERED, SHOWN, NEW = 0, 1, 2, 3

OLD = "__sluice_old"
"""On the newest event of a row of the target: that row's interval, content, authors and place."""

EVENT_COLUMN = f"{HIDDEN_COLUMN}_event"

_ONE = "__sluice_one"


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
    """The point at which a row of the target begins; one that AUTO CDC did not write begins before everything."""
    hidden, hidden_type = column(HIDDEN_COLUMN, of=of), target.hidden_type
    told = point_of(hidden.getField(STARTED), struct_of(hidden_type, STARTED))
    return F.coalesce(told, row_point(hidden, hidden_type))


def ended_at(target: CdcTarget) -> Column:
    """The point at which a row of the target ends; null while it is open."""
    return point_of(column(HIDDEN_COLUMN).getField(ENDED), struct_of(target.hidden_type, ENDED))


def shown_events(rows: DataFrame, target: CdcTarget) -> DataFrame:
    """The events that rows of the target, with their `PLACE`, tell of.

    The newest event of the row's run; the delete that ended it; and, in case its true first event is
    remembered no more, one at its start with the same values, which counts where no other is known.
    """
    known, events = _told_by_row(target)
    return (
        rows.select(*known, F.explode(events).alias(_ONE)).where(column(_ONE).isNotNull()).select(*known, f"{_ONE}.*")
    )


@built_once
def _told_by_row(target: CdcTarget) -> tuple[list[Column], Column]:
    """The columns that all events of a row have, and an array of its events, some of them null."""
    hidden, hidden_type = column(HIDDEN_COLUMN), target.hidden_type
    newest, started, ended = row_order(hidden, hidden_type), started_at(target), ended_at(target)
    is_deleted = F.coalesce(hidden.getField(DELETED), F.expr("false"))
    old = old_row(
        target,
        started=started,
        ended=ended,
        deleted=is_deleted,
        content=hidden.getField(CONTENT),
        authors=hidden.getField(AUTHORS) if target.is_authored else None,
        place=column(PLACE),
    )
    values = [leaf.of() for leaf in target.leaves] if target.is_authored else []
    authors = kept_authors(hidden, hidden_type, target.leaves, values) if values else []
    own = [author == newest for author in authors]
    some = [value.isNotNull() for value in values]
    first = _event(target, started, hidden.getField(CONTENT), SUPPOSED, authored=some)
    last = _event(target, newest, hidden.getField(CONTENT), SHOWN, authored=own, old=old)
    end = _event(target, ended, F.lit(None), SHOWN, authored=some, operation=DELETE)
    has_first = started != row_point(hidden, hidden_type)
    events = F.array(last, F.when(has_first, first), F.when(is_deleted, end))
    return [column(name) for name in target.row_schema.fieldNames()], events


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
