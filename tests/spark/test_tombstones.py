"""Tombstones are kept as long as late events may arrive, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from framework import pipelines as dp
from framework.run.update.results import FlowState, UpdateResult
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

EVENTS = "id INT, name STRING, operation STRING, position INT"
THRESHOLD = "pipelines.cdc.tombstoneGCThresholdInSeconds"


THRESHOLDS: dict[str, str | None] = {"held": None, "forgotten": "0", "awaited": "0", "faulty": "two days"}
"""The threshold of each target."""


def declaration(world: EngineWorld, done: Path) -> Callable[[], None]:
    """A target with its change flow for each threshold; `awaited` has a snapshot that fails until a file exists."""

    def declare() -> None:
        for name, threshold in THRESHOLDS.items():
            conf = {} if threshold is None else {THRESHOLD: threshold}
            source = world.source("awaited" if name == "awaited" else "source")
            dp.create_streaming_table(name, spark_conf=conf)

            @dp.auto_cdc_flow(
                target=name, name=f"{name}_flow", keys=["id"], sequence_by="position",
                apply_as_deletes="operation = 'D'", except_column_list=["operation", "position"],
            )  # fmt: skip
            def changes(source: str = source) -> DataFrame:
                return world.spark.readStream.format("delta").load(source)

        @dp.snapshot_flow(target="awaited", keys=["id"])
        def before() -> DataFrame:
            rows = world.spark.createDataFrame([(2, "Bob"), (3, "Cy")], "id INT, name STRING")
            return rows if done.exists() else rows.selectExpr("CAST(raise_error('no') AS INT) AS id", "name")

    return declare


class Updated(NamedTuple):
    """The targets after Bob's delete at 6, and after an event of his that happened before.

    Args:
        world: has the targets.
        results: of both updates.
    """

    world: EngineWorld
    results: list[UpdateResult]

    def states(self, flow: str) -> list[FlowState]:
        """How a flow ended in each update."""
        return [states(result)[flow] for result in self.results]


@pytest.fixture(scope="module")
def updated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Updated:
    """Between the updates, a late row arrives, and the snapshot can be read."""
    world = EngineWorld(spark, tmp_path_factory.mktemp("tombstones"))
    for source in ("source", "awaited"):
        world.feed([(1, "Ann", "U", 5), (2, "Bob", "D", 6)], EVENTS, source)
    done = world.root / "done"
    results = [world.run(declaration(world, done))]
    world.feed([(2, "Bob", "U", 4)], EVENTS)
    done.touch()
    results.append(world.run(declaration(world, done)))
    return Updated(world=world, results=results)


def test_a_tombstone_holds_late_rows_back_for_two_days(updated: Updated) -> None:
    """By default, an older row that arrives soon after its delete stays deleted."""
    assert updated.states("held_flow") == [FlowState.COMPLETED] * 2
    assert updated.world.rows("held") == [(1, "Ann")]


def test_what_is_older_than_the_threshold_is_forgotten(updated: Updated) -> None:
    """With a threshold of zero, a late row returns, as the threshold defines."""
    assert updated.world.rows("forgotten") == [(1, "Ann"), (2, "Bob")]


def test_nothing_is_forgotten_while_a_snapshot_is_not_done(updated: Updated) -> None:
    """A snapshot that fails for days and is then applied does not restore rows that were deleted in the meantime."""
    assert updated.states("awaited_flow") == [FlowState.COMPLETED, FlowState.IDLE]
    assert updated.states("before") == [FlowState.FAILED, FlowState.COMPLETED]
    assert updated.world.rows("awaited") == [(1, "Ann"), (3, "Cy")]


def test_a_threshold_that_is_no_number_is_an_error(updated: Updated) -> None:
    """The flow fails with the setting's name, and writes nothing."""
    errors = [flow.error for flow in updated.results[0].flows if flow.flow.table == "faulty_flow"]
    assert [error.condition for error in errors if error] == ["INVALID_CONFIGURATION"]
    assert updated.world.rows("faulty") == []
