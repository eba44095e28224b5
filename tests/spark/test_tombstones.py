"""Tombstones are kept as long as late events may arrive, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.run.update.results import FlowState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

EVENTS = "id INT, name STRING, operation STRING, position INT"
THRESHOLD = "pipelines.cdc.tombstoneGCThresholdInSeconds"


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """Bob is deleted at 6."""
    made = EngineWorld(spark, tmp_path)
    made.feed([(1, "Ann", "U", 5), (2, "Bob", "D", 6)], EVENTS)
    return made


def declaration(world: EngineWorld, threshold: str | None, *more: Callable[[], object]) -> Callable[[], None]:
    """The target `people` and its change flow, with a threshold."""

    def declare() -> None:
        conf = {} if threshold is None else {THRESHOLD: threshold}
        dp.create_streaming_table("people", spark_conf=conf)

        @dp.auto_cdc_flow(
            target="people", keys=["id"], sequence_by="position", apply_as_deletes="operation = 'D'",
            except_column_list=["operation", "position"],
        )  # fmt: skip
        def changes() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        for each in more:
            each()

    return declare


def late_row(world: EngineWorld) -> None:
    """An event of Bob that happened before he was deleted."""
    world.feed([(2, "Bob", "U", 4)], EVENTS)


def test_a_tombstone_holds_late_rows_back_for_two_days(world: EngineWorld) -> None:
    """By default, an older row that arrives soon after its delete stays deleted."""
    declare = declaration(world, None)
    world.run(declare)
    late_row(world)
    world.run(declare)
    assert world.rows("people") == [(1, "Ann")]


def test_what_is_older_than_the_threshold_is_forgotten(world: EngineWorld) -> None:
    """With a threshold of zero, a late row returns, as the threshold defines."""
    declare = declaration(world, "0")
    world.run(declare)
    late_row(world)
    world.run(declare)
    assert world.rows("people") == [(1, "Ann"), (2, "Bob")]


def test_nothing_is_forgotten_while_a_snapshot_is_not_done(world: EngineWorld) -> None:
    """A snapshot that fails for days and is then applied does not restore rows that were deleted in the meantime."""
    done = world.root / "done"

    def snapshot() -> None:
        @dp.snapshot_flow(target="people", keys=["id"])
        def before() -> DataFrame:
            rows = world.spark.createDataFrame([(2, "Bob"), (3, "Cy")], "id INT, name STRING")
            return rows if done.exists() else rows.selectExpr("CAST(raise_error('no') AS INT) AS id", "name")

    declare = declaration(world, "0", snapshot)
    assert states(world.run(declare)) == {"changes": FlowState.COMPLETED, "before": FlowState.FAILED}
    done.touch()
    assert states(world.run(declare))["before"] is FlowState.COMPLETED
    assert world.rows("people") == [(1, "Ann"), (3, "Cy")]


def test_a_threshold_that_is_no_number_is_an_error(world: EngineWorld) -> None:
    """The flow fails with the setting's name, and writes nothing."""
    result = world.run(declaration(world, "two days"))
    assert [flow.error.condition for flow in result.flows if flow.error] == ["INVALID_CONFIGURATION"]
    assert world.rows("people") == []
