"""History: applies the events of an earlier copy of a target to the rebuilt target.

A target and its auxiliary table represent a set of events, and the target's rows are a function of this set. So the
events of the copy and of the rebuilt target together yield the target that complete sources would have produced. If
both have an event, the rebuilt target's version is used, because the code may have changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.analysis.compatibility import can_hold, stored_kind
from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.apply import apply_events
from framework.cdc.delta.destination import Destination
from framework.cdc.events.leaf_columns import aliased, author_names, event_names, flat_row, value_names, wrote_names
from framework.cdc.events.normalize import DELETE, OPERATION, ORDER, TRUNCATE, UPSERT
from framework.cdc.model.columns import align_column, column, match_field, struct_of
from framework.cdc.model.equality import fingerprint
from framework.cdc.model.event_order import order_of, point_of, row_order
from framework.cdc.model.reserved_names import CONTENT, HIDDEN_COLUMN, ONCE, OPERATION_KIND, SEQUENCE
from framework.cdc.model.sequence_types import common_sequence
from framework.cdc.scd2.known_events import END, INFERRED, ORIGIN, auxiliary_events, target_events
from framework.engine.delta.deletion_vectors import LOCATION, LOCATION_TYPE
from framework.engine.sessions.execution import computed_once
from framework.schema.data_types import plain_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_LEFT, _RIGHT = "__sluice_copy", "__sluice_rebuilt"
_EVENT = "__sluice_event"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTarget:
    """The rows of a target's table, and of its auxiliary table; None if there is none."""

    rows: DataFrame
    auxiliary: DataFrame | None


def history_difference(stored: StructType, target: CdcTarget) -> str | None:
    """Return, as a clause, why events of a stored table are invalid for a target; None if they are valid."""
    kind = stored_kind(stored)
    if not kind:
        return "AUTO CDC did not write it"
    if {key.lower() for key in kind["keys"]} != {key.lower() for key in target.keys}:
        return f"its keys are {', '.join(kind['keys'])}, and now {', '.join(target.keys)}"
    if kind["scd_type"] != target.scd_type:
        return f"it has SCD type {kind['scd_type']}, and now {target.scd_type}"
    before, now = match_field(struct_of(stored, HIDDEN_COLUMN), SEQUENCE), target.sequence_type
    if before is not None and (
        now is None or common_sequence(plain_type(now), plain_type(before.dataType)) != plain_type(now)
    ):
        return f"its sequence has the type {before.dataType.simpleString()}, and now {_text(now)}"
    return column_difference(stored, target.row_schema)


def column_difference(stored: StructType, wanted: StructType) -> str | None:
    """Return, as a clause, why rows of a stored table don't fit a table with these columns; None if they fit."""
    for field in wanted.fields:
        before = match_field(stored, field.name)
        if before is not None and not can_hold(field.dataType, before.dataType):
            types = f"{before.dataType.simpleString()}, and now {field.dataType.simpleString()}"
            return f"its column {field.name} has the type {types}"
    return None


def put_back(
    copy: StoredTarget,
    rebuilt: StoredTarget,
    destination: Destination,
    *,
    withheld: DataFrame | None,
    found: Callable[[int], None],
) -> None:
    """Apply the events of a copy that the rebuilt target lacks; idempotent.

    Args:
        copy: the earlier state of the target.
        rebuilt: the current state of the destination's tables.
        destination: the target and its tables; its application takes these events once, as batch 0.
        withheld: events that are not restored, with keys, `ORDER` and `OPERATION`; None if there are none.
        found: called with the number of upserts among the events, before any is applied.
    """
    target = destination.target
    with computed_once(lost_events(copy, rebuilt, target, withheld)) as lost:
        upserts = lost.where(column(OPERATION) == F.lit(UPSERT)).count()
        found(upserts)
        if not lost.isEmpty():
            apply_events(lost, destination, 0)


def lost_events(copy: StoredTarget, rebuilt: StoredTarget, target: CdcTarget, withheld: DataFrame | None) -> DataFrame:
    """Return the events of a copy that the rebuilt target lacks, in the shape of `read_events`.

    Events of the copy at the point of a withheld event are omitted.
    """
    read = _keyed_events if target.scd_type == 1 else _historic_events
    old, new = read(copy, target), read(rebuilt, target)
    if withheld is not None:
        old = _without(old, withheld, target, _same_point(target))
    known = new.where(_is_certain(target))
    lost = _without(old, known, target, _same_event(target))
    if target.scd_type == 2:
        # An event that a row of the copy only implies counts if no other event is known there.
        is_certain, is_same = _is_certain(target), _same_point(target)
        implied = _without(lost.where(~is_certain), old.where(is_certain), target, is_same)
        lost = lost.where(is_certain).unionByName(_without(implied, known, target, is_same))
    elif not target.is_authored:
        lost = _without(lost, known, target, _void(target))
    return lost.select(*map(column, event_names(target)), column(ORDER), column(OPERATION))


def _is_certain(target: CdcTarget) -> Column:
    if target.scd_type == 1:
        return F.expr("true")
    return (column(ORIGIN) > F.lit(INFERRED)) & (column(OPERATION) != F.lit(END))


def _without(events: DataFrame, others: DataFrame, target: CdcTarget, condition: Column) -> DataFrame:
    """Return the events for which none of `others` with the same key meets the condition."""
    event = F.struct(column(ORDER), column(OPERATION)).alias(_EVENT)
    compared = others.select(*map(column, target.keys), event)
    same = [column(key, of=_LEFT) == column(key, of=_RIGHT) for key in target.keys]
    for each in same:
        condition = each & condition
    return events.alias(_LEFT).join(compared.alias(_RIGHT), condition, "left_anti")


