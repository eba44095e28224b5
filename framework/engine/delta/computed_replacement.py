"""Replaces all rows of a table with columns that Delta computes: generated columns, and identity columns.

`createOrReplace` computes no columns. Here the columns are defined in the transaction of Delta's own write, which then
computes them; the values of identity columns start over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from framework.engine.delta.fed_replacement import Check, commit_replacement, has_feed
from framework.engine.delta.table_overwrite import ALL_PARTITIONS
from framework.engine.delta.table_replacement import TableDefinition
from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.sessions.execution import active_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from framework.foundation.table_address import TableAddress


def replace_and_compute(
    table: TableAddress,
    rows: DataFrame,
    columns: StructType,
    definition: TableDefinition,
    *,
    check: Check,
    user_metadata: str,
) -> None:
    """Replace rows, columns and definition of a table in one commit, and let Delta compute columns.

    The table gets a new id, as from `createOrReplace`, unless it has a change data feed, whose readers must be able to
    continue.

    Args:
        table: the table, which exists.
        rows: the new rows, without columns that Delta computes, except for columns that it checks.
        columns: all columns; the metadata of computed columns contains their definitions.
        definition: the new definition.
        check: called with the columns that are replaced; if it raises, nothing is written.
        user_metadata: recorded in the commit.

    Raises:
        pyspark.errors.PySparkException: an error of the query, or one of Delta's conflicts.
    """
    if not can_open(table):  # the columns are the ones with which the table was created
        check(rows.sparkSession.read.format("delta").load(str(table.path)).schema.json())
        writer = rows.write.format("delta").mode("overwrite").option("userMetadata", user_metadata)
        writer.options(**ALL_PARTITIONS).save(str(table.path))
        return
    with active_session(rows.sparkSession):  # Delta reads settings from the thread's session
        version = TableVersion(rows.sparkSession, table)
        check(str(version.snapshot.metadata().schemaString()))
        table_id = version.table_id if has_feed(definition.properties) else str(uuid4())
        commit_replacement(
            version, rows, definition, table_id=table_id, columns=columns.json(), user_metadata=user_metadata
        )
