"""A full refresh that changes the type of a table and dies; the code is changed to and fro before it is finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import copying, interrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


POINTS = ("rebuilds.after_freeze", "rebuilds.after_publish")


def total(world: EngineWorld, *, streams: bool) -> Callable[[], None]:
    """Declares a table that is a streaming table or a materialized view."""

    def declare() -> None:
        @dp.table(name="total")
        def rows() -> DataFrame:
            reader = world.spark.readStream if streams else world.spark.read
            return reader.format("delta").load(world.source())

    return declare


@pytest.fixture(scope="module")
def killed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, EngineWorld]:
    """A view that is fully refreshed as a streaming table, as it is at each failpoint."""
    root = tmp_path_factory.mktemp("killed")
    made = EngineWorld(spark, root / "made")
    made.feed([(1,), (2,)], "id INT")
    assert made.run(total(made, streams=False)).state is UpdateState.COMPLETED

    killed = {point: EngineWorld(spark, root / point) for point in POINTS}
    copies = {point: world.root for point, world in killed.items()}
    copying(lambda: made.run(total(made, streams=True), full_refresh=["total"]), made.root, copies)
    for world in killed.values():
        world.name = made.name
    return killed


@pytest.mark.parametrize("point", POINTS)
def test_a_view_that_is_computed_again_gives_up_the_refresh(
    killed: dict[str, EngineWorld], tmp_path: Path, point: str
) -> None:
    """No row is there twice: the streaming table that is declared once more is refused, until it is refreshed again."""
    world = killed[point].copy(tmp_path)
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


def test_a_view_that_dies_or_fails_before_its_commit_has_no_row_twice(
    killed: dict[str, EngineWorld], tmp_path: Path
) -> None:
    """The refresh is given up, and its rows are in the table: they are not taken for those of the stream."""
    world = killed["rebuilds.after_publish"].copy(tmp_path)
    world.feed([(3,)], "id INT")
    interrupt(lambda: world.run(total(world, streams=False)), "views.after_give_up")
    result = world.run(total(world, streams=True))
    assert [flow.error.condition for flow in result.flows if flow.error is not None] == ["DATASET_TYPE_CHANGED"]
    assert world.rows("total") == [(1,), (2,)]
    assert world.run(total(world, streams=False)).state is UpdateState.COMPLETED
    assert world.rows("total") == [(1,), (2,), (3,)]
