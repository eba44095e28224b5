"""Streams of materialized views: they read the rows that a view gets, and fail if rows change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.run.update.results import FlowState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id long, name string, at long"


def test_a_stream_of_a_view_reads_what_an_update_adds(spark: SparkSession, tmp_path: Path) -> None:
    """AUTO CDC through a temporary view, with equal rows, dropped rows and an update without a new one."""
    world = EngineWorld(spark, tmp_path)

    def declare() -> None:
        @dp.materialized_view(comment="kept")
        @dp.expect_or_drop("named", "name IS NOT NULL")
        def staged() -> DataFrame:
            return world.spark.read.format("delta").load(world.source())

        @dp.temporary_view
        def changes() -> DataFrame:
            return world.spark.readStream.table("staged")

        @dp.table
        def seen() -> DataFrame:
            return world.spark.readStream.table("staged").select("id", "name")

        dp.create_streaming_table("history")
        dp.create_auto_cdc_flow("history", "changes", ["id"], sequence_by="at", stored_as_scd_type=2)

    world.feed([(1, "ada", 1), (2, "bob", 1), (2, "bob", 1), (3, None, 1)], COLUMNS)
    first = world.run(declare)
    notes = [
        each for each in world.pipeline(declare).validate().warnings if each.condition == "STREAM_OF_MATERIALIZED_VIEW"
    ]
    assert sorted((str(note.fields["flow"]), str(note.fields["view"])) for note in notes) == [
        ("main.s.history", "main.s.staged"), ("main.s.seen", "main.s.staged"),
    ]  # fmt: skip
    assert {*states(first).values()} == {FlowState.COMPLETED}
    world.feed([(1, "ada", 1), (4, None, 2), (1, "king", 3), (2, "old", 0)], COLUMNS)
    second = world.run(declare)
    assert FlowState.FAILED not in states(second).values()
    names = [(1, "ada"), (1, "ada"), (1, "king"), (2, "bob"), (2, "bob"), (2, "old")]
    assert world.rows("seen") == names
    (view,) = [flow for flow in second.flows if flow.flow.table == "staged"]
    assert (view.rows_written, [(each.passed, each.failed) for each in view.expectations]) == (3, [(6, 2)])
    history = spark.read.format("delta").load(world.path("history")).select("id", "name", "__START_AT", "__END_AT")
    assert sorted(map(tuple, history.collect()), key=str) == [
        (1, "ada", 1, 3), (1, "king", 3, None), (2, "bob", 1, None), (2, "old", 0, 1),
    ]  # fmt: skip
    versions = world.versions("staged")
    assert FlowState.FAILED not in states(world.run(declare)).values()
    assert world.versions("staged") == versions  # nothing was computed: the commit has the fingerprint

    spark.sql(f"DELETE FROM delta.`{world.source()}` WHERE name = 'bob'")
    ended = states(world.run(declare))
    assert (ended["staged"], ended["seen"]) == (FlowState.COMPLETED, FlowState.FAILED)
    assert sorted(row[:2] for row in world.rows("staged")) == [(1, "ada"), (1, "ada"), (1, "king"), (2, "old")]
