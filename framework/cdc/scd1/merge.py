"""SCD type 1: merge of a batch's latest events into the target, in one commit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce
from typing import TYPE_CHECKING

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta.transaction import LOCATION, Transaction
from framework.cdc.delta.transaction_identifiers import or_conflict, raising_conflicts
from framework.cdc.events.key_bounds import key_range
from framework.cdc.model.columns import column, quote
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.cdc.scd1.authored_rows import decide_rows
from framework.cdc.scd1.authored_rows import new_rows as new_authored_rows
from framework.cdc.scd1.latest_events import LatestCounts, clear_undone, has_effect
from framework.cdc.scd1.merge_clauses import (
    CHANGE,
    INSERTED,
    REMOVED,
    SOURCE,
    TARGET,
    UPDATED,
    Changes,
    changes_to,
    same_key,
)
from framework.cdc.spark.background_work import in_background
from framework.cdc.spark.local_checkpoint import computed_once
from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBER = "__sluice_number"
_SEEN = "__sluice_seen"
_IS_MANUAL = "__sluice_is_manual"

BROADCAST_ROWS = 200_000
"""The largest batch, in rows, that is broadcast, so that a table is read without a shuffle."""

SHUFFLED_ROWS_PER_KEY = 10
"""The most table rows per affected key that are shuffled; this saves two broadcasts, each a job to wait for."""

ApplyRecorded = Callable[["DataFrame"], "DataFrame"]


def merge_latest_events(
    latest: DataFrame,
    counts: LatestCounts,
    table: TableAddress,
    target: CdcTarget,
    *,
    apply_recorded: ApplyRecorded | None,
) -> CdcMetrics:
    """Merge the latest events into the target's table, where they are newer than its rows.

    Args:
        latest: the latest events, one row per key, computed once.
        counts: the counts of the latest events.
        table: the target's table.
        target: the target.
        apply_recorded: applies the recorded deletes and truncates to latest events.

    Returns:
        The numbers of rows upserted and deleted.
    """
    if counts.floor is not None:
        latest = clear_undone(latest, target, deleted=None, floor=counts.floor)
    merged_into = DeltaTable.forName(latest.sparkSession, table.sql).alias(TARGET)
    with _settled(latest, apply_recorded) as settled:
        source = settled.where(has_effect())
        if target.is_authored:
            return _merge_decided(source, counts, merged_into, target)
        matching = key_range(counts.batch.ranges, of=TARGET) & same_key(target)
        merge = merged_into.merge(broadcast_if_small(source, counts).alias(SOURCE), matching)
        return merge_metrics(_with_clauses(merge, changes_to(target, floor=counts.floor)).execute())


def _merge_decided(latest: DataFrame, counts: LatestCounts, table: DeltaTable, target: CdcTarget) -> CdcMetrics:
    """Read the affected rows, decide the change of each, and merge the changes.

    The merge reads the rows again: a row that another process changed in between is a conflict.
    """
    rows, how, matching = table.toDF(), "full_outer", same_key(target)
    if counts.floor is None:  # else rows of keys without events may be deleted too
        rows, how = rows.where(key_range(counts.batch.ranges, of=TARGET)), "left"
        matching = key_range(counts.batch.ranges, of=TARGET) & matching
    seen = rows.select("*", column(HIDDEN_COLUMN).alias(_SEEN))
    decided = decide_rows(latest, seen, target, how=how, carried=(_SEEN,), floor=counts.floor)
    change = column(CHANGE, of=SOURCE)
    is_unchanged = (change != F.lit(INSERTED)) & column(_SEEN, of=SOURCE).eqNullSafe(column(HIDDEN_COLUMN, of=TARGET))
    # Delta evaluates the conditions for unmatched rows too.
    is_safe = or_conflict(column(target.keys[0], of=TARGET).isNull() | is_unchanged)
    row = {name: column(name, of=SOURCE) for name in target.table_schema.fieldNames()}
    values = {name: value for name, value in row.items() if name not in target.keys}
    has_key = reduce(operator.and_, (column(key).isNotNull() for key in target.keys))
    with computed_once(decided.where(column(CHANGE).isNotNull() & has_key)) as decided:
        merge = table.merge(broadcast_if_small(decided, counts).alias(SOURCE), matching)
        merge = merge.whenMatchedDelete(condition=is_safe & (change == F.lit(REMOVED)))
        merge = merge.whenMatchedUpdate(set=assignments(values))
        merge = merge.whenNotMatchedInsert(condition=change != F.lit(REMOVED), values=assignments(row))
        with raising_conflicts():
            return merge_metrics(merge.execute())


def _settled(latest: DataFrame, apply_recorded: ApplyRecorded | None) -> AbstractContextManager[DataFrame]:
    """Return the latest events after recorded deletes and truncates, computed once."""
    return nullcontext(latest) if apply_recorded is None else computed_once(apply_recorded(latest))


def replace_by_latest_events(
    latest: DataFrame,
    counts: LatestCounts,
    transaction: Transaction,
    target: CdcTarget,
    *,
    apply_recorded: ApplyRecorded | None,
) -> CdcMetrics | None:
    """Decide the change of each of the target's rows, and stage the changes in a transaction.

    Args:
        latest: the latest events, one row per key, computed once.
        counts: the counts of the latest events.
        transaction: on the target's table.
        target: the target.
        apply_recorded: applies the recorded deletes and truncates to latest events. Whole rows need it for keys
            without a row only, because a row is newer than all recorded deletes of its key; leaves may be older.

    Returns:
        The numbers of rows to upsert and delete. None if a manually inserted row would be updated without a check
        of its key's recorded deletes: the transaction must be discarded.
    """
    if not target.is_authored:
        return _replace_settled(latest, counts, transaction, target, apply_recorded)
    with _settled(latest, apply_recorded) as settled:
        return _replace_settled(settled, counts, transaction, target, None)


def _replace_settled(
    latest: DataFrame,
    counts: LatestCounts,
    transaction: Transaction,
    target: CdcTarget,
    apply_recorded: ApplyRecorded | None,
) -> CdcMetrics | None:
    rows, cores = _rows(transaction, counts), latest.sparkSession.sparkContext.defaultParallelism
    source = latest.where(has_effect())
    if transaction.read_nothing:
        return CdcMetrics(upserted=transaction.add(_new_rows(source, target, apply_recorded)))
    few_rows = SHUFFLED_ROWS_PER_KEY * counts.effects
    together = transaction.rows_to_read is not None and transaction.rows_to_read <= few_rows
    if together:
        decided = _decide_by_keys(source if apply_recorded is None else apply_recorded(source), rows, target)
    else:
        source = source.withColumn(_NUMBER, F.monotonically_increasing_id())
        decided = _decide_by_rows(broadcast_if_small(source, counts), rows, target)
    with computed_once(decided) as decided:
        names = map(column, target.table_schema.fieldNames())
        written = decided.where(column(CHANGE).isin(INSERTED, UPDATED)).select(*names)
        if not together:
            joined = F.broadcast(decided.select(_NUMBER))
            written = written.unionByName(_new_rows(source.join(joined, _NUMBER, "left_anti"), target, apply_recorded))
        with in_background(latest.sparkSession, partial(_remove, decided, transaction)) as removing:
            # At most one file per core, regardless of the number of tasks that read.
            upserted = transaction.add(written.coalesce(cores))
    deleted, manual = removing.result()
    is_unchecked = bool(manual) and apply_recorded is not None and not together
    return None if is_unchecked else CdcMetrics(upserted=upserted, deleted=deleted)


def _rows(transaction: Transaction, counts: LatestCounts) -> DataFrame:
    """Return the rows that a batch may change, and whether each was inserted manually (not by AUTO CDC)."""
    is_manual = column(HIDDEN_COLUMN).isNull().alias(_IS_MANUAL)
    return transaction.rows(counts.batch.ranges).select("*", is_manual)


def broadcast_if_small(latest: DataFrame, counts: LatestCounts) -> DataFrame:
    """Return the latest events, with a broadcast hint if they are few."""
    return F.broadcast(latest) if counts.effects <= BROADCAST_ROWS else latest


def _new_rows(latest: DataFrame, target: CdcTarget, apply_recorded: ApplyRecorded | None) -> DataFrame:
    """Return the rows of keys that have no row yet."""
    settled = latest if apply_recorded is None else apply_recorded(latest)
    if target.is_authored:
        return new_authored_rows(settled, target)
    changes = changes_to(target, floor=None)
    inserted = (changes.inserted[name].alias(name) for name in target.table_schema.fieldNames())
    return settled.alias(SOURCE).where(changes.insert).select(*inserted)


def _decide_by_rows(latest: DataFrame, rows: DataFrame, target: CdcTarget) -> DataFrame:
    """Decide the change of each row of an affected key: joins the latest events to target rows."""
    if target.is_authored:
        return decide_rows(latest, rows, target, how="inner", carried=(_IS_MANUAL, _NUMBER, LOCATION))
    changes = changes_to(target, floor=None)
    change = F.when(changes.delete, F.lit(REMOVED)).when(changes.update, F.lit(UPDATED))
    names = target.table_schema.fieldNames()
    becomes = [changes.updated.get(name, column(name, of=TARGET)).alias(name) for name in names]
    joined = latest.alias(SOURCE).join(rows.alias(TARGET), same_key(target))
    return joined.select(change.alias(CHANGE), _IS_MANUAL, _NUMBER, LOCATION, *becomes)


def _decide_by_keys(latest: DataFrame, rows: DataFrame, target: CdcTarget) -> DataFrame:
    """Decide the change of each affected key: left-joins target rows to the latest events, which are in key order."""
    if target.is_authored:
        return decide_rows(latest, rows, target, how="left", carried=(_IS_MANUAL, LOCATION))
    changes = changes_to(target, floor=None)
    is_new = column(LOCATION).isNull()
    change = F.when(is_new, F.when(changes.insert, F.lit(INSERTED)))
    change = change.when(changes.delete, F.lit(REMOVED)).when(changes.update, F.lit(UPDATED))
    becomes = {}
    for name, value in changes.inserted.items():
        other = changes.updated.get(name, column(name, of=TARGET))
        becomes[name] = value if value is other else F.when(is_new, value).otherwise(other)
    joined = latest.alias(SOURCE).join(rows.alias(TARGET).hint("merge"), same_key(target), "left")
    return joined.select(
        change.alias(CHANGE),
        _IS_MANUAL,
        LOCATION,
        *(becomes[name].alias(name) for name in target.table_schema.fieldNames()),
    )


def _remove(decided: DataFrame, transaction: Transaction) -> tuple[int, int]:
    """Stage the removal of the rows that are deleted or replaced.

    Returns:
        The number of deleted rows, and the number of manually inserted rows that are replaced.
    """
    change = column(CHANGE)
    transaction.remove(decided.where(change.isin(UPDATED, REMOVED)).select(LOCATION))
    # Counted last, because nothing waits for the counts; deletion vectors are written in parallel with new rows.
    row = decided.agg(
        F.count_if(change == F.lit(REMOVED)).alias("deleted"),
        F.count_if((change == F.lit(UPDATED)) & column(_IS_MANUAL)).alias("manual"),
    ).first()
    assert row is not None  # an aggregate without groups has one row
    return row["deleted"], row["manual"]


def _with_clauses(merge: DeltaMergeBuilder, changes: Changes) -> DeltaMergeBuilder:
    merge = merge.whenMatchedDelete(condition=changes.delete)
    merge = merge.whenMatchedUpdate(condition=changes.update, set=assignments(changes.updated))
    merge = merge.whenNotMatchedInsert(condition=changes.insert, values=assignments(changes.inserted))
    if changes.sweep is not None:
        merge = merge.whenNotMatchedBySourceDelete(condition=changes.sweep)
    return merge


def assignments(row: Mapping[str, Column]) -> dict[str, str | Column]:
    """Return columns by quoted name, in the form of Delta's merge builder."""
    return {quote(name): value for name, value in row.items()}


def merge_metrics(result: DataFrame) -> CdcMetrics:
    """Return the metrics of a merge; `skipped` if Delta had applied the batch before."""
    counts = result.first()
    if counts is None:
        return CdcMetrics(skipped=True)
    return CdcMetrics(
        upserted=counts["num_updated_rows"] + counts["num_inserted_rows"], deleted=counts["num_deleted_rows"]
    )
