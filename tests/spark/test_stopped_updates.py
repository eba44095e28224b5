"""Updates that are named from outside and stopped by a file in their storage, over local files and over Hadoop's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.engine.files.hadoop_storage import HadoopStorage
from framework.foundation.errors import UserError
from framework.record.reader import read_events
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.control.lock_holder import lock_holder
from framework.run.update.control.stop_requests import StopRequest, StopRequests
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states
from tests.support.running_updates import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FIRST, SECOND = "7b1c0f3e-5a1f-4c5e-9d43-0d6f2a1b8c9e", "8c2d1a4f-6b2a-4d6f-8e54-1e7a3b2c9d0f"


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """A source with two rows."""
    made = EngineWorld(spark, tmp_path)
    made.feed([(1,), (2,)], "id long")
    return made


class Shop:
    """A table that is copied to a sink, which waits in its batch until it is released."""

    def __init__(self, world: EngineWorld) -> None:
        self.world = world
        self.began, self.release = threading.Event(), threading.Event()

    def __call__(self) -> None:
        """Declare it."""
        spark, source = self.world.spark, self.world.source()

        @dp.table
        def raw() -> DataFrame:
            return spark.readStream.format("delta").load(source)

        @dp.foreach_batch_sink
        def sink(_frame: DataFrame, _number: int) -> None:
            self.began.set()
            self.release.wait(60)

        @dp.append_flow(target="sink")
        def into_sink() -> DataFrame:
            return spark.readStream.table("raw")


def created(world: EngineWorld) -> list[dict[str, Any]]:
    """Who each update is, from the event of its start."""
    events = world.events(type="create_update")
    names = ("request_id", "attempt", "cause")
    return [
        {"id": event.origin.update_id} | {name: event.details["create_update"][name] for name in names}
        for event in events
    ]


def test_a_triggered_update_in_the_background_is_stopped_by_a_file_and_the_next_attempt_completes(
    world: EngineWorld,
) -> None:
    """The file stops the query as an interrupt does; left over, it stops no other update, and no row is read twice."""
    shop = Shop(world)
    pipeline = world.pipeline(shop)
    identity = UpdateIdentity.of(update_id=FIRST, request_id="nightly", cause="JOB_TASK")
    running = pipeline.start(identity=identity, continuous=False)
    assert shop.began.wait(120)
    holder = lock_holder(pipeline.storage)
    assert holder is not None
    assert holder.update_id == running.update_id == running.board.update_id == FIRST
    assert (running.state, running.wait(0)) == (UpdateState.RUNNING, None)

    StopRequests(pipeline.storage).ask(StopRequest(update_id=FIRST, user="ada", host="laptop", reason="wrong prices"))
    until(lambda: world.events(type="user_action") != [], running)
    shop.release.set()
    result = running.wait(60)
    assert result is not None
    assert (result.update_id, result.state, running.state) == (FIRST, UpdateState.CANCELED, UpdateState.CANCELED)
    assert states(result) == {"raw": FlowState.COMPLETED, "into_sink": FlowState.STOPPED}
    assert running.flows == ()
    (asked,) = world.events(type="user_action")
    assert asked.message == "ada on laptop asked to stop this update: wrong prices."
    assert lock_holder(pipeline.storage) is None
    assert StopRequests(pipeline.storage).of(FIRST) is not None

    with pytest.raises(UserError) as caught:
        pipeline.run(identity=identity)
    assert caught.value.condition == "UPDATE_ID_USED"
    before = [event.id for event in world.events()]

    retry = UpdateIdentity.of(update_id=SECOND, request_id="nightly", attempt=2, cause="RETRY_ON_FAILURE")
    again = pipeline.start(identity=retry, continuous=False).wait(120)
    assert again is not None
    assert (again.update_id, again.state) == (SECOND, UpdateState.COMPLETED)
    assert world.rows("raw") == [(1,), (2,)]
    assert [event.id for event in world.events(update_id=FIRST)] == before
    assert created(world) == [
        {"id": FIRST, "request_id": "nightly", "attempt": 1, "cause": "JOB_TASK"},
        {"id": SECOND, "request_id": "nightly", "attempt": 2, "cause": "RETRY_ON_FAILURE"},
    ]
    assert StopRequests(pipeline.storage).of(FIRST) is None


def test_a_continuous_update_over_hadoop_is_stopped_by_a_file_of_its_storage(world: EngineWorld) -> None:
    """Rows that arrived before are in the table once, and the next update goes on from the checkpoint."""
    shop, storage = Shop(world), HadoopStorage(f"file:{world.root}/elsewhere", world.spark)
    shop.release.set()
    pipeline = world.pipeline(shop)
    pipeline._storage = storage
    running = pipeline.start()
    until(lambda: [flow.state for flow in running.board.flows] == ["IDLE", "IDLE"], running)
    holder = lock_holder(storage)
    assert holder is not None
    StopRequests(storage).ask(StopRequest(update_id=holder.update_id, user="ada"))
    result = running.wait(60)
    assert result is not None
    assert result.state is UpdateState.CANCELED
    actions = read_events(storage, type="user_action", update_id=holder.update_id)
    assert [event.message for event in actions] == ["ada asked to stop this update."]
    world.feed([(3,)], "id long")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert sorted(row.id for row in pipeline.table("raw").collect()) == [1, 2, 3]
