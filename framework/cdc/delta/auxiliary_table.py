"""The auxiliary table of a target: deletes, truncates and events that the target's rows do not represent.

It is a log: rows are appended, and deleted when they are old, but never changed. A repeated append has no effect.
"""

from __future__ import annotations

from contextlib import nullcontext

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta.new_tables import new_table
from framework.cdc.delta.transaction import Transaction
from framework.cdc.events.normalize import DELETE, TRUNCATE
from framework.cdc.model.columns import column, struct_of
from framework.cdc.model.event_order import point_of
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import (
    CONTENT,
    HIDDEN_COLUMN,
    METADATA_KEY,
    OPERATION_KIND,
    RECORDED,
    RECORDED_AT,
    TOMBSTONE,
)
from framework.engine.delta.table_version import read_table
from framework.engine.delta.transaction_identifiers import USER_METADATA, Batch, committing_once
from framework.engine.files.hadoop_storage import HadoopStorage
from framework.engine.jvm.java import built_once
from framework.engine.sessions.execution import with_settings
from framework.foundation.table_address import TableAddress

TRUNCATED_MARK = "__sluice_truncated"
"""A column that only tables with recorded truncates have; without it, no scan for truncates is needed."""

CHECKPOINT_INTERVAL = ("delta.checkpointInterval", "50")
"""A long interval, because each batch is a commit, and a log checkpoint costs as much as several batches."""

_COLUMN_MAPPING = ("delta.columnMapping.mode", "name")
_NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")


def table_exists(session: SparkSession, table: TableAddress) -> bool:
    """Return whether there is a Delta table at the address."""
    if table.path is not None:
        return DeltaTable.isDeltaTable(session, table.path)
    return session.catalog.tableExists(table.sql)


def create_auxiliary_table(session: SparkSession, table: TableAddress, target: CdcTarget) -> None:
    """Create the auxiliary table of a target, which does not exist; the user's readers never need it."""
    if table.path is not None:
        # Left by a creation that was killed: Delta creates no table where a log exists.
        HadoopStorage(table.path, session).delete_tree(f"{table.path}/_delta_log")
    builder = new_table(session, table, target.auxiliary_schema).property(*CHECKPOINT_INTERVAL)
    for key, value in mapped_properties(target.auxiliary_schema).items():  # the target has it, too
        builder = builder.property(key, value)
    builder.comment(f"{METADATA_KEY}: belongs to {target.name}").execute()


def mapped_properties(schema: StructType) -> dict[str, str]:
    """Return the table properties that a table with these columns needs for their names."""
    return dict([_COLUMN_MAPPING]) if _needs_mapping(schema) else {}


def _needs_mapping(schema: StructType) -> bool:
    """Return whether a column or a field of a struct has a name that Delta stores only with column mapping."""
    return any(
        _NOT_IN_PARQUET & {*field.name} or (isinstance(field.dataType, StructType) and _needs_mapping(field.dataType))
        for field in schema.fields
    )


def append_rows(rows: DataFrame, table: TableAddress, target: CdcTarget, *, batch: Batch, once: bool) -> None:
    """Append to the auxiliary table, which is created if needed and gains missing columns.

    The commit names its batch, so that a rewind finds the version of this table that matches a version of the target.

    Args:
        rows: rows in the schema of the auxiliary table.
        table: the address of the auxiliary table.
        target: the target.
        batch: the batch of the rows.
        once: whether a batch that the table already has is skipped; otherwise the rows are always appended.
    """
    session, rows = rows.sparkSession, rows.coalesce(1)
    if not table_exists(session, table):
        create_auxiliary_table(session, table, target)
    transaction = Transaction.begin(session, table, rows.schema, replacing=False)
    taken = batch if once else None
    with with_settings(session, {USER_METADATA: batch.metadata}):
        if transaction is None:
            _append_wider_rows(rows, table, taken)
        elif taken is None or not transaction.has_applied(taken):
            count = transaction.add(rows)
            transaction.commit(taken, CdcMetrics(rows=count, upserted=count))


