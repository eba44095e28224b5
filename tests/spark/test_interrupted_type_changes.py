"""A full refresh that changes the type of a table and dies; the code is changed to and fro before it is finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.failpoints import arm, disarm
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Killed(BaseException):
    """Ends an update as a kill does."""


def total(world: EngineWorld, *, streams: bool) -> Callable[[], None]:
    """Declares a table that is a streaming table or a materialized view."""

    def declare() -> None:
        @dp.table(name="total")
        def rows() -> DataFrame:
            reader = world.spark.readStream if streams else world.spark.read
            return reader.format("delta").load(world.source())

    return declare


def kill(world: EngineWorld, failpoint: str, *, streams: bool = True) -> None:
    """A full refresh as a streaming table, or an update of the view, that dies."""

    def die() -> None:
        raise Killed

    arm(failpoint, action=die)
    try:
        with pytest.raises(Killed):
            world.run(total(world, streams=streams), full_refresh=["total"] if streams else [])
    finally:
        disarm()


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EngineWorld:
    """The view after its first update."""
    made = EngineWorld(spark, tmp_path_factory.mktemp("first"))
    made.feed([(1,), (2,)], "id INT")
    assert made.run(total(made, streams=False)).state is UpdateState.COMPLETED
    return made


@pytest.mark.parametrize("failpoint", ["rebuilds.after_freeze", "rebuilds.after_publish"])
def test_a_view_that_is_computed_again_gives_up_the_refresh(first: EngineWorld, tmp_path: Path, failpoint: str) -> None:
    """No row is there twice: the streaming table that is declared once more is refused, until it is refreshed again."""
    world = first.copy(tmp_path)
    kill(world, failpoint)
    world.feed([(3,)], "id INT")
    assert world.run(total(world, streams=False)).state is UpdateState.COMPLETED
    assert world.rows("total") == [(1,), (2,), (3,)]
    world.feed([(4,)], "id INT")
    result = world.run(total(world, streams=True))
    assert [flow.error.condition for flow in result.flows if flow.error is not None] == ["DATASET_TYPE_CHANGED"]
    assert world.rows("total") == [(1,), (2,), (3,)]
    assert [each.name for each in (world.root / "storage" / "rebuilds" / "main.s.total").iterdir()] == ["rebuild.json"]
    world.run(total(world, streams=True), full_refresh=["total"])
    world.feed([(5,)], "id INT")
    world.run(total(world, streams=True))
    assert world.rows("total") == [(1,), (2,), (3,), (4,), (5,)]


def test_a_view_that_dies_or_fails_before_its_commit_has_no_row_twice(first: EngineWorld, tmp_path: Path) -> None:
    """The refresh is given up, and its rows are in the table: they are not taken for those of the stream."""
    world = first.copy(tmp_path)
    kill(world, "rebuilds.after_publish")
    world.feed([(3,)], "id INT")
    kill(world, "views.after_give_up", streams=False)
    result = world.run(total(world, streams=True))
    assert [flow.error.condition for flow in result.flows if flow.error is not None] == ["DATASET_TYPE_CHANGED"]
    assert world.rows("total") == [(1,), (2,)]
    assert world.run(total(world, streams=False)).state is UpdateState.COMPLETED
    assert world.rows("total") == [(1,), (2,), (3,)]
