"""Flows from snapshots in a pipeline: of a named source, and of a function."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.cdc.model.snapshot_versions import SnapshotVersion
from framework.declare.registry import SnapshotFunction
from framework.declare.specs import FlowSpec
from framework.foundation.errors import UserError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.names import QualifiedName
from framework.graph.resolving.snapshots import next_snapshot
from framework.plan.steps import RunFlow, SkipStep
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "APPLY_CHANGES_FROM_SNAPSHOT_ERROR"


class Stopped(BaseException):
    """Simulates the death of the process; no handler may catch it."""


def stop() -> None:
    """Die."""
    raise Stopped


def dies(world: EngineWorld, declare: Callable[[], None], place: str) -> None:
    """An update that dies at a failpoint."""
    arm(place, action=stop)
    try:
        with pytest.raises(Stopped):
            world.run(declare)
    finally:
        assert disarm()[place] == 1


def replace_source(world: EngineWorld, rows: list[tuple[Any, ...]]) -> None:
    """Give the source other rows."""
    frame = world.spark.createDataFrame(rows, "id int, name string").coalesce(1)
    frame.write.format("delta").mode("overwrite").save(world.source())


def of_the_moment(world: EngineWorld) -> Callable[[], None]:
    """Declares the history of a table, with its initial rows."""

    def declare() -> None:
        @dp.temporary_view
        def people() -> DataFrame:
            return world.spark.read.format("delta").load(world.source())

        dp.create_streaming_table("history", expect_all_or_drop={"named": "name IS NOT NULL"})
        dp.create_auto_cdc_from_snapshot_flow("history", "people", ["id"], stored_as_scd_type=2)
        dp.create_streaming_table("first")
        dp.create_auto_cdc_from_snapshot_flow("first", "people", ["id"], once=True)

    return declare


def test_a_source_is_compared_when_it_moved_and_wherever_the_update_died(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Each snapshot is later than the last, counts once, and costs nothing if the source has not changed."""
    world = EngineWorld(interpreting, tmp_path)
    declare = of_the_moment(world)
    replace_source(world, [(1, "Ann"), (2, "Bob"), (9, None)])
    result = world.run(declare)
    told = {flow.flow.table: (flow.rows_upserted, flow.rows_deleted, flow.rows_dropped) for flow in result.flows}
    assert told == {"history": (2, 0, 1), "first": (3, 0, 0)}
    reasons = {step.reason for step in world.pipeline(declare).plan().steps if isinstance(step, SkipStep)}
    assert reasons == {"no change since the last snapshot", "ran once, in generation 1"}
    replace_source(world, [(1, "Ann"), (3, "Cy")])
    (step,) = (step for step in world.pipeline(declare).plan().steps if isinstance(step, RunFlow))
    assert step.reason == "its source may have changed since the last snapshot"
    checkpoints = tmp_path / "storage" / "checkpoints" / "main.s.history"
    shutil.copytree(checkpoints, tmp_path / "older")
    dies(world, declare, "snapshots.after_claim")
    dies(world, declare, "snapshots.before_mark")
    commits = world.versions("history")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.run(declare, reset_checkpoints=["history"]).state is UpdateState.COMPLETED
    assert world.versions("history") == commits
    rows = world.rows("history")
    begun, ended = rows[0][2], rows[1][3]
    assert rows == [(1, "Ann", begun, None), (2, "Bob", begun, ended), (3, "Cy", ended, None)]
    assert begun < ended
    assert world.rows("first") == [(1, "Ann"), (2, "Bob"), (9, None)]

    shutil.rmtree(checkpoints)
    shutil.copytree(tmp_path / "older", checkpoints)
    replace_source(world, [(3, "Cy")])
    (step,) = (step for step in world.pipeline(declare).plan().steps if isinstance(step, RunFlow))
    assert step.reason == "files of its checkpoint were deleted"
    assert world.run(declare).state is UpdateState.COMPLETED
    assert [row[1] for row in world.rows("history") if row[3] is None] == ["Cy"]


