"""SCD type 1: the winners of a batch into the target, in one commit."""

from __future__ import annotations

from collections.abc import Mapping

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.cdc.columns import column, quote
from framework.cdc.companion import key_range
from framework.cdc.events import DELETE, OPERATION, UPSERT, order_of
from framework.cdc.metrics import CdcMetrics
from framework.cdc.reserved import HIDDEN_COLUMN
from framework.cdc.target import CdcTarget
from framework.foundation.addresses import TableAddress

_SOURCE = "__sluice_source"
_TARGET = "__sluice_target"


def merge_winners(
    winners: DataFrame, table: TableAddress, target: CdcTarget, ranges: Mapping[str, tuple[object, object]]
) -> CdcMetrics:
    """Bring the target's rows up to the winners that are newer than they are.

    A delete removes a row of its own sequence or a lower one; an upsert replaces a row of a lower
    order (sequence, then content), so applying the same winners again changes nothing.

    Returns:
        The rows that were upserted and deleted.
    """
    source_hidden, target_hidden = column(HIDDEN_COLUMN, of=_SOURCE), column(HIDDEN_COLUMN, of=_TARGET)
    is_delete = column(OPERATION, of=_SOURCE) == F.lit(DELETE)
    is_upsert = column(OPERATION, of=_SOURCE) == F.lit(UPSERT)
    overrules = order_of(target, source_hidden, content=False) >= order_of(target, target_hidden, content=False)
    is_newer = order_of(target, source_hidden, content=True) > order_of(target, target_hidden, content=True)
    row: dict[str, str | Column] = {quote(name): column(name, of=_SOURCE) for name in target.table_schema.fieldNames()}
    matching = key_range(ranges, of=_TARGET)
    for key in target.keys:
        matching = matching & (column(key, of=_SOURCE) == column(key, of=_TARGET))
    result = (
        DeltaTable.forName(winners.sparkSession, table.sql)
        .alias(_TARGET)
        .merge(winners.alias(_SOURCE), matching)
        .whenMatchedDelete(condition=is_delete & overrules)
        .whenMatchedUpdate(condition=is_upsert & is_newer, set=row)
        .whenNotMatchedInsert(condition=is_upsert, values=row)
        .execute()
    )
    counts = result.first()
    if counts is None:
        return CdcMetrics(skipped=True)
    return CdcMetrics(
        upserted=counts["num_updated_rows"] + counts["num_inserted_rows"], deleted=counts["num_deleted_rows"]
    )
