"""The tables of a target, opened for a batch: compacted, and with the implementation that writes the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from framework.cdc.delta.auxiliary_table import read_auxiliary_table, table_exists
from framework.cdc.delta.merge_write import MergeWrite
from framework.cdc.delta.table_version import TableVersion, can_open, each
from framework.cdc.delta.transaction import Transaction
from framework.cdc.delta.transaction_identifiers import CONFLICTS
from framework.cdc.delta.transaction_write import TransactionWrite
from framework.cdc.spark.execution import with_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.cdc.delta.destination import Destination
    from framework.cdc.delta.target_write import TargetWrite
    from framework.foundation.table_address import TableAddress

MANY = 40
"""The number of small files that starts a compaction; also the interval in batches if the files are not listed."""

_SMALL_BYTES = 32 * 1024 * 1024
_OPTIMIZE = "spark.databricks.delta.optimize"


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

    The transaction begins before the auxiliary table is read, and each writer commits to the auxiliary table first.
    So another process's batch is either visible in the auxiliary table already, or it commits its rows to the
    target after this transaction began. In the second case this transaction fails if it depends on those rows.
    """
    _compact(session, destination.table, batch_id)
    if table_exists(session, destination.auxiliary):
        _compact(session, destination.auxiliary, batch_id)
    batch = destination.batch(batch_id)
    merge_write = MergeWrite(session, destination.table, batch)
    transaction = Transaction.begin(session, destination.table, destination.target.table_schema)
    write: TargetWrite = merge_write
    if transaction is not None:
        write = TransactionWrite(session, transaction, batch, merge_write=merge_write)
    return OpenTables(write=write, auxiliary=read_auxiliary_table(session, destination.auxiliary))


def _compact(session: SparkSession, table: TableAddress, batch_id: int) -> None:
    """Compact a table if it has many small files, before their number dominates the cost of a batch.

    Delta's own `autoCompact` lists the table's files after each commit, which takes several Spark jobs.

    Args:
        session: the session whose settings the commit uses.
        table: the table, which exists.
        batch_id: the batch of the flow that writes; if the files cannot be listed, every 40th batch compacts.
    """
    if not _has_many_small_files(session, table, batch_id):
        return
    wanted = {f"{_OPTIMIZE}.minFileSize": str(_SMALL_BYTES), f"{_OPTIMIZE}.maxFileSize": str(4 * _SMALL_BYTES)}
    try:
        with with_settings(session, wanted):
            DeltaTable.forName(session, table.sql).optimize().executeCompaction()
    except CONFLICTS:
        return  # another commit changed those files; the next batch retries


def _has_many_small_files(session: SparkSession, table: TableAddress, batch_id: int) -> bool:
    files = TableVersion(session, table).listed_files() if can_open(table) else None
    if files is None:
        return batch_id % MANY == MANY - 1
    return files.size() >= MANY and sum(int(file.size()) < _SMALL_BYTES for file in each(files)) >= MANY
