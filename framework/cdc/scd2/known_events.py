"""The known events of keys, reconstructed from the rows of the target and of its auxiliary table.

The rows of an SCD type 2 target and of its auxiliary table together represent a set of events. A row
of the target represents the newest event of its run, and the delete that ended the run, if any. The auxiliary table
holds all other events. An event that both tables represent counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

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
from framework.cdc.scd2.displayed_sequence import displays, point_at
from framework.engine.delta.deletion_vectors import LOCATION, LOCATION_TYPE
from framework.engine.jvm.java import built_once

if TYPE_CHECKING:
    from framework.cdc.analysis.target_schema import CdcTarget

ORIGIN = "__sluice_origin"
"""The origin of an event: one of the four constants below, in ascending order of certainty."""

INFERRED, FROM_AUXILIARY, FROM_TARGET, FROM_BATCH = 0, 1, 2, 3

END = "end"
"""The operation of an event that ends a row at its `__END_AT`; any other event at that point overrides it."""

OLD = "__sluice_old"
"""On the newest event of a target row: the row's interval, content, authors and location."""

EVENT_COLUMN = f"{HIDDEN_COLUMN}_event"

_STARTED, _ENDED = "__sluice_row_started", "__sluice_row_ended"
_HAS_KEPT_START, _HAS_KEPT_END = "__sluice_has_kept_start", "__sluice_has_kept_end"
_NEWEST = "__sluice_newest"
_POINT = "__sluice_newest_point"
_CONTENT = "__sluice_content"
_IS_MANUAL = "__sluice_is_manual"

_KINDS = "__sluice_kinds"
_KIND = "__sluice_kind"
_LAST, _FIRST, _DELETED, _END = 1, 2, 3, 4
"""Kinds of a row's events: newest event, first event of its run, delete that ended it, end without a delete."""


def batch_events(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the events of a batch with `ORIGIN` and `OLD`."""
    return events.select("*", *_from_batch(target))


@built_once
def _from_batch(target: CdcTarget) -> list[Column]:
    return [F.lit(FROM_BATCH).alias(ORIGIN), F.lit(None).cast(old_type(target)).alias(OLD)]


def old_type(target: CdcTarget) -> StructType:
    """Return the type of `OLD`."""
    point = target.point_type
    fields = [StructField("started", point), StructField("ended", point), StructField("deleted", BooleanType())]
    authors = [target.hidden_type[AUTHORS]] if target.is_authored else []
    return StructType([*fields, StructField(CONTENT, LongType()), *authors, StructField(LOCATION, LOCATION_TYPE)])


def old_row(
    target: CdcTarget,
    *,
    started: Column,
    ended: Column,
    deleted: Column,
    content: Column,
    authors: Column | None,
    location: Column,
) -> Column:
    """Build the `OLD` of a target row: the state that the row depends on besides its newest event."""
    kept = [] if authors is None else [authors.alias(AUTHORS)]
    parts = (started.alias("started"), ended.alias("ended"), deleted.alias("deleted"), content.alias(CONTENT))
    return F.struct(*parts, *kept, location.alias(LOCATION)).cast(old_type(target))


def started_at(target: CdcTarget, *, of: str | None = None) -> Column:
    """Return the start point of a target row: as AUTO CDC wrote it, unless `__START_AT` displays another point."""
    kept, is_kept = _kept_start(target, of)
    return F.when(is_kept, kept).otherwise(point_at(target, column(START_AT, of=of)))


def ended_at(target: CdcTarget, *, of: str | None = None) -> Column:
    """Return the end point of a target row, NULL while it is open; if `__END_AT` was edited, the displayed point."""
    kept, is_kept = _kept_end(target, of)
    displayed = column(END_AT, of=of)
    return F.when(is_kept, kept).otherwise(F.when(displayed.isNotNull(), point_at(target, displayed)))


def _kept_start(target: CdcTarget, of: str | None = None) -> tuple[Column, Column]:
    """Return the start in the hidden column, and whether `__START_AT` displays it."""
    hidden, hidden_type = column(HIDDEN_COLUMN, of=of), target.hidden_type
    started = point_of(hidden.getField(STARTED), struct_of(hidden_type, STARTED))
    kept = F.coalesce(started, row_point(hidden, hidden_type))
    return kept, hidden.isNotNull() & displays(target, kept, column(START_AT, of=of))


def _kept_end(target: CdcTarget, of: str | None = None) -> tuple[Column, Column]:
    """Return the end in the hidden column, and whether `__END_AT` displays it."""
    hidden = column(HIDDEN_COLUMN, of=of)
    kept = point_of(hidden.getField(ENDED), struct_of(target.hidden_type, ENDED))
    return kept, hidden.isNotNull() & F.coalesce(displays(target, kept, column(END_AT, of=of)), F.expr("false"))


def target_events(rows: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the events that rows of the target, with their `LOCATION`, represent.

    These are the newest event of the row's run, and the delete that ended it, or else an `END`. The true first event of
    the run may no longer be recorded. So the result also has a supposed upsert with the same values at the row's start,
    which counts only if no other upsert or delete is known at that point.
    """
    flat, events = _flat_and_exploded(target)
    # A separate projection computes the bounds once: Spark does not merge it into a projection that reads them often.
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
    """Return the columns of a flattened row, and the columns of each of its events."""
    hidden, started, ended, newest = column(HIDDEN_COLUMN), column(_STARTED), column(_ENDED), _newest_point(target)
    is_deleted = F.coalesce(hidden.getField(DELETED) & column(_HAS_KEPT_END), F.expr("false"))
    old = old_row(
        target,
        started=started,
        ended=ended,
        deleted=is_deleted,
        content=F.when(column(_HAS_KEPT_START) & column(_HAS_KEPT_END), hidden.getField(CONTENT)),
        authors=hidden.getField(AUTHORS) if target.is_authored else None,
        location=column(LOCATION),
    )
    kinds = F.array(
        F.lit(_LAST),
        F.when(started != newest, F.lit(_FIRST)),
        F.when(is_deleted, F.lit(_DELETED)).when(ended > started, F.lit(_END)),
    )
    computed = {
        _NEWEST: row_order(hidden, target.hidden_type),
        _POINT: newest,
        _CONTENT: F.coalesce(hidden.getField(CONTENT), fingerprint(target.value_fields)).cast("bigint"),
        _IS_MANUAL: hidden.isNull(),
        OLD: old,
        _KINDS: kinds,
    }
    flat = [
        *map(column, (*target.keys, _STARTED, _ENDED)),
        *_flat_values(target),
        *(value.alias(name) for name, value in computed.items()),
    ]
    return flat, [*map(column, (*target.keys, *value_names(target))), *_exploded(target)]


def _newest_point(target: CdcTarget) -> Column:
    """Return the point of a row's newest event, or the row's start if the event is outside the displayed interval."""
    hidden, started, ended = column(HIDDEN_COLUMN), column(_STARTED), column(_ENDED)
    point = row_point(hidden, target.hidden_type)
    lies_within = hidden.isNotNull() & (point >= started) & F.coalesce(point < ended, F.expr("true"))
    return F.when(lies_within, point).otherwise(started)


def _flat_values(target: CdcTarget) -> list[Column]:
    if target.is_authored:
        return aliased([*value_names(target), *author_names(target)], flat_row(target))
    return list(map(column, value_names(target)))


def _exploded(target: CdcTarget) -> list[Column]:
    """Return the columns of one event of a row, without its keys and values."""
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
        F.when(kind == F.lit(_FIRST), F.lit(INFERRED)).otherwise(F.lit(FROM_TARGET)).alias(ORIGIN),
        F.when(is_last, column(OLD)).alias(OLD),
    ]


