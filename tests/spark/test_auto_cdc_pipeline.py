"""AUTO CDC in a pipeline: histories, new columns, expectations, and a table with a change data feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

OLD = "id int, name string, home struct<city: string>, op string, seq long"
NEW = "id int, name string, home struct<city: string, zip: string>, op string, seq long, age int"


def people(world: EngineWorld) -> Callable[[], None]:
    """Declares a target of changes and a snapshot; nameless people are dropped."""

    def declare() -> None:
        @dp.temporary_view
        def changes() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        dp.create_streaming_table(
            "people", expect_all_or_drop={"named": "name IS NOT NULL"},
            table_properties={"delta.enableChangeDataFeed": "true"},
        )  # fmt: skip
        dp.create_auto_cdc_flow(
            name="change", target="people", source="changes", keys=["id"], sequence_by="seq",
            apply_as_deletes="op = 'D'", except_column_list=["op", "seq"], stored_as_scd_type=2,
        )  # fmt: skip

        @dp.snapshot_flow(target="people", name="snapshot", keys=["id"], sequence_by=F.lit(0), stored_as_scd_type=2)
        def snapshot() -> DataFrame:
            return world.spark.sql("SELECT 1 AS id, 'Al' AS name, named_struct('city', 'Rome') AS home")

    return declare


def test_a_history_grows_with_its_source_and_expectations_spare_deletes(spark: SparkSession, tmp_path: Path) -> None:
    """New columns and fields are NULL in earlier rows; upserts without a name are dropped, deletes are not."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "Ann", ("Rome",), "U", 5), (2, None, ("Bonn",), "U", 5), (3, "Cy", ("Oslo",), "U", 7)], OLD)
    assert world.run(people(world)).state is UpdateState.COMPLETED
    world.feed([(1, "Ann", ("Rome", "00100"), "U", 4, 30), (3, None, None, "D", 9, None)], NEW)
    result = world.run(people(world))
    assert result.state is UpdateState.COMPLETED
    rows = [
        (row.id, row.name, row.home.city, row.home.zip, row.age, row["__START_AT"], row["__END_AT"])
        for row in table_rows(spark, world.path("people"))
    ]
    assert [
        (1, "Al", "Rome", None, None, 0, 4),
        (1, "Ann", "Rome", "00100", 30, 4, 5),
        (1, "Ann", "Rome", None, None, 5, None),
        (3, "Cy", "Oslo", None, None, 7, 9),
    ] == sorted(rows, key=lambda row: row[5] + 10 * row[0])
