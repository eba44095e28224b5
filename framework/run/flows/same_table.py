"""A stream writes to the table that it began with: others may put another one in its place while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.foundation.errors import OperationError
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.streaming_query import BatchFunction, StreamTarget
from framework.sources.delta.log import read_tip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def to_same_table(run: FlowRun, write: BatchFunction) -> StreamTarget:
    """Return the target whose batches are written only while the table has the id that it has now.

    One that is put in place after the batch has begun its transaction is a conflict of Delta: the definition changed.

    Args:
        run: the flow's run.
        write: writes a batch.
    """
    if not run.dataset.is_table:
        return StreamTarget(batch_function=write)
    began_with = _table_id(run)

    def checked(rows: DataFrame, number: int) -> None:
        present = _table_id(run)
        if None not in {present, began_with} and present != began_with:
            raise OperationError(
                "TABLE_REPLACED", location=run.dataset.spec.location, dataset=run.dataset.name, path=run.path,
                flow=run.flow.spec.name,
            )  # fmt: skip
        write(rows, number)

    return StreamTarget(batch_function=checked)


def _table_id(run: FlowRun) -> str | None:
    """Return Delta's id of the table; None if there is none, which the write itself reports, or if it is unknown."""
    tip = read_tip(run.storage, run.path)
    return None if tip is None else tip.table_id
