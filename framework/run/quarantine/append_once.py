"""Appends of rows to a Delta table, once for each transaction, as Delta's streaming sink appends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.sessions.execution import active_session
from framework.run.tables.appended_files import SINK_OPTIONS, TableAppend

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
    session = rows.sparkSession
    if not can_open(table):  # Delta refuses rows of other types, even those that it could widen
        writer = rows.write.format("delta").mode("append").options(**SINK_OPTIONS)
        writer.option("txnAppId", application_id).option("txnVersion", number).save(str(table.path))
        return
    with active_session(session):  # the JVM's frame belongs to the thread's session
        append = TableAppend.begin(session, table, application_id, number)
        if not append.has_applied():
            append.append_rows(rows)
