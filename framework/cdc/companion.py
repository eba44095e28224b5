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
from framework.cdc.events import DELETE, OPERATION, order_of
from framework.cdc.idempotence import committing_once
from framework.cdc.reserved import HIDDEN_COLUMN, METADATA_KEY
from framework.cdc.target import CdcTarget
from framework.foundation.addresses import TableAddress

_TOMBSTONE = "__sluice_tombstone"


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


def drop_deleted(
    winners: DataFrame, table: TableAddress, target: CdcTarget, ranges: Mapping[str, tuple[object, object]]
) -> DataFrame:
    """The winners without upserts that a recorded delete of their key overrules.

    A delete overrules upserts of its own sequence too. Deletes stay, for after a crash between the
    two commits a batch meets its own tombstones.
    """
    stored = winners.sparkSession.table(table.sql)
    hidden = stored.schema[HIDDEN_COLUMN].dataType
    ours = align_column(column(HIDDEN_COLUMN), hidden, target.companion_schema[HIDDEN_COLUMN].dataType)
    deletes = stored.where(column(HIDDEN_COLUMN).getField("operation") == F.lit(DELETE)).where(key_range(ranges))
    keys = [column(key) for key in target.keys]
    tombstones = (
        deletes.join(F.broadcast(winners.select(*keys)), list(target.keys), "left_semi")
        .groupBy(*keys)
        .agg(F.max(order_of(target, ours, content=False)).alias(_TOMBSTONE))
    )
    known = winners.join(tombstones, list(target.keys), "left")
    own = order_of(target, column(HIDDEN_COLUMN), content=False)
    alive = (column(OPERATION) == F.lit(DELETE)) | column(_TOMBSTONE).isNull() | (own > column(_TOMBSTONE))
    return known.where(alive).drop(_TOMBSTONE)


def key_range(ranges: Mapping[str, tuple[object, object]], *, of: str | None = None) -> Column:
    """A condition that a table's rows with keys of the batch fulfil, by which Delta skips files."""
    condition = F.expr("true")
    for key, (least, greatest) in ranges.items():
        value = column(key, of=of)
        condition = condition & (value >= F.lit(least)) & (value <= F.lit(greatest))
    return condition
