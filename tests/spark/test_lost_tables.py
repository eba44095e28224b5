"""A table that was deleted has every row again, whatever happened in between to its flows.

`tests/crashes/test_updates.py` kills updates around the creation of lost tables.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.checkpoints.generations import GenerationStore
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.plan.steps import RunFlow
from framework.run.update.checkpoint_actions import roll_back_checkpoint
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = sorted([(1,), (2,), (3,), (4,), (10,), (20,)], key=repr)


def declared(world: EngineWorld, *flows: str) -> Callable[[], None]:
    """A table of two sources, written by some of its flows."""

    def declare() -> None:
        dp.create_streaming_table("table")
        if "first" in flows:

            @dp.append_flow(target="table")
            def first() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source())

        if "second" in flows:

            @dp.append_flow(target="table")
            def second() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source("other"))

    return declare


@pytest.fixture(scope="module")
def lost(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EngineWorld:
    """A pipeline whose table was deleted after both of its flows had run, and new rows for both."""
    world = EngineWorld(spark.newSession(), tmp_path_factory.mktemp("lost"))
    world.feed([(1,), (2,), (3,)], "id INT")
    world.feed([(10,)], "id INT", "other")
    assert world.run(declared(world, "first", "second")).state is UpdateState.COMPLETED
    shutil.rmtree(world.path("table"))
    world.feed([(4,)], "id INT")
    world.feed([(20,)], "id INT", "other")
    return world


@pytest.fixture
def world(lost: EngineWorld, tmp_path: Path) -> EngineWorld:
    """The pipeline that lost its table, in a folder of the test."""
    return lost.copy(tmp_path)


def at(world: EngineWorld, path: str | None) -> Callable[[], None]:
    """A table with a path of its own."""

    def declare() -> None:
        @dp.table(name="table", path=None if path is None else str(world.root / path))
        def rows() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    return declare


def test_a_table_that_has_its_former_path_back_is_not_written_behind_the_rows_of_the_other_one(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The update names both. With the other path it goes on; a full refresh reads everything again."""
    world = EngineWorld(interpreting, tmp_path)
    there = tmp_path / "there"

    def failures(path: str | None, **request: object) -> list[str]:
        result = world.run(at(world, path), **request)
        return [flow.error.condition for flow in result.flows if flow.error is not None]

    def stored() -> list[int]:
        return sorted(row.id for row in table_rows(world.spark, str(there)))

    for number, path in enumerate([None, "there", None, "there"]):
        world.feed([(number,)], "id INT")
        assert failures(path) == (["TABLE_WITHOUT_LATEST_ROWS"] if number == 2 else [])
    assert (world.rows("table"), stored()) == ([(0,)], [0, 1, 2, 3])
    assert failures(None, full_refresh=["table"]) == []
    world.feed([(4,)], "id INT")
    assert failures(None) == []
    assert (world.rows("table"), stored()) == ([(0,), (1,), (2,), (3,), (4,)], [0, 1, 2, 3])


def test_a_flow_that_was_not_declared_when_its_table_was_lost_reads_everything_again(world: EngineWorld) -> None:
    """Its checkpoint is given up with those of the declared flows, before the table exists again."""
    assert world.run(declared(world, "first")).state is UpdateState.COMPLETED
    assert world.rows("table") == [(1,), (2,), (3,), (4,)]
    result = world.run(declared(world, "first", "second"))
    assert (result.state, world.rows("table")) == (UpdateState.COMPLETED, ROWS)


def test_a_flow_is_not_rolled_back_to_before_its_table_was_lost(world: EngineWorld) -> None:
    """It would go on behind rows that are no longer there."""
    pipeline = world.pipeline(declared(world, "first", "second"))
    assert pipeline.run().state is UpdateState.COMPLETED
    with pytest.raises(UserError, match="GENERATION_NOT_KEPT"):
        roll_back_checkpoint(pipeline.storage, world.name, "first", 1, allow_repeats=True)
    world.feed([(5,)], "id INT")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("table") == sorted([*ROWS, (5,)], key=repr)


def test_a_flow_whose_current_checkpoint_was_deleted_by_hand_misses_no_event(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The target has batches of the same generation, and would take the first ones of the next checkpoint for them."""
    world = EngineWorld(interpreting, tmp_path)

    def declare() -> None:
        dp.create_streaming_table("target")

        @dp.auto_cdc_flow(target="target", name="changes", keys=["id"], sequence_by="id")
        def changes() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    for number in range(2):
        world.feed([(number,)], "id INT")
        assert world.run(declare).state is UpdateState.COMPLETED
    flow = QualifiedName(catalog="main", schema="s", table="changes")
    target = QualifiedName(catalog="main", schema="s", table="target")
    generations = GenerationStore(world.pipeline(declare).storage)
    shutil.rmtree(generations.path(target, flow, 1))
    world.feed([(2,)], "id INT")
    (step,) = (step for step in world.pipeline(declare).plan().steps if isinstance(step, RunFlow))
    assert (step.generation, step.reason) == (2, "files of its checkpoint were deleted")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("target") == [(0,), (1,), (2,)]
