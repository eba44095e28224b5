"""SCD type 2: merge of a batch's events into the histories of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.cdc.delta.auxiliary_table import record_of
from framework.cdc.delta.target_write import CHANGE, INSERTED, REMOVED, SOURCE, TARGET, broadcast_if_small, same_key
from framework.cdc.events.batch_validation import BatchCounts
from framework.cdc.events.key_bounds import key_range
from framework.cdc.events.leaf_columns import aliased, wrote_names
from framework.cdc.events.normalize import OPERATION, ORDER, UPSERT
from framework.cdc.model.columns import column
from framework.cdc.model.event_order import point_of
from framework.cdc.model.reserved_names import (
    AUTHORS,
    CONTENT,
    DELETED,
    END_AT,
    ENDED,
    HIDDEN_COLUMN,
    START_AT,
    STARTED,
)
from framework.cdc.scd2.displayed_sequence import displayed_point
from framework.cdc.scd2.intervals import (
    ENDS,
    ENDS_BY_DELETE,
    IS_DUPLICATE,
    IS_ROW,
    IS_UNRECORDED,
    STARTS,
    compute_intervals,
)
from framework.cdc.scd2.known_events import (
    EVENT_COLUMN,
    OLD,
    auxiliary_events,
    batch_events,
    ended_at,
    old_row,
    started_at,
    target_events,
)
from framework.cdc.scd2.timeline import FINGERPRINT, LEAF_AUTHORS, POINT, WRITTEN, key_columns
from framework.engine.delta.deletion_vectors import LOCATION
from framework.engine.jvm.java import built_once

if TYPE_CHECKING:
    from framework.cdc.analysis.target_schema import CdcTarget

_FROM = "__sluice_from"
_IS_ADDED = "__sluice_is_added"
_ROW = "__sluice_row"


def affected_rows(events: DataFrame, rows: DataFrame, target: CdcTarget, counts: BatchCounts) -> DataFrame:
    """Return the rows of the target that a batch may change.

    Args:
        events: the events of the batch.
        rows: rows of the target with their `LOCATION`; at least the rows of the batch's keys.
        target: the target.
        counts: the counts of the batch.
    """
    _, is_touched = _affected(target)
    return rows.join(_first_points(events, target, counts), list(target.keys)).where(is_touched)


def _first_points(events: DataFrame, target: CdcTarget, counts: BatchCounts) -> DataFrame:
    earliest, _ = _affected(target)
    return broadcast_if_small(events.groupBy(*key_columns(target)).agg(earliest), counts.rows)


def compute_history(
    events: DataFrame, touched: DataFrame, auxiliary: DataFrame | None, target: CdcTarget, counts: BatchCounts
) -> DataFrame:
    """Compute the histories of a batch's keys after the batch.

    Args:
        events: the events of the batch.
        touched: the target's rows that the batch may change.
        auxiliary: the rows of the auxiliary table; None if it does not exist.
        target: the target.
        counts: the counts of the batch.

    Returns:
        The result of `compute_intervals`, over the part of each history that the batch may change.
    """
    known = batch_events(events, target).unionByName(target_events(touched, target))
    if auxiliary is not None:
        keys = _first_points(events, target, counts)
        recorded = auxiliary.where(key_range(counts.ranges)).join(keys, list(target.keys), "left_semi")
        known = known.unionByName(auxiliary_events(recorded, target))
    return compute_intervals(known, target)


@built_once
def _affected(target: CdcTarget) -> tuple[Column, Column]:
    """Return a key's first point in a batch, and whether events from this point on may change a row of the key.

    A manually inserted row may overlap other rows, so any event of its key turns it into a row of AUTO CDC.
    """
    earliest = F.min(point_of(column(ORDER), target.order_type)).alias(_FROM)
    if target.is_authored:  # a newer row may carry over leaves of any older row
        return earliest, F.expr("true")
    ended, is_manual = ended_at(target), column(HIDDEN_COLUMN).isNull()
    return earliest, ended.isNull() | (ended >= column(_FROM)) | is_manual


def open_rows(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the open rows for upserts that are each the only event of their key."""
    return events.select("*", *_alone(target)).select(*_row_columns(target))


@built_once
def _alone(target: CdcTarget) -> list[Column]:
    """Return the bounds of a row with a single event."""
    point = point_of(column(ORDER), target.order_type)
    return [
        *(point.alias(POINT), column(ORDER).getField(CONTENT).alias(FINGERPRINT), point.alias(STARTS)),
        *(F.lit(None).cast(target.point_type).alias(ENDS), F.expr("false").alias(ENDS_BY_DELETE)),
    ]


