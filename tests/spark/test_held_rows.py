"""A flow over several sources reads the rows of one while another has nothing to read yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from framework import pipelines as dp
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_rows_of_one_source_do_not_wait_for_a_commit_of_another(spark: SparkSession, tmp_path: Path) -> None:
    """Both begin at their ends; each row that comes later is read once, in the update after its commit."""
    world = EngineWorld(spark.newSession(), tmp_path)
    world.feed([(1,)], "id INT", "hot")
    world.feed([(10,)], "id INT", "cold")

    def declare() -> None:
        @dp.table
        def both() -> DataFrame:
            reader = world.spark.readStream.format("delta").option("startingVersion", "latest")
            return reader.load(world.source("hot")).union(reader.load(world.source("cold")))

    pipeline = world.pipeline(declare)
    pipeline.run()
    read = []
    for number, called in ((2, "hot"), (3, "hot"), (11, "cold"), (4, "hot")):
        world.feed([(number,)], "id INT", called)
        pipeline.run()
        read.append(sorted(row[0] for row in world.rows("both")))
        assert pipeline.plan().steps[0].__class__.__name__ == "SkipStep"
    assert read == [[2], [2, 3], [2, 3, 11], [2, 3, 4, 11]]
