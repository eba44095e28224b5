"""A query that reads a dataset of the pipeline twice: joined with itself, directly or through views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def test_a_dataset_can_be_joined_with_itself_by_the_columns_of_each_read(spark: SparkSession, tmp_path: Path) -> None:
    """Each read has its own columns, as with tables of a catalog: of a table, a view, and two views of one view."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "chief", None), (2, "clerk", 1)], "id long, name string, manager long")

    def pairs(first: str, second: str) -> DataFrame:
        x, y = spark.read.table(first), spark.read.table(second)
        return x.join(y, x.manager == y.id).select(x.id, y.name)

    def declare() -> None:
        @dp.table
        def staff() -> DataFrame:
            return spark.readStream.format("delta").load(world.source())

        @dp.temporary_view
        def everyone() -> DataFrame:
            return spark.read.format("delta").load(world.source())

        @dp.temporary_view
        def clerks() -> DataFrame:
            return spark.read.table("everyone").where("id = 2")

        @dp.temporary_view
        def chiefs() -> DataFrame:
            return spark.read.table("everyone").where("id = 1")

        @dp.materialized_view
        def of_one() -> DataFrame:
            return pairs("staff", "staff").union(pairs("everyone", "everyone"))

        @dp.materialized_view
        def of_views() -> DataFrame:
            return pairs("clerks", "chiefs")

        @dp.table
        def of_stream() -> DataFrame:
            x, y = spark.readStream.table("staff"), spark.read.table("staff")
            return x.join(y, x.manager == y.id).select(x.id, y.name)

    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("of_one") == [(2, "chief"), (2, "chief")]
    assert (world.rows("of_views"), world.rows("of_stream")) == ([(2, "chief")], [(2, "chief")])
