"""A stream writes to the table that it began with: others may put another one in its place while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.foundation.errors import OperationError
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.streaming_query import BatchFunction, StreamTarget
from framework.run.flows.written_tables import found_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def to_same_table(run: FlowRun, write: BatchFunction) -> StreamTarget:
    """Return the target whose batches are written only while the table has the id that the update found first.

    The writer compares the id again when it begins its transaction, and the log before it commits.

    Args:
        run: the flow's run.
        write: writes a batch.
    """
    if not run.dataset.is_table:
        return StreamTarget(batch_function=write)
    began_with = run.table.table_id

    def checked(rows: DataFrame, number: int) -> None:
        present = found_id(run.storage, run.path)
        if None not in {present, began_with} and present != began_with:
            raise OperationError("TABLE_REPLACED", location=run.dataset.spec.location, path=run.path)
        write(rows, number)

    return StreamTarget(batch_function=checked)