def unrecorded_events(history: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the events that the target will not represent, as rows of the auxiliary table."""
    return history.where(column(IS_UNRECORDED)).select(*_unrecorded(target))


@built_once
def _unrecorded(target: CdcTarget) -> list[Column]:
    names = [field.name for field in target.value_fields]
    is_upsert = column(OPERATION) == F.lit(UPSERT)
    values = (
        [column(WRITTEN).getField(name).alias(name) for name in names] if target.is_authored else map(column, names)
    )
    event = [F.struct(*values).alias("row")] if names else []
    if target.is_authored:
        flags = aliased([leaf.name for leaf in target.leaves], [column(name) for name in wrote_names(target)])
        event.append(F.struct(*flags).alias("authored"))
    record = record_of(
        target, operation=column(OPERATION), point=column(POINT), content=F.when(is_upsert, column(FINGERPRINT))
    )
    shape = target.auxiliary_schema[EVENT_COLUMN].dataType
    event_or_null = F.when(is_upsert, F.struct(*event)) if event else F.lit(None)
    return [record.alias(HIDDEN_COLUMN), *key_columns(target), event_or_null.cast(shape).alias(EVENT_COLUMN)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCounts:
    """Counts of a history's changes.

    Args:
        unrecorded: events to record in the auxiliary table.
        added: rows to write.
        removed: rows of the target to delete or replace.
        manual: rows of the target that were inserted or edited manually. Manual rows may overlap or begin at the same
            point. So if there are any, all rows that the batch may change are replaced.
    """

    unrecorded: int
    added: int
    removed: int
    manual: int


def count_history(history: DataFrame, target: CdcTarget) -> HistoryCounts:
    """Count a history's changes: one job, which also computes the history."""
    row = history.agg(*_counting(target)).first()
    assert row is not None  # an aggregate without groups has one row
    return HistoryCounts(**row.asDict())


@built_once
def _counting(target: CdcTarget) -> list[Column]:
    is_changed = _is_changed(target)
    is_manual = column(OLD).isNotNull() & column(OLD).getField(CONTENT).isNull()
    return [
        F.count_if(column(IS_UNRECORDED)).alias("unrecorded"),
        F.count_if(is_changed & column(IS_ROW)).alias("added"),
        F.count_if(is_changed & column(OLD).isNotNull()).alias("removed"),
        F.count_if(is_manual | column(IS_DUPLICATE)).alias("manual"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HistoryReplacement:
    """The replacement of the target's rows by the rows of a history; implements `Replacement`.

    Unchanged rows are not written again, unless some rows are manual.

    Args:
        target: the target.
        history: the result of `compute_history`, computed once.
        touched: the target's rows that the batch may change.
        counts: the counts of the history's changes.
        batch: the counts of the batch.
    """

    target: CdcTarget
    history: DataFrame
    touched: DataFrame
    counts: HistoryCounts
    batch: BatchCounts

    @property
    def row_count(self) -> int:
        """The number of the batch's events."""
        return self.batch.rows

    @property
    def removed_rows(self) -> int | None:
        """The number of rows that `removed` returns; None if some are manual."""
        return None if self.counts.manual else self.counts.removed

    @property
    def _changed(self) -> DataFrame:
        return self.history.where(_is_changed(self.target))

    def added(self) -> DataFrame | None:
        """Return the new and changed rows, or all rows if some are manual; None if there are none."""
        if not self.counts.added and not self.counts.manual:
            return None
        entries = self.history if self.counts.manual else self._changed
        return entries.where(column(IS_ROW)).select(*_row_columns(self.target))

    def removed(self) -> DataFrame | None:
        """Return the `LOCATION` of changed and deleted rows, or of all rows if some are manual; None without any."""
        if self.counts.manual:
            return self.touched.select(LOCATION)
        if not self.counts.removed:
            return None
        return self._changed.where(column(OLD).isNotNull()).select(column(OLD).getField(LOCATION).alias(LOCATION))

    def count_deleted(self) -> int:
        """Count the removed target rows whose start is not the start of a new row."""
        keys, start = key_columns(self.target), column(STARTS)
        starts = self._changed.select(*_starts(self.target)).select(*keys, f"{_ROW}.*").where(start.isNotNull())
        return starts.groupBy(*keys, start).agg(F.max(_IS_ADDED).alias(_IS_ADDED)).where(~column(_IS_ADDED)).count()

    def changes(self) -> DataFrame:
        """Return the rows to add and the bounds of rows to remove; one row per key and start if none is manual."""
        changes = self._all_changes() if self.counts.manual else self._net_changes()
        change = F.when(column(_IS_ADDED), F.lit(INSERTED)).otherwise(F.lit(REMOVED))
        return changes.select("*", change.alias(CHANGE))

    def matching(self) -> Column:
        """Return whether a target row has the start of a row of `changes`; a manual row must also have its end."""
        started = started_at(self.target, of=TARGET) == column(STARTS, of=SOURCE)
        matching = key_range(self.batch.ranges, of=TARGET) & same_key(self.target) & started
        if self.counts.manual:
            ended = ended_at(self.target, of=TARGET)
            matching = matching & ~column(_IS_ADDED, of=SOURCE) & ended.eqNullSafe(column(ENDS, of=SOURCE))
        return matching

    def _net_changes(self) -> DataFrame:
        """Return new and changed rows, and the starts of removed rows; one row per key and start."""
        keys, names = key_columns(self.target), self.target.table_schema.fieldNames()
        flags = (F.expr("true").alias(_IS_ADDED), F.expr("false").alias(_IS_ADDED))
        added = self._changed.where(column(IS_ROW)).select(*_row_columns(self.target), STARTS, flags[0])
        removed = self._changed.where(column(OLD).isNotNull()).select(
            *keys, column(OLD).getField("started").alias(STARTS), flags[1]
        )
        together = added.unionByName(removed, allowMissingColumns=True)
        values = F.struct(*(column(name) for name in names if name not in self.target.keys), column(_IS_ADDED))
        best = together.groupBy(*keys, STARTS).agg(F.max_by(values, column(_IS_ADDED)).alias(_ROW))
        return best.select(*keys, STARTS, f"{_ROW}.*")

    def _all_changes(self) -> DataFrame:
        """Return all rows of the histories, and the bounds of the target rows to replace."""
        keys = key_columns(self.target)
        bounds = (started_at(self.target).alias(STARTS), ended_at(self.target).alias(ENDS))
        added = self.history.where(column(IS_ROW)).select(
            *_row_columns(self.target), STARTS, ENDS, F.expr("true").alias(_IS_ADDED)
        )
        removed = self.touched.select(*keys, *bounds).distinct().withColumn(_IS_ADDED, F.expr("false"))
        return added.unionByName(removed, allowMissingColumns=True)


@built_once
def _starts(target: CdcTarget) -> list[Column]:
    """Return the starts of rows after and before the batch, with a flag for those after it."""
    now = F.struct(F.when(column(IS_ROW), column(STARTS)).alias(STARTS), F.expr("true").alias(_IS_ADDED))
    before = F.struct(column(OLD).getField("started").alias(STARTS), F.expr("false").alias(_IS_ADDED))
    return [*key_columns(target), F.explode(F.array(now, before)).alias(_ROW)]


@built_once
def _is_changed(target: CdcTarget) -> Column:
    """Return whether an entry's row is new, changed or removed; also true for an entry without a row."""
    old = column(OLD)
    now = old_row(
        target,
        started=column(STARTS),
        ended=column(ENDS),
        deleted=column(ENDS_BY_DELETE),
        content=column(FINGERPRINT),
        authors=column(LEAF_AUTHORS) if target.is_authored else None,
        location=old.getField(LOCATION),
    )
    return ~(column(IS_ROW) & old.eqNullSafe(now))


@built_once
def _row_columns(target: CdcTarget) -> list[Column]:
    """Return the columns of an entry's row after the batch."""
    computed = _computed_columns(target)
    return [computed.get(name, column(name)).alias(name) for name in target.table_schema.fieldNames()]


def _computed_columns(target: CdcTarget) -> dict[str, Column]:
    """Return the columns of a row that AUTO CDC computes: its interval and the hidden column."""
    point = column(POINT)
    hidden = {name: point.getField(name) for name in target.point_type.names}
    hidden |= {
        CONTENT: column(FINGERPRINT),
        STARTED: column(STARTS),
        ENDED: column(ENDS),
        DELETED: column(ENDS_BY_DELETE),
    }
    if target.is_authored:
        hidden[AUTHORS] = column(LEAF_AUTHORS)
    fields = [hidden[f.name].cast(f.dataType).alias(f.name) for f in target.hidden_type.fields]
    return {
        START_AT: displayed_point(target, column(STARTS)),
        END_AT: F.when(column(ENDS).isNotNull(), displayed_point(target, column(ENDS))),
        HIDDEN_COLUMN: F.struct(*fields),
    }
