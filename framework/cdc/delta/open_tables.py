"""The tables of a target, opened for a batch: compacted, and with the implementation that writes the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.cdc.delta.auxiliary_table import read_auxiliary_table, table_exists
from framework.cdc.delta.compaction import compact
from framework.cdc.delta.merge_write import MergeWrite
from framework.cdc.delta.transaction import Transaction
from framework.cdc.delta.transaction_write import TransactionWrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.cdc.delta.destination import Destination
    from framework.cdc.delta.target_write import TargetWrite


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenTables:
    """A target's tables, opened for a batch.

    Args:
        write: writes the batch to the target.
        auxiliary: the rows of the auxiliary table; None if it does not exist yet.
    """

    write: TargetWrite
    auxiliary: DataFrame | None


def open_tables(session: SparkSession, destination: Destination, batch_id: int) -> OpenTables:
    """Open the tables of a target; this can run while a batch's events are counted.

    The transaction begins before the auxiliary table is read, and each writer commits to the auxiliary table first. So
    another process's batch is either already visible in the auxiliary table, or commits its rows to the target after
    this transaction began. In the second case, this transaction fails if it depends on those rows.
    """
    compact(session, destination.table, batch_id)
    if table_exists(session, destination.auxiliary):
        compact(session, destination.auxiliary, batch_id)
    batch = destination.batch(batch_id)
    merge_write = MergeWrite(session, destination.table, batch)
    transaction = Transaction.begin(session, destination.table, destination.target.table_schema)
    write: TargetWrite = merge_write
    if transaction is not None:
        write = TransactionWrite(session, transaction, batch, merge_write=merge_write)
    return OpenTables(write=write, auxiliary=read_auxiliary_table(session, destination.auxiliary))
