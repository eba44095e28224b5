"""A table that was deleted has every row again, whatever happened in between to the update or to its flows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.errors import UserError
from framework.foundation.failpoints import arm, disarm
from framework.run.update.checkpoint_actions import roll_back_checkpoint
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = sorted([(1,), (2,), (3,), (4,), (10,), (20,)], key=repr)


class Killed(BaseException):
    """Ends an update as a kill does: no handler of an `Exception` writes anything after it."""


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


@pytest.fixture
def world(interpreting: SparkSession, tmp_path: Path) -> EngineWorld:
    """A pipeline whose table was deleted after both of its flows had run, and new rows for both."""
    world = EngineWorld(interpreting, tmp_path)
    world.feed([(1,), (2,), (3,)], "id INT")
    world.feed([(10,)], "id INT", "other")
    assert world.run(declared(world, "first", "second")).state is UpdateState.COMPLETED
    shutil.rmtree(world.path("table"))
    world.feed([(4,)], "id INT")
    world.feed([(20,)], "id INT", "other")
    return world


def killed(world: EngineWorld, failpoint: str) -> None:
    """An update that is killed at a failpoint."""

    def kill() -> None:
        raise Killed

    arm(failpoint, action=kill)
    try:
        with pytest.raises(Killed):
            world.run(declared(world, "first", "second"))
    finally:
        disarm()


@pytest.mark.parametrize("failpoint", ["tables.before_create", "tables.after_create"])
def test_an_update_that_dies_around_the_creation_of_a_lost_table_loses_no_row(
    world: EngineWorld, failpoint: str
) -> None:
    """No flow goes on behind the rows that left with the table, although the next update finds one there."""
    killed(world, failpoint)
    result = world.run(declared(world, "first", "second"))
    assert (result.state, world.rows("table")) == (UpdateState.COMPLETED, ROWS)


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
