"""A storage that was copied or moved as a whole, with a table at a path of the user's own outside of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation import failpoints
from framework.foundation.errors import OperationError
from framework.plan.steps import RefuseTable
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE, REWIND = "TABLE_OF_ORIGINAL_STORAGE", "REWIND_OF_ORIGINAL_STORAGE"


def declared(world: EngineWorld, lake: Path) -> Callable[[], None]:
    """A streaming table in the storage, and one outside with a view of it."""

    def declare() -> None:
        @dp.table
        def inside() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.table(path=str(lake / "outside"))
        def outside() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.materialized_view(path=str(lake / "view"))
        def view() -> DataFrame:
            return world.spark.read.table("outside")

    return declare


def test_a_copy_of_a_storage_does_not_write_to_the_tables_of_its_original(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Neither an update nor an interrupted rewind does; a storage that was moved goes on as it was."""
    lake = tmp_path / "lake"
    world = EngineWorld(interpreting, tmp_path / "first")

    def rows(name: str) -> list[tuple[int]]:
        return sorted(table_rows(interpreting, str(lake / name)))

    world.feed([(1,)], "id INT")
    first = world.run(declared(world, lake))
    assert first.state is UpdateState.COMPLETED
    twin = world.copy(tmp_path / "twin")
    twin.feed([(2,)], "id INT")
    pipeline = twin.pipeline(declared(twin, lake))
    refused = {step.dataset.table for step in pipeline.plan().steps if isinstance(step, RefuseTable)}
    assert refused == {"outside", "view"}
    for rebuilt in ([], ["outside"]):
        result = pipeline.run(full_refresh=rebuilt)
        assert {flow.error and flow.error.condition for flow in result.flows if flow.flow.table != "inside"} == {TABLE}
    assert (twin.rows("inside"), rows("outside"), rows("view")) == ([(1,), (2,)], [(1,)], [(1,)])
    with pytest.raises(OperationError, match=TABLE):
        pipeline.rewinds.plan(first.update_id, ["outside"])
    assert pipeline.table("outside").count() == 1  # to read it harms nobody

    # What is left at the old place is not in use: the user says so.
    for name in ("outside", "view"):
        (twin.root / "storage" / "records" / f"main.s.{name}.json").unlink()
    assert pipeline.run().state is UpdateState.COMPLETED
    assert (rows("outside"), rows("view")) == ([(1,), (2,)], [(1,), (2,)])

    begun = twin.pipeline(declared(twin, lake)).rewinds

    def die() -> None:
        raise InterruptedError

    failpoints.arm("rewinds.after_mark", action=die)
    with pytest.raises(InterruptedError):
        begun.rewind(begun.plan(first.update_id, ["outside"]))
    failpoints.disarm()
    copied = twin.copy(tmp_path / "copied")
    for finish in (copied.pipeline(declared(copied, lake)).run, copied.pipeline(declared(copied, lake)).rewinds.finish):
        with pytest.raises(OperationError, match=REWIND):
            finish()
    assert rows("outside") == [(1,), (2,)]

    twin.root.rename(tmp_path / "moved")
    moved = EngineWorld(interpreting, tmp_path / "moved")
    moved.name = twin.name
    record = moved.root / "storage" / "records" / "main.s.outside.json"
    result = moved.run(declared(moved, lake))
    assert json.loads(record.read_text())["storage"] == str(moved.root / "storage")  # so its copies are known
    assert states(result) == {"inside": FlowState.IDLE, **dict.fromkeys(("outside", "view"), FlowState.COMPLETED)}
    assert (rows("outside"), rows("view")) == ([(1,), (2,)], [(1,), (2,)])
