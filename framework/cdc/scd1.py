"""SCD type 1: the facts of a batch into the target, in one commit."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import functions as F

from framework.cdc.alongside import alongside
from framework.cdc.caching import computed_once
from framework.cdc.changes import SOURCE, TARGET, Changes, changes_to
from framework.cdc.columns import column, quote
from framework.cdc.key_ranges import Ranges, key_range
from framework.cdc.metrics import CdcMetrics
from framework.cdc.target import CdcTarget
from framework.cdc.transaction import PLACE, Transaction
from framework.foundation.addresses import TableAddress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBER = "__sluice_number"
_DOES = "__sluice_does"
_UPDATED, _DELETED = "updated", "deleted"

BROADCAST_ROWS = 200_000
"""Up to so many rows of a batch are sent to all executors, so that a table is read without a shuffle."""


def merge_facts(
    facts: DataFrame,
    table: TableAddress,
    target: CdcTarget,
    *,
    ranges: Ranges,
    floor: Column | None,
) -> CdcMetrics:
    """Bring the target's rows up to the facts that are newer than they are.

    Args:
        facts: one row a key, settled.
        table: the target's table.
        target: the target.
        ranges: the bounds of the facts' keys.
        floor: the literal of the batch's truncate, if there is one.

    Returns:
        The rows that were upserted and deleted.
    """
    matching = key_range(ranges, of=TARGET)
    for key in target.keys:
        matching = matching & (column(key, of=SOURCE) == column(key, of=TARGET))
    merge = DeltaTable.forName(facts.sparkSession, table.sql).alias(TARGET).merge(facts.alias(SOURCE), matching)
    result = _with_clauses(merge, changes_to(target, floor=floor)).execute()
    return merge_metrics(result)


def replace_facts(facts: DataFrame, transaction: Transaction, target: CdcTarget, *, ranges: Ranges) -> CdcMetrics:
    """Decide what the facts do to each of the target's rows, and stage that in a transaction.

    Args:
        facts: one row a key, settled, computed once.
        transaction: of the target's table.
        target: the target.
        ranges: the bounds of the facts' keys.

    Returns:
        The rows that will be upserted and deleted.
    """
    changes = changes_to(target, floor=None)
    names = target.table_schema.fieldNames()
    rows = transaction.rows(ranges)
    inserted = [changes.inserted[name].alias(name) for name in names]
    if transaction.read_nothing:
        return CdcMetrics(upserted=transaction.add(facts.alias(SOURCE).where(changes.insert).select(*inserted)))
    facts = facts.withColumn(_NUMBER, F.monotonically_increasing_id())
    same_key = [column(key, of=SOURCE) == column(key, of=TARGET) for key in target.keys]
    met = facts.alias(SOURCE).join(rows.alias(TARGET), reduce(operator.and_, same_key))
    does = F.when(changes.delete, F.lit(_DELETED)).when(changes.update, F.lit(_UPDATED))
    becomes = [changes.updated.get(name, column(name, of=TARGET)).alias(name) for name in names]
    decided = met.select(does.alias(_DOES), _NUMBER, PLACE, *becomes)
    # However many tasks read, each core writes one file.
    cores = facts.sparkSession.sparkContext.defaultParallelism
    with computed_once(decided) as decided:
        updated = decided.where(column(_DOES) == F.lit(_UPDATED))
        new = facts.alias(SOURCE).where(changes.insert)
        new = new.join(F.broadcast(decided.select(_NUMBER)), _NUMBER, "left_anti")
        with alongside(facts.sparkSession, partial(_remove, decided, transaction)) as removing:
            written = transaction.add(updated.select(*names).unionByName(new.select(*inserted)).coalesce(cores))
    return CdcMetrics(upserted=written, deleted=removing.result())


def _remove(decided: DataFrame, transaction: Transaction) -> int:
    """Stage that decided rows go, for good or for another in their place; those for good are counted."""
    does = column(_DOES)
    counts = decided.agg(F.count(does), F.count_if(does == F.lit(_DELETED))).first()
    assert counts is not None  # an aggregate without groups has one row
    going, deleted = counts
    if going:
        transaction.remove(decided.where(does.isNotNull()).select(PLACE))
    return int(deleted)


def _with_clauses(merge: DeltaMergeBuilder, changes: Changes) -> DeltaMergeBuilder:
    merge = merge.whenMatchedDelete(condition=changes.delete)
    merge = merge.whenMatchedUpdate(condition=changes.update, set=assignments(changes.updated))
    merge = merge.whenNotMatchedInsert(condition=changes.insert, values=assignments(changes.inserted))
    if changes.sweep is not None:
        merge = merge.whenNotMatchedBySourceDelete(condition=changes.sweep)
    if changes.trim is not None and changes.trimmed is not None:
        merge = merge.whenNotMatchedBySourceUpdate(condition=changes.trim, set=assignments(changes.trimmed))
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
