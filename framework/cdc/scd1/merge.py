"""SCD type 1: the merge of a batch's latest events into the target's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.delta.target_write import (
    CHANGE,
    INSERTED,
    REMOVED,
    SOURCE,
    TARGET,
    UPDATED,
    Clauses,
    KeyedMerge,
    same_key,
)
from framework.cdc.events.normalize import ORDER
from framework.cdc.model.columns import column
from framework.cdc.model.event_order import is_undone, row_order, row_point
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.cdc.scd1 import authored_rows, flagged_rows
from framework.cdc.scd1.latest_events import DELETED, LatestCounts, clear_undone, has_effect, hidden_column
from framework.engine.delta.deletion_vectors import LOCATION
from framework.engine.jvm.java import built_once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from framework.cdc.analysis.target_schema import CdcTarget


def merge_of(
    latest: DataFrame,
    counts: LatestCounts,
    target: CdcTarget,
    *,
    apply_recorded: Callable[[DataFrame], DataFrame] | None,
) -> KeyedMerge:
    """Return the merge of latest events into the target's rows, where they are newer.

    Args:
        latest: the latest events, one row per key, computed once.
        counts: the counts of the latest events.
        target: the target.
        apply_recorded: applies the recorded deletes and truncates; None if none are recorded.
    """
    if counts.floor is not None:
        latest = clear_undone(latest, target, by_deletes=False, floor=counts.floor)
    is_whole = target.flag is None and not target.is_authored
    if is_whole:
        decide = partial(decide_rows, target=target)
    else:
        rows = authored_rows if target.is_authored else flagged_rows
        decide = partial(rows.decide_rows, target=target, floor=counts.floor)
    return KeyedMerge(
        target=target,
        source=latest.where(has_effect()),
        row_count=counts.effects,
        ranges=counts.batch.ranges,
        decide=decide,
        new_rows=partial(rows_of, target=target),
        clauses=clauses_for(target, floor=counts.floor) if is_whole else None,
        sweeps=counts.floor is not None,
        apply_recorded=apply_recorded,
        # A row is newer than every recorded delete of its key, but single leaves, or a row that stays, may be older.
        checks_rows=not is_whole,
        may_delete=not is_whole or counts.upserts < counts.effects,
    )


def rows_of(latest: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the rows of latest events whose keys have no row yet."""
    if target.is_authored:
        return authored_rows.new_rows(latest, target)
    return new_rows(latest, target) if target.flag is None else flagged_rows.new_rows(latest, target)


def clauses_for(target: CdcTarget, *, floor: Column | None) -> Clauses:
    """Return the clauses of a merge: a delete removes rows up to its point, an upsert replaces older rows.

    Merging the same events again changes nothing, because each clause applies only to older or missing rows.

    Args:
        target: the target, whose rows have one author each.
        floor: the literal of a truncate in the batch, which also deletes rows of keys without events.
    """
    return _clauses_without_floor(target) if floor is None else _clauses(target, floor)


@built_once
def _clauses_without_floor(target: CdcTarget) -> Clauses:
    return _clauses(target, None)


def _clauses(target: CdcTarget, floor: Column | None) -> Clauses:
    upsert, hidden = column(ORDER, of=SOURCE), column(HIDDEN_COLUMN, of=TARGET)
    point = row_point(hidden, target.hidden_type)
    row = {field.name: column(field.name, of=SOURCE) for field in target.value_fields}
    row[HIDDEN_COLUMN] = hidden_column(target, upsert)
    keys = {key: column(key, of=SOURCE) for key in target.keys}
    deleted = column(DELETED, of=SOURCE)
    undone = is_undone(point, deleted=deleted, floor=floor, deletes_first=target.deletes_first)
    return Clauses(
        delete=upsert.isNull() & undone,
        update=upsert > row_order(hidden, target.hidden_type),
        updated=row,
        insert=upsert.isNotNull(),
        inserted=keys | row,
        sweep=None if floor is None else point < floor,
    )


def new_rows(latest: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the rows of keys that have no row yet."""
    clauses = clauses_for(target, floor=None)
    inserted = (clauses.inserted[name].alias(name) for name in target.table_schema.fieldNames())
    return latest.alias(SOURCE).where(clauses.insert).select(*inserted)


def decide_rows(
    latest: DataFrame, rows: DataFrame, target: CdcTarget, *, how: str, carried: Sequence[str] = ()
) -> DataFrame:
    """Decide the change of each row that latest events affect, as `clauses_for` does.

    Args:
        latest: the latest events, one row per key.
        rows: rows of the target, with their `LOCATION`.
        target: the target.
        how: the type of the join of latest events with rows; new keys are decided in a left join only.
        carried: further columns of either side that the result keeps.

    Returns:
        `CHANGE`, null where nothing changes; the carried columns; the columns of the target's table.
    """
    clauses, is_new = clauses_for(target, floor=None), column(LOCATION).isNull()
    change = F.when(clauses.delete, F.lit(REMOVED)).when(clauses.update, F.lit(UPDATED))
    if how == "left":
        change = F.when(is_new, F.when(clauses.insert, F.lit(INSERTED))).otherwise(change)
    values = []
    for name in target.table_schema.fieldNames():
        value = clauses.updated.get(name, column(name, of=TARGET))
        if how == "left" and clauses.inserted[name] is not value:
            value = F.when(is_new, clauses.inserted[name]).otherwise(value)
        values.append(value.alias(name))
    # The latest events are sorted by key, so the merge join of a left join only sorts the rows.
    known = rows.alias(TARGET).hint("merge") if how == "left" else rows.alias(TARGET)
    joined = latest.alias(SOURCE).join(known, same_key(target), how)
    return joined.select(change.alias(CHANGE), *map(column, carried), *values)
