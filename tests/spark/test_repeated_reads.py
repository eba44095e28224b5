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

        for name, first, second in (
            ("of_table", "staff", "staff"),
            ("of_view", "everyone", "everyone"),
            ("of_views", "clerks", "chiefs"),
        ):
            dp.materialized_view(name=name)(lambda first=first, second=second: pairs(first, second))

        @dp.table
        def of_stream() -> DataFrame:
            x, y = spark.readStream.table("staff"), spark.read.table("staff")
            return x.join(y, x.manager == y.id).select(x.id, y.name)

    assert world.run(declare).state is UpdateState.COMPLETED
    found = {name: world.rows(name) for name in ("of_table", "of_view", "of_views", "of_stream")}
    assert found == {name: [(2, "chief")] for name in found}
