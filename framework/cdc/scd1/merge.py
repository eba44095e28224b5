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
from framework.cdc.delta.transaction import PLACE, Transaction
from framework.cdc.delta.transaction_identifiers import or_conflict, raising_conflicts
from framework.cdc.events.key_bounds import key_range
from framework.cdc.model.columns import column, quote
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.cdc.scd1.authored_rows import decide_rows
from framework.cdc.scd1.authored_rows import new_rows as new_authored_rows
from framework.cdc.scd1.latest_events import FactCounts, clear_dead, has_effect
from framework.cdc.scd1.merge_clauses import (
    DOES,
    INSERTED,
    REMOVED,
    SOURCE,
    TARGET,
    UPDATED,
    Changes,
    changes_to,
    same_key,
)
from framework.cdc.spark.background_work import alongside
from framework.cdc.spark.local_checkpoint import computed_once
from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBER = "__sluice_number"
_SEEN = "__sluice_seen"
_IS_BY_HAND = "__sluice_is_by_hand"

BROADCAST_ROWS = 200_000
"""The largest batch, in rows, that is broadcast, so that a table is read without a shuffle."""

SHUFFLED_ROWS_A_FACT = 10
"""The most table rows per affected key that are shuffled; this saves two broadcasts, each a job to wait for."""

Settle = Callable[["DataFrame"], "DataFrame"]


def merge_facts(
    facts: DataFrame, counts: FactCounts, table: TableAddress, target: CdcTarget, *, settle: Settle | None
) -> CdcMetrics:
    """Merge the latest events into the target's table, where they are newer than its rows.

    Args:
        facts: the latest events, one row per key, computed once.
        counts: the counts of the latest events.
        table: the target's table.
        target: the target.
        settle: applies the recorded deletes and truncates to latest events.

    Returns:
        The numbers of rows upserted and deleted.
    """
    if counts.floor is not None:
        facts = clear_dead(facts, target, deleted=None, floor=counts.floor)
    merged_into = DeltaTable.forName(facts.sparkSession, table.sql).alias(TARGET)
    with _settled(facts, settle) as settled:
        source = settled.where(has_effect())
        if target.is_authored:
            return _merge_decided(source, counts, merged_into, target)
        matching = key_range(counts.batch.ranges, of=TARGET) & same_key(target)
        merge = merged_into.merge(sent_around(source, counts).alias(SOURCE), matching)
        return merge_metrics(_with_clauses(merge, changes_to(target, floor=counts.floor)).execute())


def _merge_decided(facts: DataFrame, counts: FactCounts, table: DeltaTable, target: CdcTarget) -> CdcMetrics:
    """Read the affected rows, decide the change of each, and merge the changes.

    The merge reads the rows again: a row that another process changed in between is a conflict.
    """
    rows, how, matching = table.toDF(), "full_outer", same_key(target)
    if counts.floor is None:  # else rows of keys without events may be deleted too
        rows, how = rows.where(key_range(counts.batch.ranges, of=TARGET)), "left"
        matching = key_range(counts.batch.ranges, of=TARGET) & matching
    seen = rows.select("*", column(HIDDEN_COLUMN).alias(_SEEN))
    decided = decide_rows(facts, seen, target, how=how, carried=(_SEEN,), floor=counts.floor)
    does = column(DOES, of=SOURCE)
    is_unchanged = (does != F.lit(INSERTED)) & column(_SEEN, of=SOURCE).eqNullSafe(column(HIDDEN_COLUMN, of=TARGET))
    # Delta evaluates the conditions for unmatched rows too.
    is_safe = or_conflict(column(target.keys[0], of=TARGET).isNull() | is_unchanged)
    row = {name: column(name, of=SOURCE) for name in target.table_schema.fieldNames()}
    values = {name: value for name, value in row.items() if name not in target.keys}
    has_key = reduce(operator.and_, (column(key).isNotNull() for key in target.keys))
    with computed_once(decided.where(column(DOES).isNotNull() & has_key)) as decided:
        merge = table.merge(sent_around(decided, counts).alias(SOURCE), matching)
        merge = merge.whenMatchedDelete(condition=is_safe & (does == F.lit(REMOVED)))
        merge = merge.whenMatchedUpdate(set=assignments(values))
        merge = merge.whenNotMatchedInsert(condition=does != F.lit(REMOVED), values=assignments(row))
        with raising_conflicts():
            return merge_metrics(merge.execute())


def _settled(facts: DataFrame, settle: Settle | None) -> AbstractContextManager[DataFrame]:
    """Return the latest events after recorded deletes and truncates, computed once."""
    return nullcontext(facts) if settle is None else computed_once(settle(facts))


def replace_facts(
    facts: DataFrame, counts: FactCounts, transaction: Transaction, target: CdcTarget, *, settle: Settle | None
) -> CdcMetrics | None:
    """Decide the change of each of the target's rows, and stage the changes in a transaction.

    Args:
        facts: the latest events, one row per key, computed once.
        counts: the counts of the latest events.
        transaction: on the target's table.
        target: the target.
        settle: applies the recorded deletes and truncates to latest events. Whole rows need it for keys without a
            row only, because a row is newer than all recorded deletes of its key; leaves may be older.

    Returns:
        The numbers of rows to upsert and delete. None if a manually inserted row would be updated without a check
        of its key's recorded deletes: the transaction must be discarded.
    """
    if not target.is_authored:
        return _replace_settled(facts, counts, transaction, target, settle)
    with _settled(facts, settle) as settled:
        return _replace_settled(settled, counts, transaction, target, None)


