"""SCD type 1: the facts of a batch into the target, in one commit."""

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
"""Up to so many rows of a batch are sent to all executors, so that a table is read without a shuffle."""

SHUFFLED_ROWS_A_FACT = 10
"""Up to so many rows a fact are rather shuffled, for that saves two broadcasts, each a job to wait for."""

Settle = Callable[["DataFrame"], "DataFrame"]


def merge_facts(
    facts: DataFrame, counts: FactCounts, table: TableAddress, target: CdcTarget, *, settle: Settle | None
) -> CdcMetrics:
    """Bring the target's rows up to the facts that are newer than they are.

    Args:
        facts: one row a key, computed once.
        counts: of the facts.
        table: the target's table.
        target: the target.
        settle: takes out of facts what is recorded as undone.

    Returns:
        The rows that were upserted and deleted.
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
    """Read the rows that the facts are about, decide what becomes of each, and merge that.

    The merge reads the rows again: one that another process changed meanwhile is a conflict.
    """
    rows, how, matching = table.toDF(), "full_outer", same_key(target)
    if counts.floor is None:  # else rows that no fact is about may go too
        rows, how = rows.where(key_range(counts.batch.ranges, of=TARGET)), "left"
        matching = key_range(counts.batch.ranges, of=TARGET) & matching
    seen = rows.select("*", column(HIDDEN_COLUMN).alias(_SEEN))
    decided = decide_rows(facts, seen, target, how=how, carried=(_SEEN,), floor=counts.floor)
    does = column(DOES, of=SOURCE)
    is_unchanged = (does != F.lit(INSERTED)) & column(_SEEN, of=SOURCE).eqNullSafe(column(HIDDEN_COLUMN, of=TARGET))
    # Delta evaluates conditions for rows that match nothing too.
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
    """The facts without what is undone, computed once."""
    return nullcontext(facts) if settle is None else computed_once(settle(facts))


def replace_facts(
    facts: DataFrame, counts: FactCounts, transaction: Transaction, target: CdcTarget, *, settle: Settle | None
) -> CdcMetrics | None:
    """Decide what the facts do to each of the target's rows, and stage that in a transaction.

    Args:
        facts: one row a key, computed once.
        counts: of the facts.
        transaction: of the target's table.
        target: the target.
        settle: takes out of facts what is recorded as undone. Of whole rows it is asked for keys without a row
            only, for a row is newer than all of its key's deletes that are recorded; leaves may be older.

    Returns:
        The rows that will be upserted and deleted; None if a row was put in by hand, so that nothing is known of
        its key's recorded deletes: the transaction must be given up.
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
            # However many tasks read, each core writes one file.
            upserted = transaction.add(written.coalesce(cores))
    deleted, by_hand = removing.result()
    is_unsettled = bool(by_hand) and settle is not None and not together
    return None if is_unsettled else CdcMetrics(upserted=upserted, deleted=deleted)


def _rows(transaction: Transaction, counts: FactCounts) -> DataFrame:
    """The rows that a batch may change, and of each whether AUTO CDC did not write it."""
    is_by_hand = column(HIDDEN_COLUMN).isNull().alias(_IS_BY_HAND)
    return transaction.rows(counts.batch.ranges).select("*", is_by_hand)


def sent_around(facts: DataFrame, counts: FactCounts) -> DataFrame:
    """The facts, sent to all executors when they are few."""
    return F.broadcast(facts) if counts.effects <= BROADCAST_ROWS else facts


def _new_rows(facts: DataFrame, target: CdcTarget, settle: Settle | None) -> DataFrame:
    """The rows of keys that have none yet."""
    settled = facts if settle is None else settle(facts)
    if target.is_authored:
        return new_authored_rows(settled, target)
    changes = changes_to(target, floor=None)
    inserted = (changes.inserted[name].alias(name) for name in target.table_schema.fieldNames())
    return settled.alias(SOURCE).where(changes.insert).select(*inserted)


def _decided_by_rows(facts: DataFrame, rows: DataFrame, target: CdcTarget) -> DataFrame:
    """What becomes of each row that has a fact; the facts come to the rows."""
    if target.is_authored:
        return decide_rows(facts, rows, target, how="inner", carried=(_IS_BY_HAND, _NUMBER, PLACE))
    changes = changes_to(target, floor=None)
    does = F.when(changes.delete, F.lit(REMOVED)).when(changes.update, F.lit(UPDATED))
    names = target.table_schema.fieldNames()
    becomes = [changes.updated.get(name, column(name, of=TARGET)).alias(name) for name in names]
    met = facts.alias(SOURCE).join(rows.alias(TARGET), same_key(target))
    return met.select(does.alias(DOES), _IS_BY_HAND, _NUMBER, PLACE, *becomes)


def _decided_together(facts: DataFrame, rows: DataFrame, target: CdcTarget) -> DataFrame:
    """What becomes of each fact, whether it has a row or not; the rows come to the facts, whose keys are in order."""
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
    """Stage that decided rows go, for good or for another in their place.

    Returns:
        How many go for good, and how many rows that were put in by hand get another in their place.
    """
    does = column(DOES)
    transaction.remove(decided.where(does.isin(UPDATED, REMOVED)).select(PLACE))
    # Counted last, for nothing waits for it; but the vectors are written while the new rows are.
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
    """Columns by quoted names, as Delta's builder takes them."""
    return {quote(name): value for name, value in row.items()}


def merge_metrics(result: DataFrame) -> CdcMetrics:
    """What a merge says it did; nothing when it was skipped as done before."""
    counts = result.first()
    if counts is None:
        return CdcMetrics(skipped=True)
    return CdcMetrics(
        upserted=counts["num_updated_rows"] + counts["num_inserted_rows"], deleted=counts["num_deleted_rows"]
    )
