"""The events of an AUTO CDC flow that are open in the quarantine already: a reset of its checkpoint reads them again.

The table takes an event once, however often it is read, and so does the quarantine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import VariantType

from framework.cdc.model.equality import comparable
from framework.run.quarantine.states import RowState
from framework.run.quarantine.table import columns_of, is_of
from framework.run.quarantine.values import to_variant

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from framework.run.quarantine.states import RowStates
    from framework.run.quarantine.table import QuarantinedBatch, QuarantineTable

_VALUE = "__sluice_value"


def without_open(events: DataFrame, batch: QuarantinedBatch, table: QuarantineTable, states: RowStates) -> DataFrame:
    """Return the events of a batch that no earlier generation of its flow has left open.

    Only earlier generations count, so that the batch decides alike when it runs again.

    Args:
        events: faulty events, with the columns of `QuarantineTable.write_batch`.
        batch: their origin.
        table: the quarantine.
        states: decides which rows are open.
    """
    is_earlier = is_of(batch.dataset, batch.flow) & (F.col("generation") < F.lit(batch.generation))
    if batch.generation == 1 or not table.has_rows(is_earlier):
        return events
    columns = columns_of(events)
    earlier = table.read().where(is_earlier & (F.col("columns") == F.lit(columns.json())))
    is_open = states.column(earlier) == F.lit(RowState.OPEN.value)
    known = earlier.where(is_open).select(_identity(F.col("row")).alias(_VALUE)).distinct()
    return events.withColumn(_VALUE, _identity(to_variant(columns))).join(known, _VALUE, "left_anti").drop(_VALUE)


def _identity(row: Column) -> Column:
    return comparable(row, VariantType())
