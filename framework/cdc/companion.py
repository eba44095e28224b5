"""The companion table: what must be known of keys that the target does not show.

It is a log: rows are only ever appended (and collected when they are old), never changed, so an
append that is repeated says nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.cdc.columns import align_column, column, struct_of
from framework.cdc.events import DELETE, OPERATION, UPSERT, order_of
from framework.cdc.idempotence import committing_once
from framework.cdc.reserved import HIDDEN_COLUMN, METADATA_KEY
from framework.cdc.target import CdcTarget
from framework.foundation.addresses import TableAddress

TOMBSTONE = "__sluice_tombstone"
LATE = "__sluice_late"


def table_exists(session: SparkSession, table: TableAddress) -> bool:
    """Whether there is a Delta table at the address."""
    if table.path is not None:
        return DeltaTable.isDeltaTable(session, table.path)
    return session.catalog.tableExists(table.sql)


def create_companion(session: SparkSession, table: TableAddress, target: CdcTarget) -> None:
    """Create the companion of a target if it is not there; the user's readers never need it."""
    builder = DeltaTable.createIfNotExists(session)
    builder = builder.location(table.path) if table.path is not None else builder.tableName(table.sql)
    builder.addColumns(target.companion_schema).comment(f"{METADATA_KEY}: belongs to {target.name}").execute()


def append_tombstones(
    winners: DataFrame, table: TableAddress, target: CdcTarget, *, application_id: str, batch_id: int
) -> None:
    """Record the deletes among a batch's winners, once."""
    session = winners.sparkSession
    if not table_exists(session, table):
        create_companion(session, table, target)
    rows = winners.where(column(OPERATION) == F.lit(DELETE)).select(
        *(column(key) for key in target.keys), _record(target).alias(HIDDEN_COLUMN)
    )
    writer = rows.coalesce(1).write.format("delta").mode("append").option("mergeSchema", "true")
    with committing_once(session, application_id=application_id, batch_id=batch_id):
        if table.path is not None:
            writer.save(table.path)
        else:
            writer.saveAsTable(table.sql)


def _record(target: CdcTarget) -> Column:
    hidden = column(HIDDEN_COLUMN)
    made = {"operation": column(OPERATION), "recorded_at": F.current_timestamp()}
    names = struct_of(target.companion_schema, HIDDEN_COLUMN).fieldNames()
    return F.struct(*(made.get(name, hidden.getField(name)).alias(name) for name in names))


def read_tombstones(session: SparkSession, table: TableAddress, target: CdcTarget) -> DataFrame:
    """The highest recorded delete of each key.

    Returns:
        The keys and `TOMBSTONE`, the order of the delete without its content.
    """
    stored = session.table(table.sql)
    hidden = struct_of(stored.schema, HIDDEN_COLUMN)
    ours = align_column(column(HIDDEN_COLUMN), hidden, struct_of(target.companion_schema, HIDDEN_COLUMN))
    return (
        stored.where(column(HIDDEN_COLUMN).getField("operation") == F.lit(DELETE))
        .groupBy(*(column(key) for key in target.keys))
        .agg(F.max(order_of(target, ours, content=False)).alias(TOMBSTONE))
    )


def drop_deleted(winners: DataFrame, tombstones: DataFrame, target: CdcTarget) -> DataFrame:
    """The winners with `LATE`: whether a recorded delete of their key overrules them.

    A delete overrules upserts of its own sequence too. Deletes are never late, for after a crash
    between the two commits a batch meets its own tombstones.
    """
    known = winners.join(tombstones, list(target.keys), "left")
    own = order_of(target, column(HIDDEN_COLUMN), content=False)
    overruled = column(TOMBSTONE).isNotNull() & (own <= column(TOMBSTONE))
    return known.withColumn(LATE, (column(OPERATION) == F.lit(UPSERT)) & overruled).drop(TOMBSTONE)


def key_range(ranges: Mapping[str, tuple[object, object]], *, of: str | None = None) -> Column:
    """A condition that a table's rows with keys of the batch fulfil, by which Delta skips files."""
    condition = F.expr("true")
    for key, (least, greatest) in ranges.items():
        value = column(key, of=of)
        condition = condition & (value >= F.lit(least)) & (value <= F.lit(greatest))
    return condition
