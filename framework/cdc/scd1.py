"""SCD type 1: the facts of a batch into the target, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta.tables import DeltaMergeBuilder, DeltaTable

from framework.cdc.changes import SOURCE, TARGET, Changes, changes_to
from framework.cdc.columns import column, quote
from framework.cdc.contract import Ranges, key_range
from framework.cdc.metrics import CdcMetrics
from framework.cdc.target import CdcTarget
from framework.foundation.addresses import TableAddress

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
