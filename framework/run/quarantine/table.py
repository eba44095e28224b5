"""The quarantine table: its columns, and its writes, one commit each.

A flow writes a batch's quarantined rows before it writes the others to its target. A crash in between is safe: the
batch runs again, and its rows replace those of the first attempt, even if the code has changed in between.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from framework.cdc.delta.new_tables import new_table
from framework.cdc.model.columns import column
from framework.engine.delta.table_version import read_table
from framework.foundation.files.storage import Storage
from framework.foundation.names import QualifiedName, string_literal
from framework.foundation.table_address import TableAddress
from framework.run.quarantine.values import to_variant
from framework.run.tables.quarantine_place import QUARANTINE_FOLDER
from framework.sources.delta.log import latest_version

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

REASONS, FILE = "__sluice_reasons", "__sluice_file"
"""Columns of a flow's rows: the reasons why a row is quarantined (an empty array if it is not), and its file."""

ID, LOST = "__sluice_id", "__sluice_lost"
"""Columns of replayed rows: the row's id, and whether one of its values does not fit."""

OWN_COLUMNS = frozenset({REASONS, FILE, ID, LOST})
"""The column names that a flow with a quarantine must not use."""

KEPT = "sluice:kept"
"""The transaction of rows that a full refresh with history has kept, and that no batch of their generation has read."""

_BEFORE_ALL_BATCHES = -1
_FEW_ROWS = 100_000
SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("pipeline", StringType()),
        StructField("flow", StringType()),
        StructField("dataset", StringType()),
        StructField("generation", IntegerType()),
        StructField("batch", LongType()),
        StructField("update_id", StringType()),
        StructField("reasons", ArrayType(StringType())),
        StructField("quarantined_at", TimestampType()),
        StructField("position", StringType()),
        StructField("file", StringType()),
        StructField("columns", StringType()),
        StructField("row", VariantType()),
        StructField("transaction", StringType()),
        StructField("replays", IntegerType()),
        StructField("replay", StringType()),
        StructField("replayed_at", TimestampType()),
    ]
)
_creation = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedBatch:
    """The origin of quarantined rows.

    Args:
        pipeline: the pipeline's name.
        flow: the flow's full name.
        dataset: its target.
        generation: the generation of its checkpoint.
        number: the batch's number, as in the target's transaction.
        transaction: the application id in that transaction.
        update_id: the update that ran the batch.
        position: JSON with the source offsets before and after the batch; None for a once flow with a batch source.
    """

    pipeline: str
    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    number: int
    transaction: str
    update_id: str
    position: str | None = None

    @property
    def condition(self) -> str:
        """An SQL condition for the rows of the batch.

        A flow that moved to another table has a checkpoint for each table, and so batches with equal numbers.
        """
        return f"{self.generation_condition} AND batch = {self.number}"

    @property
    def generation_condition(self) -> str:
        """An SQL condition for the rows of all batches of its generation."""
        names = f"flow = {string_literal(str(self.flow))} AND dataset = {string_literal(str(self.dataset))}"
        return f"{names} AND generation = {self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuarantineTable:
    """The quarantine table in a pipeline's storage, which is created when the first row is quarantined.

    Args:
        storage: the pipeline's storage.
        session: reads and writes the table.
    """

    storage: Storage
    session: SparkSession

    @property
    def path(self) -> str:
        """The folder of the table."""
        return self.storage.path(QUARANTINE_FOLDER)

    def exists(self) -> bool:
        """Whether a row was ever quarantined."""
        return latest_version(self.storage, self.path) is not None

    def rows(self) -> DataFrame:
        """Return all quarantined rows; an empty frame if there are none."""
        if not self.exists():
            return self.session.createDataFrame([], SCHEMA)
        return self.session.read.format("delta").load(self.path)

    def read(self) -> DataFrame:
        """Return all rows for a query that runs now and only once; a small table is read without file listing jobs."""
        return read_table(self.session, TableAddress(path=self.path), few_tasks=True) if self.exists() else self.rows()

    def table(self) -> DeltaTable:
        """Return the table for changes; it must exist."""
        return DeltaTable.forPath(self.session, self.path)

    def write_batch(self, rows: DataFrame, batch: QuarantinedBatch, *, count: int, is_new: bool) -> None:
        """Replace the quarantined rows of a batch, including those of earlier attempts, in one commit.

        Args:
            rows: the rows, with `REASONS` and `FILE`.
            batch: the origin of the rows.
            count: their number.
            is_new: whether the table has no rows of an earlier attempt.
        """
        self._create()
        stored = _stored(rows, batch)
        stored = stored.coalesce(1) if count < _FEW_ROWS else stored
        writer = stored.write.format("delta").mode("append")
        if not is_new:  # Delta's replacement takes four jobs, and an append one
            # Only this flow writes to its partition, so other flows that quarantine rows meanwhile cause no conflict.
            writer = writer.mode("overwrite").option("replaceWhere", batch.condition)
        writer.save(self.path)

    def last_batch(self, batch: QuarantinedBatch) -> int:
        """Return the last batch with rows of the flow's generation, which may be a later batch; -1 for none.

        A checkpoint and a table that were restored from a backup run batches again whose rows are already quarantined.
        """
        if not self.exists():
            return _BEFORE_ALL_BATCHES
        found = self.read().where(batch.generation_condition).agg(F.max("batch")).first()
        return _BEFORE_ALL_BATCHES if found is None or found[0] is None else int(found[0])

    def forget_batch(self, batch: QuarantinedBatch) -> None:
        """Delete the rows of a batch that runs again without quarantining anything."""
        if self.has_rows(batch.condition):
            self.table().delete(batch.condition)

    def keep(self, chosen: DataFrame, flows: Collection[QualifiedName]) -> None:
        """Move rows to other generations, whose batches do not have them, in one commit.

        Args:
            chosen: in the column `ID`, each row's `id` and `flow`, and its new `generation`.
            flows: the flows of the rows; only commits to their partitions are conflicts.
        """
        names = ", ".join(string_literal(str(flow)) for flow in flows)
        is_same = f"kept.flow IN ({names}) AND kept.flow = chosen.{ID}.flow AND kept.id = chosen.{ID}.id"
        merge = self.table().alias("kept").merge(chosen.alias("chosen"), is_same)
        values: dict[str, str | Column] = {
            "generation": F.col(f"chosen.{ID}.generation"),
            "batch": F.lit(_BEFORE_ALL_BATCHES),
            "transaction": F.lit(KEPT),
        }
        merge.whenMatchedUpdate(set=values).execute()

    def has_rows(self, condition: str | Column) -> bool:
        """Whether any row meets a condition."""
        return self.exists() and not self.read().where(condition).isEmpty()

    def _create(self) -> None:
        with _creation:
            if self.exists():
                return
            # A process that was killed while it created the table left a log folder, where Delta then creates no table.
            self.storage.delete_tree(f"{self.path}/_delta_log")
            new_table(self.session, TableAddress(path=self.path), SCHEMA).partitionedBy("flow").execute()


