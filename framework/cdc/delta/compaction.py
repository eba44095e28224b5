"""Small files of a table made into larger ones, before so many pile up that reading them is what a batch costs.

Delta's own `autoCompact` asks after each commit which files the table has, which takes several Spark jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from framework.cdc.delta.table_version import TableVersion, can_open, each
from framework.cdc.delta.transaction_identifiers import CONFLICTS
from framework.cdc.spark.session_settings import with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.table_address import TableAddress

MANY = 40
"""So many small files are made into one; also, so many batches pass before a table with many files is looked after."""

_SMALL_BYTES = 32 * 1024 * 1024
_OPTIMIZE = "spark.databricks.delta.optimize"


def compact(session: SparkSession, table: TableAddress, batch_id: int) -> None:
    """Compact a table if it has many small files; it holds the same rows afterwards.

    Args:
        session: whose settings the commit takes.
        table: the table, which exists.
        batch_id: of the flow that writes; where the files are too many to be listed, every 40th looks after them.
    """
    if not _has_many_small_files(session, table, batch_id):
        return
    wanted = {f"{_OPTIMIZE}.minFileSize": str(_SMALL_BYTES), f"{_OPTIMIZE}.maxFileSize": str(4 * _SMALL_BYTES)}
    try:
        with with_settings(session, wanted):
            DeltaTable.forName(session, table.sql).optimize().executeCompaction()
    except CONFLICTS:
        return  # somebody else changed those files meanwhile; the next batch tries again


def _has_many_small_files(session: SparkSession, table: TableAddress, batch_id: int) -> bool:
    files = TableVersion(session, table).listed_files() if can_open(table) else None
    if files is None:
        return batch_id % MANY == MANY - 1
    return files.size() >= MANY and sum(int(file.size()) < _SMALL_BYTES for file in each(files)) >= MANY
