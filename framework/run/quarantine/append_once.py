"""Idempotent appends to a Delta table, once per transaction, as in Delta's streaming sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.sessions.execution import active_session
from framework.run.tables.appended_files import SINK_OPTIONS, TableAppend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.foundation.table_address import TableAddress


def last_taken(session: SparkSession, table: TableAddress, application_id: str) -> int:
    """Return the number of an application's last batch in a table; -1 if there is none."""
    return TableVersion(session, table).last_batch(application_id)


def has_taken(session: SparkSession, table: TableAddress, application_id: str, number: int) -> bool:
    """Return whether a table has a batch of an application.

    Args:
        session: reads the table's log.
        table: the table, which exists.
        application_id: the application id of the batch's transaction; for a stream the id of its query, as in Spark's
            own sink.
        number: the batch's number in that application.
    """
    return last_taken(session, table, application_id) >= number


def append_once(rows: DataFrame, table: TableAddress, application_id: str, number: int) -> None:
    """Append rows to a table that does not have the batch; new columns are added to the table.

    Raises:
        pyspark.errors.PySparkException: a value does not fit its column, a constraint is violated, or a conflict.
    """
    session = rows.sparkSession
    if not can_open(table):  # Delta rejects rows of other types, even types that it could widen
        writer = rows.write.format("delta").mode("append").options(**SINK_OPTIONS)
        writer.option("txnAppId", application_id).option("txnVersion", number).save(str(table.path))
        return
    with active_session(session):  # the JVM's DataFrame belongs to the thread's session
        append = TableAppend.begin(session, table, application_id, number)
        if not append.has_applied():
            append.append_rows(rows)
