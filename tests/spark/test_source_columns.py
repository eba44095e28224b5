"""Columns that an external source gets while an update runs: the tables have them before a row does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.foundation.failpoints import arm, disarm
from framework.record.events import EventType
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

DDL = "id INT, name STRING, seq INT"


def test_no_value_is_lost_of_a_column_that_a_source_gets_after_the_analysis(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """AUTO CDC has planned its target without the column; the flow stops, and the update runs it again with it.

    A column that a user adds to a table of the pipeline stops nothing: no analysis sees it.
    """
    world = EngineWorld(interpreting, tmp_path)

    def read() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    def declare() -> None:
        dp.table(name="bronze")(read)
        dp.temporary_view(name="changes")(read)
        for target, source in (("silver", "bronze"), ("direct", "changes")):
            dp.create_streaming_table(target)
            dp.create_auto_cdc_flow(target=target, source=source, keys=["id"], sequence_by="seq")

    world.feed([(1, "a", 1)], DDL)
    arm("tables.after_create", action=lambda: world.feed([(1, "b", 2, "x"), (2, "c", 1, "y")], f"{DDL}, more STRING"))
    result = world.run(declare)
    assert disarm()["tables.after_create"] >= 3
    assert result.state is UpdateState.COMPLETED
    rows = [(1, "b", 2, "x"), (2, "c", 1, "y")]
    assert world.rows("bronze") == [(1, "a", 1, None), *rows]
    assert (world.rows("silver"), world.rows("direct")) == (rows, rows)
    errors = [
        str(event.error.exceptions[0].message) for event in world.events(type=EventType.FLOW_PROGRESS) if event.error
    ]
    assert len(errors) == 2
    assert all("SOURCE_COLUMNS_CHANGED" in error and "more (none before, string now)" in error for error in errors)

    world.spark.sql(f"ALTER TABLE delta.`{world.path('bronze')}` ADD COLUMN own STRING")
    world.feed([(3, "d", 1, "z")], f"{DDL}, more STRING")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert (world.rows("silver"), world.rows("direct")) == ([*rows, (3, "d", 1, "z")],) * 2
    assert len([event for event in world.events(type=EventType.FLOW_PROGRESS) if event.error]) == 2