def _wrote(target: CdcTarget, is_last: Column) -> list[Column]:
    """Return which leaves an event of a row wrote.

    The newest event wrote the leaves that it authored. Any other event wrote all leaves with a value. A manually
    inserted row is one event that wrote all leaves.
    """
    flags = []
    for author, value in zip(author_names(target), value_names(target), strict=True):
        is_own = column(_IS_MANUAL) | F.coalesce(column(author) == column(_NEWEST), F.expr("false"))
        flags.append(F.when(is_last, is_own).otherwise(column(value).isNotNull()))
    return flags


def auxiliary_events(auxiliary: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the recorded events of the auxiliary table, in the target's current schema."""
    return auxiliary.select(*_from_auxiliary(target, auxiliary.schema))


@built_once
def _from_auxiliary(target: CdcTarget, schema: StructType) -> list[Column]:
    """Return the columns of an event in the target's current schema, from a row of the auxiliary table."""
    hidden_type = struct_of(schema, HIDDEN_COLUMN)
    hidden = column(HIDDEN_COLUMN)
    stored = order_of(hidden, hidden_type)
    present = {name: stored.getField(name) for name in target.order_type.names if name in hidden_type.names}
    order = [present.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.order_type.fields]
    return [
        *map(column, target.keys),
        *aliased([*value_names(target), *wrote_names(target)], _auxiliary_values(target, schema)),
        F.struct(*order).alias(ORDER),
        hidden.getField(OPERATION_KIND).alias(OPERATION),
        F.lit(FROM_AUXILIARY).alias(ORIGIN),
        F.lit(None).cast(old_type(target)).alias(OLD),
    ]


def _auxiliary_values(target: CdcTarget, schema: StructType) -> list[Column]:
    """Return the values of a recorded event, then which leaves it wrote.

    An event that was recorded before the target had authors counts as the writer of all leaves with a value.
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
        flag = [kept.getField(leaf.name)] if kept is not None and leaf.name in flags else []
        wrote.append(F.coalesce(*flag, value.isNotNull()))
    return [*values, *wrote]
