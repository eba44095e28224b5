"""The change data feed of an AUTO CDC target: another stream that follows it ends in the target's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_auto_cdc_scd1 import EXPECTED, FLOWS, GOLDEN
from tests.support.cdc_world import World
from tests.support.plain_tables import table_rows

Change = tuple[str, int, str | None, str | None]


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    """A target with a change data feed."""
    return World(spark, tmp_path, FLOWS, {"delta.enableChangeDataFeed": "true"})


def streamed(world: World, folder: Path) -> list[Change]:
    """Return the new rows of the feed that a stream reads with a checkpoint: kind of change and row, by commit."""
    reader = world.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", "0")
    feed = reader.load(str(world.table.path))
    out = folder / "out"
    before = len(table_rows(world.spark, str(out))) if out.exists() else 0
    query = feed.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint"))
    query.format("delta").start(str(out)).awaitTermination()
    rows = table_rows(world.spark, str(out))
    rows.sort(key=lambda row: (row["_commit_version"], row["userId"], row["_change_type"]))
    told = [(row["_change_type"], row["userId"], row["name"], row["city"]) for row in rows]
    assert len(told) >= before
    return told[before:]


def test_a_stream_from_the_feed_tells_each_change_once(world: World, tmp_path: Path) -> None:
    """Inserts, both images of updates, and deletes; a late event and a repeated batch change nothing."""
    world.apply("changes", GOLDEN[:4], batch_id=0)
    assert streamed(world, tmp_path) == [
        ("insert", 123, "Isabel", "Monterrey"),
        ("insert", 124, "Raul", "Oaxaca"),
        ("insert", 125, "Mercedes", "Tijuana"),
        ("insert", 126, "Lily", "Cancun"),
    ]
    world.apply("changes", GOLDEN[4:], batch_id=1)
    world.apply("changes", GOLDEN[4:], batch_id=1)
    world.apply("snapshot", [(126, "Lily", "Old")])
    assert streamed(world, tmp_path) == [
        ("delete", 123, "Isabel", "Monterrey"),
        ("update_postimage", 125, "Mercedes", "Guadalajara"),
        ("update_preimage", 125, "Mercedes", "Tijuana"),
    ]
    assert EXPECTED == world.rows()
