"""AUTO CDC events that are already open in the quarantine, and that a flow reads again after a checkpoint reset.

The target applies an event once, however often it is read. So the quarantine also stores it once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import VariantType

from framework.cdc.model.equality import comparable
from framework.engine.sessions.execution import computed_once, count_kept
from framework.run.quarantine.row_state import RowState
from framework.run.quarantine.table import columns_of, is_of
from framework.run.quarantine.values import to_variant

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from framework.run.quarantine.states import RowStates
    from framework.run.quarantine.table import QuarantinedBatch, QuarantineTable

_VALUE = "__sluice_value"


class OpenEvents:
    """The events that earlier generations of a flow have left open; one run looks them up once.

    The batches of a run do not add to them. An event that is replayed or dropped meanwhile is not quarantined again.
    """

    def __init__(self) -> None:
        self._is_known = False
        self._known: DataFrame | None = None
        self._kept = ExitStack()

    def without(
        self, events: DataFrame, batch: QuarantinedBatch, table: QuarantineTable, states: Callable[[], RowStates]
    ) -> DataFrame:
        """Return the events of a batch except those that an earlier generation of the flow has left open.

        Only earlier generations count, so that the batch has the same result when it runs again.

        Args:
            events: faulty events, with the columns of `QuarantineTable.write_batch`; the same in each call.
            batch: the origin of the events.
            table: the quarantine.
            states: returns the row states that decide which rows are open.
        """
        if batch.generation == 1:
            return events
        columns = columns_of(events)
        if not self._is_known:
            self._known = self._find(columns, batch, table, states)
            self._is_known = True
        if self._known is None:
            return events
        return (
            events.withColumn(_VALUE, _identity(to_variant(columns)))
            .join(self._known, _VALUE, "left_anti")
            .drop(_VALUE)
        )

    def close(self) -> None:
        """Release the cached events."""
        self._kept.close()
        self._is_known, self._known = False, None

    def _find(
        self, columns: StructType, batch: QuarantinedBatch, table: QuarantineTable, states: Callable[[], RowStates]
    ) -> DataFrame | None:
        is_earlier = is_of(batch.dataset, batch.flow) & (F.col("generation") < F.lit(batch.generation))
        if not table.has_rows(is_earlier):
            return None
        earlier = table.read().where(is_earlier & (F.col("columns") == F.lit(columns.json())))
        is_open = states().column(earlier) == F.lit(RowState.OPEN.value)
        known = earlier.where(is_open).select(_identity(F.col("row")).alias(_VALUE)).distinct()
        kept = self._kept.enter_context(computed_once(known))
        return kept if count_kept(kept) else None


def _identity(row: Column) -> Column:
    return comparable(row, VariantType())
