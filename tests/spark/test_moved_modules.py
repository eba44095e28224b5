"""Habits of modules that were written for Databricks: the rows are those that they have there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.errors import GraphErrors
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = "id INT, at INT, name STRING"


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """Four events of two keys."""
    found = EngineWorld(spark, tmp_path)
    found.feed([(1, 1, "a"), (1, 3, "c"), (1, 2, "b"), (2, 1, "x")], EVENTS)
    return found


def test_flows_without_a_column_fill_in_null_and_a_change_feed_is_followed(world: EngineWorld) -> None:
    """`NULL AS name` of a backfill has the column's type; a stream of the pipeline reads the changes of a target.

    The global `spark` finds temporary views of a batch. `snapshot_and_version` is an older name of `source`. A once
    flow reports its own rows, while others commit to it.
    """
    spark = world.spark

    def declare() -> None:
        dp.create_streaming_table("everything")

        @dp.append_flow(target="everything")
        def live() -> DataFrame:
            return spark.readStream.format("delta").load(world.source())

        @dp.append_flow(target="everything", once=True)
        def backfill() -> DataFrame:
            return spark.sql("SELECT 9 AS id, 0 AS at, NULL AS name")

        dp.create_streaming_table("latest", table_properties={"delta.enableChangeDataFeed": "true"})
        dp.create_auto_cdc_flow(target="latest", source="events", keys=["id"], sequence_by="at")

        @dp.temporary_view
        def events() -> DataFrame:
            return spark.readStream.format("delta").load(world.source())

        def snapshots(latest: int | None) -> tuple[DataFrame, int] | None:
            return (spark.sql("SELECT 7 AS id, 'first' AS name"), 1) if latest is None else None

        dp.create_streaming_table("of_snapshots")
        dp.apply_changes_from_snapshot(target="of_snapshots", snapshot_and_version=snapshots, keys=["id"])  # type: ignore[call-arg]

        @dp.foreach_batch_sink
        def kept(batch: DataFrame, _: int) -> None:
            batch.createOrReplaceTempView("rows_of_the_batch")
            spark.sql("SELECT id, name FROM rows_of_the_batch").write.format("delta").mode("append").save(
                world.source("kept")
            )

        @dp.append_flow(target="kept")
        def to_keep() -> DataFrame:
            return spark.readStream.table("events").where("at = 3")

        @dp.table
        def changes() -> DataFrame:
            feed = spark.readStream.option("readChangeFeed", "true").table("latest")
            return feed.where("_change_type <> 'update_preimage'").select("_change_type", "id", "name")

    result = world.run(declare)
    assert result.state is UpdateState.COMPLETED
    assert [tuple(row) for row in table_rows(spark, world.source("kept"))] == [(1, "c")]
    assert world.rows("of_snapshots") == [(7, "first")]
    assert world.rows("everything") == [(1, 1, "a"), (1, 2, "b"), (1, 3, "c"), (2, 1, "x"), (9, 0, None)]
    assert {flow.flow.table: flow.rows_written for flow in result.flows if flow.dataset.table == "everything"} == {
        "live": 4,
        "backfill": 1,
    }
    world.feed([(1, 4, "d")], EVENTS)
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("changes") == [("insert", 1, "c"), ("insert", 2, "x"), ("update_postimage", 1, "d")]


def test_two_columns_of_one_name_are_found_before_an_update(world: EngineWorld) -> None:
    """A join by a condition has the columns of both sides; its line is named, and nothing is written."""
    spark = world.spark

    def declare() -> None:
        @dp.table
        def joined() -> DataFrame:
            events = spark.readStream.format("delta").load(world.source()).alias("events")
            names = spark.sql("SELECT 1 AS ID, 'Ann' AS customer").alias("names")
            return events.join(names, events["id"] == names["ID"])

    with pytest.raises(GraphErrors, match="DUPLICATE_COLUMNS") as raised:
        world.run(declare)
    assert raised.value.errors[0].fields["columns"] == "`id`"
