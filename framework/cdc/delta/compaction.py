"""Compaction of tables that receive a commit for each micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from framework.engine.delta.table_version import TableVersion, can_open, each
from framework.engine.delta.transaction_identifiers import CONFLICTS
from framework.engine.sessions.execution import with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.table_address import TableAddress

MANY = 40
"""The number of small files that triggers a compaction; also the interval in batches if files are not listed."""

_SMALL_BYTES = 32 * 1024 * 1024
_OPTIMIZE = "spark.databricks.delta.optimize"


def compaction_is_due(batch_id: int) -> bool:
    """Return whether a table is compacted after this batch if its files are not listed after each batch."""
    return batch_id % MANY == MANY - 1


def compact(session: SparkSession, table: TableAddress, batch_id: int) -> None:
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
        return compaction_is_due(batch_id)
    return files.size() >= MANY and sum(int(file.size()) < _SMALL_BYTES for file in each(files)) >= MANY
