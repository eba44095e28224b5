"""Appends the rows of a query that its table lacks, so that streams of the table can continue.

A replaced table gets a new id, and a stream that has read the table under its old id fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.storagelevel import StorageLevel

from framework.engine.delta.table_replacement import TableDefinition, keeps_definition
from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.sessions.execution import active_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.foundation.table_address import TableAddress

_NOT_COMPARED = ("map<", "variant", "geography", "geometry")


def append_difference(table: TableAddress, rows: DataFrame, definition: TableDefinition, *, user_metadata: str) -> bool:
    """Append the rows that a table lacks in one commit, if it has only rows of `rows`, duplicates counted.

    Args:
        table: the table, which exists.
        rows: all rows that the table must have; computed once.
        definition: the definition, which the table must already have.
        user_metadata: recorded in the commit, which is made even without new rows.

    Returns:
        Whether the table has the rows. If not, nothing was written: the table has other rows, another definition,
        columns that Spark does not compare, or an untested version of Delta.

    Raises:
        pyspark.errors.PySparkException: an error of the query.
    """
    if not can_open(table) or any(kind in rows.schema.simpleString() for kind in _NOT_COMPARED):
        return False
    with active_session(rows.sparkSession):  # Delta reads settings from the thread's session
        version = TableVersion(rows.sparkSession, table)
        if not keeps_definition(version, rows, definition):
            return False
        stored = rows.sparkSession.table(table.sql)
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            if not stored.exceptAll(kept).isEmpty():
                return False
            # One commit: if the process stops before it, the rows of the last update remain and are compared again.
            kept.exceptAll(stored).writeTo(table.sql).option("userMetadata", user_metadata).append()
        finally:
            kept.unpersist()
    return True
