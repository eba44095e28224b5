"""A source whose folder is put back from a backup, and written on to, has the same versions with other commits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, forget_tables, states
from tests.support.interruption import copying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def declare(world: EngineWorld) -> None:
    """A table of appended rows, a target of AUTO CDC and a view of one external table."""

    def rows() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    dp.table(name="appended")(rows)
    dp.create_streaming_table("applied")
    dp.auto_cdc_flow(target="applied", name="apply", keys=["id"], sequence_by="id")(rows)

    @dp.materialized_view
    def seen() -> DataFrame:
        return world.spark.read.format("delta").load(world.source())


def test_a_source_that_was_put_back_and_written_to_the_same_version_is_not_skipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The view has its rows, the streams fail with a condition that the plan has, and a full refresh mends them."""
    world = EngineWorld(spark.newSession(), tmp_path)
    source, backup = Path(world.source()), tmp_path / "backup"
    world.feed([(1,)], "id INT")
    shutil.copytree(source, backup)
    world.feed([(2,)], "id INT")
    pipeline = world.pipeline(lambda: declare(world))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert {*states(pipeline.run()).values()} <= {FlowState.IDLE}
    shutil.rmtree(source)
    shutil.move(backup, source)
    forget_tables()
    world.feed([(50,)], "id INT")
    broken = {
        step.flow.table: step.broken.condition
        for step in pipeline.plan().steps
        if isinstance(step, RunFlow) and step.broken
    }
    assert broken == {"appended": "DELTA_SOURCE_PUT_BACK", "apply": "DELTA_SOURCE_PUT_BACK"}
    assert pipeline.run().state is UpdateState.FAILED
    assert world.rows("seen") == [(1,), (50,)]
    assert world.rows("appended") == [(1,), (2,)]
    assert pipeline.run(full_refresh=["appended", "applied"]).state is UpdateState.COMPLETED
    assert [world.rows(name) for name in ("seen", "appended", "applied")] == [[(1,), (50,)]] * 3


def test_a_source_that_is_put_back_after_a_kill_is_known_by_what_was_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Killed before the stream has read a row, the next update has all rows; killed after it, it fails and says so."""
    world = EngineWorld(spark.newSession(), tmp_path / "made")

    def follow(world: EngineWorld) -> None:
        dp.table(name="appended")(lambda: world.spark.readStream.format("delta").load(world.source()))

    world.feed([(1,)], "id INT")
    shutil.copytree(world.source(), tmp_path / "backup")
    world.feed([(2,)], "id INT")
    copies = {point: tmp_path / point for point in ("sources.after_known", "sources.before_known")}
    copying(lambda: world.run(lambda: follow(world)), world.root, copies)
    errors = {}
    for point, folder in copies.items():
        twin = EngineWorld(world.spark, folder)
        twin.name = world.name
        shutil.rmtree(twin.source())
        shutil.copytree(tmp_path / "backup", twin.source())
        forget_tables()
        twin.feed([(50,)], "id INT")
        (flow,) = twin.run(lambda twin=twin: follow(twin)).flows  # type: ignore[misc]
        errors[point] = flow.error and flow.error.condition
        rows = [(1,), (2,)] if flow.error else [(1,), (50,)]
        assert twin.rows("appended") == rows
    assert errors == {"sources.after_known": None, "sources.before_known": "DELTA_SOURCE_PUT_BACK"}


def test_a_stream_that_failed_far_behind_or_within_a_commit_does_not_read_on_in_an_older_copy(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The last commit that it has read is known, also if the table has 25 newer ones or the stream read a part of it.

    Without it, the flow behind read versions 4 to 24 of the other history, and kept the rows of versions 2 and 3.
    """
    world = EngineWorld(spark.newSession(), tmp_path)
    sources = {name: Path(world.source(name)) for name in ("behind", "within")}

    def declare() -> None:
        def reader_of(name: str) -> Callable[[], DataFrame]:
            reader = world.spark.readStream.format("delta").options(startingVersion="0", maxFilesPerTrigger="1")
            return lambda: reader.load(str(sources[name])).where("IF(id = 4, raise_error('no'), true)")

        for name in sources:
            dp.table(name=f"of_{name}")(reader_of(name))

    for name, source in sources.items():
        world.feed([(0,)], "id INT", name)
        shutil.copytree(source, tmp_path / "backups" / name)
    for number in range(1, 25):
        world.feed([(number,)], "id INT", "behind")
    files = world.spark.range(1, 7, numPartitions=6).select(F.col("id").cast("int").alias("id"))
    files.write.format("delta").mode("append").save(str(sources["within"]))
    assert world.run(declare).state is UpdateState.FAILED
    assert [world.rows(f"of_{name}") for name in sources] == [[(0,), (1,), (2,), (3,)]] * 2
    for name, source in sources.items():
        shutil.rmtree(source)
        shutil.move(tmp_path / "backups" / name, source)
    forget_tables()
    for number in range(101, 125):
        world.feed([(number,)], "id INT", "behind")
    broken = {
        step.flow.table: (step.broken.condition, step.broken.problem.partition(":")[0])
        for step in world.pipeline(declare).plan().steps
        if isinstance(step, RunFlow) and step.broken
    }
    assert broken == {
        "of_behind": (
            "DELTA_SOURCE_PUT_BACK",
            "Version 4 of the table is another commit than the one that the flow has read",
        ),
        "of_within": (
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            "The table is at version 0, and the flow has read up to version 1",
        ),
    }