def _points(target: CdcTarget) -> tuple[Column, Column]:
    ours = column(ORDER, of=_LEFT)
    theirs = column(_EVENT, of=_RIGHT).getField(ORDER)
    return point_of(ours, target.order_type), point_of(theirs, target.order_type)


def _same_point(target: CdcTarget) -> Column:
    ours, theirs = _points(target)
    return ours == theirs


def _same_event(target: CdcTarget) -> Column:
    return _same_point(target) & (column(OPERATION, of=_LEFT) == column(_EVENT, of=_RIGHT).getField(OPERATION))


def _void(target: CdcTarget) -> Column:
    """Return whether a newer upsert or a delete of the key makes an upsert void, so that it is not applied.

    If deleted rows stay, a delete makes no upsert void, because the undone upsert is the row that stays.
    """
    ours, theirs = _points(target)
    other = column(_EVENT, of=_RIGHT).getField(OPERATION)
    is_deleted = ours < theirs if target.deletes_first else ours <= theirs
    is_void = (other == F.lit(UPSERT)) & (ours < theirs)
    if target.flag is None:
        is_void = is_void | ((other == F.lit(DELETE)) & is_deleted)
    return (column(OPERATION, of=_LEFT) == F.lit(UPSERT)) & is_void


def _keyed_events(stored: StoredTarget, target: CdcTarget) -> DataFrame:
    """Return the events of an SCD type 1 target: the newest per row or per leaf, and the recorded deletes."""
    rows = _aligned(stored.rows, target)
    events = _authored_events(rows, target) if target.is_authored else _row_events(rows, target)
    if stored.auxiliary is None:
        return events
    return events.unionByName(_deletes(stored.auxiliary, target))


def _aligned(rows: DataFrame, target: CdcTarget) -> DataFrame:
    """Return rows of an earlier table in the target's schema; rows not written by AUTO CDC precede all events."""
    fields = target.table_schema.fields
    aligned = rows.select(*(_taken(rows.schema, field.name, field.dataType).alias(field.name) for field in fields))
    if target.scd_type == 2:  # which has events for such rows
        return aligned
    before_all = {ONCE: F.lit(float("-inf")), CONTENT: fingerprint(target.value_fields)}
    parts = [before_all.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.hidden_type.fields]
    return aligned.withColumn(HIDDEN_COLUMN, F.coalesce(column(HIDDEN_COLUMN), F.struct(*parts)))


def _taken(schema: StructType, name: str, data_type: DataType) -> Column:
    field = match_field(schema, name)
    return F.lit(None).cast(data_type) if field is None else align_column(column(field.name), field.dataType, data_type)


def _row_events(rows: DataFrame, target: CdcTarget) -> DataFrame:
    order = row_order(column(HIDDEN_COLUMN), target.hidden_type).cast(target.order_type)
    return rows.select(*map(column, event_names(target)), order.alias(ORDER), F.lit(UPSERT).alias(OPERATION))


def _authored_events(rows: DataFrame, target: CdcTarget) -> DataFrame:
    """Return one event per author of a row, with the leaves that the author wrote."""
    names, authors = value_names(target), author_names(target)
    order = row_order(column(HIDDEN_COLUMN), target.hidden_type).cast(target.order_type)
    flat = rows.select(*map(column, target.keys), *aliased([*names, *authors], flat_row(target)), order.alias(ORDER))
    orders = F.array_distinct(F.array_compact(F.array(column(ORDER), *map(column, authors))))
    events = flat.withColumn(ORDER, F.explode(orders))
    wrote = [F.coalesce(column(author) == column(ORDER), F.expr("false")) for author in authors]
    return events.select(
        *map(column, (*target.keys, *names)),
        *aliased(wrote_names(target), wrote),
        column(ORDER),
        F.lit(UPSERT).alias(OPERATION),
    )


def _deletes(auxiliary: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the deletes and truncates that an auxiliary table of SCD type 1 records."""
    hidden, hidden_type = column(HIDDEN_COLUMN), struct_of(auxiliary.schema, HIDDEN_COLUMN)
    stored = order_of(hidden, hidden_type)
    present = {name: stored.getField(name) for name in target.order_type.names if name in hidden_type.names}
    order = [present.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.order_type.fields]
    keys = [_taken(auxiliary.schema, key, target.table_schema[key].dataType).alias(key) for key in target.keys]
    if target.is_authored:
        values = [F.lit(None).cast(leaf.data_type) for leaf in target.leaves]
    else:
        values = [F.lit(None).cast(field.dataType) for field in target.value_fields]
    return auxiliary.select(
        *keys,
        *aliased(value_names(target), values),
        *aliased(wrote_names(target), [F.expr("false")] * len(wrote_names(target))),
        F.struct(*order).alias(ORDER),
        hidden.getField(OPERATION_KIND).alias(OPERATION),
    )


def _historic_events(stored: StoredTarget, target: CdcTarget) -> DataFrame:
    """Return the events of an SCD type 2 target, with their `ORIGIN`."""
    rows = _aligned(stored.rows, target).withColumn(LOCATION, F.lit(None).cast(LOCATION_TYPE))
    names = [*event_names(target), ORDER, OPERATION, ORIGIN]
    events = target_events(rows, target).select(*map(column, names))
    if stored.auxiliary is None:
        return events
    return events.unionByName(auxiliary_events(stored.auxiliary, target).select(*map(column, names)))


def has_truncates(copy: StoredTarget) -> bool:
    """Return whether a copy of a target records a truncate."""
    if copy.auxiliary is None:
        return False
    kind = column(HIDDEN_COLUMN).getField(OPERATION_KIND)
    return not copy.auxiliary.where(kind == F.lit(TRUNCATE)).isEmpty()


def _text(data_type: DataType | None) -> str:
    return "none" if data_type is None else data_type.simpleString()
