"""Appends of rows to a Delta table, once for each transaction, with the conversions of Delta's streaming sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.cdc.delta.table_version import TableVersion
from framework.cdc.model.columns import align_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.foundation.table_address import TableAddress


def last_taken(session: SparkSession, table: TableAddress, application_id: str) -> int:
    """Return the number of the last batch of an application that a table has; -1 if it has none."""
    return TableVersion(session, table).last_batch(application_id)


def has_taken(session: SparkSession, table: TableAddress, application_id: str, number: int) -> bool:
    """Return whether a table has a batch.

    Args:
        session: reads the table's log.
        table: the table, which exists.
        application_id: the application of the batch's transaction; for a stream the id of its query, as Spark's own
            sink has it.
        number: the batch's number in that application.
    """
    return last_taken(session, table, application_id) >= number


def append_once(rows: DataFrame, table: TableAddress, application_id: str, number: int) -> None:
    """Append rows to a table that does not have the batch; new columns are added to the table.

    Raises:
        pyspark.errors.PySparkException: a value does not fit its column, a constraint is violated, or a conflict.
    """
    stored = rows.sparkSession.read.format("delta").load(str(table.path)).schema
    writer = align_rows(rows, stored).write.format("delta").mode("append").option("mergeSchema", "true")
    writer.option("txnAppId", application_id).option("txnVersion", number).save(str(table.path))