def _append_wider_rows(rows: DataFrame, table: TableAddress, batch: Batch | None) -> None:
    """Append with Delta's own command, which adds missing columns to the table."""
    with committing_once(rows.sparkSession, batch) if batch is not None else nullcontext():
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        if table.path is not None:
            writer.save(table.path)
        else:
            writer.saveAsTable(table.sql)


def tombstone_rows(latest: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the deletes among a batch's latest events that must be recorded, as rows of the auxiliary table."""
    return latest.where(column(TOMBSTONE).isNotNull()).select(_tombstone(target), *(column(key) for key in target.keys))


@built_once
def _tombstone(target: CdcTarget) -> Column:
    return record_of(target, operation=F.lit(DELETE), point=column(TOMBSTONE)).alias(HIDDEN_COLUMN)


def truncate_row(session: SparkSession, target: CdcTarget, floor: Column) -> DataFrame:
    """Return a truncate as a row of the auxiliary table, without a key."""
    record = record_of(target, operation=F.lit(TRUNCATE), point=floor)
    keys = [F.lit(None).cast(target.table_schema[key].dataType).alias(key) for key in target.keys]
    return session.range(1).select(record.alias(HIDDEN_COLUMN), *keys, F.expr("true").alias(TRUNCATED_MARK))


def record_of(target: CdcTarget, *, operation: Column, point: Column, content: Column | None = None) -> Column:
    """Return the auxiliary table's struct column for an operation at a point; for an upsert, with its content."""
    made = {OPERATION_KIND: operation, RECORDED_AT: _now()}
    if content is not None:
        made[CONTENT] = content
    fields = struct_of(target.auxiliary_schema, HIDDEN_COLUMN).fields
    parts = {name: point.getField(name) for name in target.point_type.names} | made
    return F.struct(*(parts.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))


def _now() -> Column:
    """Return the time at which a row is computed.

    Spark inlines `current_timestamp` into generated code as a number, so the code of each batch would be compiled
    again, and run slowly until then.
    """
    milliseconds = F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis"))
    return F.timestamp_millis(milliseconds.cast("bigint"))


def read_auxiliary_table(session: SparkSession, table: TableAddress) -> DataFrame | None:
    """Return the rows of the auxiliary table; None if it does not exist yet."""
    return read_table(session, table, few_tasks=True) if table_exists(session, table) else None


def forget_deletes(session: SparkSession, table: TableAddress, *, older_than_seconds: int) -> None:
    """Remove deletes and truncates older than the limit; late events may then restore rows that they removed."""
    record = column(HIDDEN_COLUMN)
    limit = F.current_timestamp() - F.make_dt_interval(secs=F.lit(older_than_seconds))
    is_old = record.getField(OPERATION_KIND).isin(DELETE, TRUNCATE) & (record.getField(RECORDED_AT) < limit)
    DeltaTable.forName(session, table.sql).delete(is_old)


def tombstones_of(auxiliary: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the newest recorded delete of each key.

    Returns:
        The keys and `RECORDED`, the point of the delete.
    """
    return (
        auxiliary.where(_kind(auxiliary) == F.lit(DELETE))
        .groupBy(*(column(key) for key in target.keys))
        .agg(F.max(_point(auxiliary, target)).alias(RECORDED))
    )


def floor_of(auxiliary: DataFrame, target: CdcTarget) -> DataFrame | None:
    """Return the latest recorded truncate: one row with `RECORDED`, its point; None if none was ever recorded."""
    if TRUNCATED_MARK not in auxiliary.columns:
        return None
    truncates = auxiliary.where(_kind(auxiliary) == F.lit(TRUNCATE))
    return truncates.agg(F.max(_point(auxiliary, target)).alias(RECORDED))


def _kind(auxiliary: DataFrame) -> Column:
    return auxiliary[HIDDEN_COLUMN].getField(OPERATION_KIND)


def _point(auxiliary: DataFrame, target: CdcTarget) -> Column:
    """Return the point of an auxiliary row in the target's type; fields that the auxiliary table lacks are null."""
    stored: StructType = struct_of(auxiliary.schema, HIDDEN_COLUMN)
    hidden = auxiliary[HIDDEN_COLUMN]
    present = {name: hidden.getField(name) for name in stored.names}
    fields = [present.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.point_type.fields]
    return point_of(F.struct(*fields), target.point_type)