def _replace_settled(
    facts: DataFrame, counts: FactCounts, transaction: Transaction, target: CdcTarget, settle: Settle | None
) -> CdcMetrics | None:
    rows, cores = _rows(transaction, counts), facts.sparkSession.sparkContext.defaultParallelism
    source = facts.where(has_effect())
    if transaction.read_nothing:
        return CdcMetrics(upserted=transaction.add(_new_rows(source, target, settle)))
    few_rows = SHUFFLED_ROWS_A_FACT * counts.effects
    together = transaction.rows_to_read is not None and transaction.rows_to_read <= few_rows
    if together:
        decided = _decided_together(source if settle is None else settle(source), rows, target)
    else:
        source = source.withColumn(_NUMBER, F.monotonically_increasing_id())
        decided = _decided_by_rows(sent_around(source, counts), rows, target)
    with computed_once(decided) as decided:
        names = map(column, target.table_schema.fieldNames())
        written = decided.where(column(DOES).isin(INSERTED, UPDATED)).select(*names)
        if not together:
            met = F.broadcast(decided.select(_NUMBER))
            written = written.unionByName(_new_rows(source.join(met, _NUMBER, "left_anti"), target, settle))
        with alongside(facts.sparkSession, partial(_remove, decided, transaction)) as removing:
            # At most one file per core, regardless of the number of tasks that read.
            upserted = transaction.add(written.coalesce(cores))
    deleted, by_hand = removing.result()
    is_unsettled = bool(by_hand) and settle is not None and not together
    return None if is_unsettled else CdcMetrics(upserted=upserted, deleted=deleted)


def _rows(transaction: Transaction, counts: FactCounts) -> DataFrame:
    """Return the rows that a batch may change, and whether each was inserted manually (not by AUTO CDC)."""
    is_by_hand = column(HIDDEN_COLUMN).isNull().alias(_IS_BY_HAND)
    return transaction.rows(counts.batch.ranges).select("*", is_by_hand)


def sent_around(facts: DataFrame, counts: FactCounts) -> DataFrame:
    """Return the latest events, with a broadcast hint if they are few."""
    return F.broadcast(facts) if counts.effects <= BROADCAST_ROWS else facts


def _new_rows(facts: DataFrame, target: CdcTarget, settle: Settle | None) -> DataFrame:
    """Return the rows of keys that have no row yet."""
    settled = facts if settle is None else settle(facts)
    if target.is_authored:
        return new_authored_rows(settled, target)
    changes = changes_to(target, floor=None)
    inserted = (changes.inserted[name].alias(name) for name in target.table_schema.fieldNames())
    return settled.alias(SOURCE).where(changes.insert).select(*inserted)


def _decided_by_rows(facts: DataFrame, rows: DataFrame, target: CdcTarget) -> DataFrame:
    """Decide the change of each row of an affected key: joins the latest events to target rows."""
    if target.is_authored:
        return decide_rows(facts, rows, target, how="inner", carried=(_IS_BY_HAND, _NUMBER, PLACE))
    changes = changes_to(target, floor=None)
    does = F.when(changes.delete, F.lit(REMOVED)).when(changes.update, F.lit(UPDATED))
    names = target.table_schema.fieldNames()
    becomes = [changes.updated.get(name, column(name, of=TARGET)).alias(name) for name in names]
    met = facts.alias(SOURCE).join(rows.alias(TARGET), same_key(target))
    return met.select(does.alias(DOES), _IS_BY_HAND, _NUMBER, PLACE, *becomes)


def _decided_together(facts: DataFrame, rows: DataFrame, target: CdcTarget) -> DataFrame:
    """Decide the change of each affected key: left-joins target rows to the latest events, which are in key order."""
    if target.is_authored:
        return decide_rows(facts, rows, target, how="left", carried=(_IS_BY_HAND, PLACE))
    changes = changes_to(target, floor=None)
    is_new = column(PLACE).isNull()
    does = F.when(is_new, F.when(changes.insert, F.lit(INSERTED)))
    does = does.when(changes.delete, F.lit(REMOVED)).when(changes.update, F.lit(UPDATED))
    becomes = {}
    for name, value in changes.inserted.items():
        other = changes.updated.get(name, column(name, of=TARGET))
        becomes[name] = value if value is other else F.when(is_new, value).otherwise(other)
    met = facts.alias(SOURCE).join(rows.alias(TARGET).hint("merge"), same_key(target), "left")
    return met.select(
        does.alias(DOES),
        _IS_BY_HAND,
        PLACE,
        *(becomes[name].alias(name) for name in target.table_schema.fieldNames()),
    )


def _remove(decided: DataFrame, transaction: Transaction) -> tuple[int, int]:
    """Stage the removal of the rows that are deleted or replaced.

    Returns:
        The number of deleted rows, and the number of manually inserted rows that are replaced.
    """
    does = column(DOES)
    transaction.remove(decided.where(does.isin(UPDATED, REMOVED)).select(PLACE))
    # Counted last, because nothing waits for the counts; deletion vectors are written in parallel with new rows.
    row = decided.agg(
        F.count_if(does == F.lit(REMOVED)).alias("deleted"),
        F.count_if((does == F.lit(UPDATED)) & column(_IS_BY_HAND)).alias("by_hand"),
    ).first()
    assert row is not None  # an aggregate without groups has one row
    return row["deleted"], row["by_hand"]


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
