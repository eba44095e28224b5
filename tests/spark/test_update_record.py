"""The records of an update, and its behaviour when it may not run or must stop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.foundation.errors import OperationError
from framework.run.update.lock import update_lock
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """A source with two rows."""
    made = EngineWorld(spark, tmp_path)
    made.feed([(1,), (2,)], "id long")
    return made


def copy_of_the_source(world: EngineWorld) -> None:
    """Declare one streaming table."""

    @dp.table(comment="what came in")
    def raw() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())


def test_the_event_log_tells_the_update_from_its_creation_to_its_end(world: EngineWorld) -> None:
    """Definitions, plan, each flow's states with its rows, and the update's states, as rows of a table."""
    pipeline = world.pipeline(lambda: copy_of_the_source(world))
    pipeline.run()
    events = world.events()
    assert [event.details["update_progress"]["state"] for event in events if event.event_type == "update_progress"] == [
        "INITIALIZING", "SETTING_UP_TABLES", "RUNNING", "COMPLETED"
    ]  # fmt: skip
    flow = [event for event in events if event.event_type == "flow_progress"]
    states_told = [event.details["flow_progress"]["status"] for event in flow]
    assert states_told[:3] == ["QUEUED", "STARTING", "RUNNING"]
    assert states_told[-1] == "COMPLETED"
    assert flow[-1].details["flow_progress"]["metrics"]["num_output_rows"] == 2
    assert {event.event_type for event in events} >= {
        "create_update", "dataset_definition", "flow_definition", "planning_information", "stream_progress"
    }  # fmt: skip
    table = pipeline.events()
    assert table.where("event_type = 'create_update'").count() == 1
    assert [row.n for row in pipeline.sql("SELECT count(*) AS n FROM raw").collect()] == [2]


def test_a_hook_gets_every_event_in_order_and_its_failure_does_not_touch_the_update(world: EngineWorld) -> None:
    """One hook receives all events; the other fails twice, is disabled, and the update completes."""
    heard: list[dict[str, Any]] = []

    def declare() -> None:
        copy_of_the_source(world)

        @dp.on_event_hook
        def listener(event: dict[str, Any]) -> None:
            heard.append(event)

        @dp.on_event_hook(max_allowable_consecutive_failures=2)
        def failing(_event: dict[str, Any]) -> None:
            raise RuntimeError

    result = world.run(declare)
    assert result.state is UpdateState.COMPLETED
    assert next(event["event_type"] for event in heard) == "create_update"
    numbers = [event["sequence"]["data_plane_id"]["seq_no"] for event in heard]
    assert numbers == sorted(numbers)
    hooks = [event.details["hook_progress"] for event in world.events(type="hook_progress")]
    assert [details["status"] for details in hooks] == ["FAILED", "DISABLED"]


def test_a_second_update_is_told_who_holds_the_pipeline_and_writes_nothing(world: EngineWorld) -> None:
    """UPDATE_ALREADY_RUNNING, exit code 1, no event of the second."""
    pipeline = world.pipeline(lambda: copy_of_the_source(world))
    with update_lock(pipeline.storage, "the first"), pytest.raises(OperationError) as caught:
        pipeline.run()
    assert (caught.value.condition, caught.value.exit_code) == ("UPDATE_ALREADY_RUNNING", 1)
    assert world.events() == []


def test_an_update_that_is_asked_to_stop_is_canceled_and_goes_on_next_time(world: EngineWorld) -> None:
    """The running query stops, waiting flows do not start, and no row is lost or duplicated."""
    started = threading.Event()
    release = threading.Event()

    def declare(*, slow: bool) -> None:
        copy_of_the_source(world)

        @dp.foreach_batch_sink
        def sink(_frame: DataFrame, _number: int) -> None:
            started.set()
            if slow:
                release.wait(30)

        @dp.append_flow(target="sink")
        def into_sink() -> DataFrame:
            return world.spark.readStream.table("raw")

        @dp.materialized_view
        def after() -> DataFrame:
            return world.spark.read.table("raw")

    pipeline = world.pipeline(lambda: declare(slow=True))
    results = []
    thread = threading.Thread(target=lambda: results.append(pipeline.run()))
    thread.start()
    assert started.wait(120)
    pipeline.stop()
    threading.Timer(3, release.set).start()
    thread.join(120)
    assert [result.state for result in results] == [UpdateState.CANCELED]
    assert states(results[0])["into_sink"] in {FlowState.STOPPED, FlowState.COMPLETED}
    last = [event.details["update_progress"]["state"] for event in world.events(type="update_progress")][-1]
    assert last == "CANCELED"
    assert world.run(lambda: declare(slow=False)).state is UpdateState.COMPLETED
    assert world.rows("raw") == [(1,), (2,)]
    assert world.rows("after") == [(1,), (2,)]