def is_of(dataset: QualifiedName, flow: QualifiedName) -> Column:
    """Return whether a quarantined row comes from a flow into a dataset."""
    return (F.col("flow") == F.lit(str(flow))) & (F.col("dataset") == F.lit(str(dataset)))


def by_columns(rows: DataFrame) -> Iterator[tuple[DataFrame, StructType]]:
    """Yield quarantined rows grouped by the columns that their query returned."""
    for row in rows.select("columns").distinct().orderBy("columns").collect():
        yield rows.where(F.col("columns") == F.lit(row["columns"])), StructType.fromJson(json.loads(row["columns"]))


def columns_of(rows: DataFrame) -> StructType:
    """Return the columns of a flow's rows without `REASONS` and `FILE`."""
    return StructType([field for field in rows.schema.fields if field.name not in {REASONS, FILE}])


def _stored(rows: DataFrame, batch: QuarantinedBatch) -> DataFrame:
    schema = columns_of(rows)
    values = {
        "id": F.uuid(),
        "pipeline": F.lit(batch.pipeline),
        "flow": F.lit(str(batch.flow)),
        "dataset": F.lit(str(batch.dataset)),
        "generation": F.lit(batch.generation),
        "batch": F.lit(batch.number),
        "update_id": F.lit(batch.update_id),
        "reasons": column(REASONS),
        "quarantined_at": F.current_timestamp(),
        "position": F.lit(batch.position),
        "file": column(FILE),
        "columns": F.lit(schema.json()),
        "row": to_variant(schema),
        "transaction": F.lit(batch.transaction),
        "replays": F.lit(0),
    }
    return rows.select(
        *(values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in SCHEMA.fields)
    )