def handed_out(world: EngineWorld, snapshots: dict[int, DataFrame], asked: list[object]) -> Callable[[], None]:
    """Declares a target of the snapshots in the order of their versions."""

    def next_one(latest: Any) -> tuple[DataFrame, int] | None:
        asked.append(latest)
        later = [version for version in snapshots if latest is None or version > latest]
        return (snapshots[min(later)], min(later)) if later else None

    def declare() -> None:
        dp.create_streaming_table("people")
        dp.create_auto_cdc_from_snapshot_flow("people", next_one, ["id"])

        @dp.materialized_view
        def names() -> DataFrame:
            return world.spark.read.table("people").select("name")

    return declare


def test_a_function_is_asked_for_snapshots_until_it_has_no_more(interpreting: SparkSession, tmp_path: Path) -> None:
    """It receives the last applied version; columns may be added; a full refresh starts from None."""
    world = EngineWorld(interpreting, tmp_path)
    asked: list[object] = []
    snapshots = {
        1: interpreting.createDataFrame([(1, "Ann"), (2, "Bob")], "id int, name string"),
        4: interpreting.createDataFrame([(1, "An"), (3, "Cy")], "id int, name string"),
    }
    declare = handed_out(world, snapshots, asked)
    assert states(world.run(declare)) == {"people": FlowState.COMPLETED, "names": FlowState.COMPLETED}
    assert asked == [None, None, 1, 4]  # the first time for the columns only
    assert world.rows("people") == [(1, "An"), (3, "Cy")]
    assert world.rows("names") == [("An",), ("Cy",)]
    snapshots[5] = interpreting.createDataFrame([(1, "An", 30)], "id int, name string, age int")
    asked.clear()
    dies(world, declare, "snapshots.before_mark")
    assert world.run(declare, refresh=["people"]).state is UpdateState.COMPLETED
    assert asked == [4, 4, 5]
    assert world.rows("people") == [(1, "An", 30)]
    asked.clear()
    assert world.run(declare, full_refresh=["people"]).state is UpdateState.COMPLETED
    assert asked == [None, None, 1, 4, 5]
    assert world.rows("people") == [(1, "An", 30)]


@pytest.mark.parametrize(
    ("function", "latest", "condition"),
    [
        (lambda _spark: None, None, f"{PREFIX}.FIRST_SNAPSHOT_EMPTY"),
        (lambda spark: spark.range(1), None, f"{PREFIX}.INVALID_SNAPSHOT_VERSION"),
        (lambda spark: (1, spark.range(1)), None, f"{PREFIX}.INVALID_SNAPSHOT_VERSION"),
        (lambda spark: (spark.range(1), None), None, f"{PREFIX}.INVALID_TUPLE_NULL_SNAPSHOT_VERSION"),
        (lambda spark: (spark.range(1), 0.5), None, f"{PREFIX}.INVALID_SNAPSHOT_VERSION_TYPE"),
        (lambda spark: (spark.range(1), 3), 3, f"{PREFIX}.INVALID_SNAPSHOT_VERSION.NON_INCREASING"),
        (lambda spark: (spark.range(1), "4"), 3, f"{PREFIX}.SNAPSHOT_VERSION_NOT_SORTABLE"),
        (lambda _spark: 1 / 0, 3, "FLOW_QUERY_FAILED"),
    ],
)
def test_what_a_function_hands_out_is_held_to_its_contract(
    spark: SparkSession, function: Callable[[SparkSession], object], latest: int | None, condition: str
) -> None:
    """Each fault has its condition and a remedy."""
    name = QualifiedName(catalog="main", schema="s", table="t")
    hands_out: SnapshotFunction = lambda _latest: function(spark)  # noqa: E731 - a function of the latest version
    with pytest.raises(UserError) as caught:
        next_snapshot(hands_out, FlowSpec(name=name, target=name), SnapshotVersion.of(latest))
    assert caught.value.condition == condition
    assert caught.value.remedy
