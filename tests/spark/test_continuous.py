"""A continuous update on real streams: it follows its sources, survives failures of single flows, and stops cleanly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from framework import Pipeline
from framework import pipelines as dp
from framework.checkpoints.reset_requests import ResetRequest, ResetRequests
from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName
from framework.plan import planner
from framework.plan.steps import Continuous
from framework.record.events import Event
from framework.run.update.checkpoint_actions import reset_checkpoint
from framework.run.update.continuous.units import FlowHealth
from framework.run.update.results import FlowState, UpdateState
from framework.running_update import RunningUpdate
from framework.sources.cloud_files import stream
from framework.views.stored_graph import stored_graph
from tests.support.engine_world import EngineWorld
from tests.support.running_updates import Watched, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COPIES = QualifiedName(catalog="main", schema="s", table="copies")
OFTEN = {"pipelines.trigger.interval": "200 milliseconds"}


@contextmanager
def started(pipeline: Pipeline, observer: Callable[[Event], None] | None = None) -> Iterator[RunningUpdate]:
    """A continuous update that is stopped at the end of the block."""
    running = pipeline.start(observers=[observer] if observer else [])
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """An empty world."""
    return EngineWorld(spark, tmp_path)


def files(world: EngineWorld, name: str, *rows: str) -> None:
    """A new JSON file in a folder of the world."""
    folder = world.root / name
    folder.mkdir(exist_ok=True)
    staged = world.root / "staged.json"
    staged.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    staged.rename(folder / f"{len(list(folder.iterdir())):04d}.json")


def shop(world: EngineWorld) -> None:
    """Two append flows into one table, an AUTO CDC flow and a once flow into another, a sink and a view."""
    spark, written = world.spark, str(world.root / "sink")

    @dp.table
    def orders() -> DataFrame:
        return spark.readStream.schema("id INT, amount INT").json(str(world.root / "orders"))

    @dp.append_flow(target="orders")
    def more_orders() -> DataFrame:
        return spark.readStream.schema("id INT, amount INT").json(str(world.root / "more"))

    @dp.temporary_view
    def changes() -> DataFrame:
        return spark.readStream.schema("id INT, name STRING, at INT").json(str(world.root / "changes"))

    dp.create_streaming_table("customers")
    dp.create_auto_cdc_flow(target="customers", source="changes", keys=["id"], sequence_by="at", name="follow")

    @dp.snapshot_flow(target="customers", keys=["id"], name="history")
    def old_customers() -> DataFrame:
        return spark.createDataFrame([(1, "old", 0), (9, "kept", 0)], "id INT, name STRING, at INT")

    @dp.materialized_view
    def totals() -> DataFrame:
        return spark.read.table("orders").groupBy().agg(F.sum("amount").alias("total"))

    dp.create_sink("copies", format="parquet", options={"path": written, "checkpointLocation": written})

    @dp.append_flow(target="copies")
    def copy() -> DataFrame:
        return spark.readStream.table("orders")


def test_rows_reach_every_kind_of_target_and_views_follow(world: EngineWorld) -> None:
    """Two append flows, changes and a once flow, a sink and a view receive rows that arrive during the update."""
    for name, row in (
        ("orders", '{"id": 1, "amount": 10}'),
        ("more", '{"id": 2, "amount": 5}'),
        ("changes", '{"id": 1, "name": "Ada", "at": 1}'),
    ):
        files(world, name, row)
    pipeline, seen = world.pipeline(lambda: shop(world), configuration=OFTEN), Watched(world)

    with started(pipeline) as running:
        until(lambda: world.versions("orders") >= 2 and seen.rows("totals") == [(15,)], running)
        until(lambda: len(seen.rows("customers")) == 2, running)
        files(world, "orders", '{"id": 3, "amount": 100}')
        files(world, "changes", '{"id": 1, "name": "Bea", "at": 3}', '{"id": 2, "name": "Cy", "at": 2}')
        until(lambda: seen.rows("totals") == [(115,)], running)
        until(lambda: len(seen.rows("customers")) == 3, running)
        until(lambda: world.spark.read.parquet(str(world.root / "sink")).count() == 3, running)
        healths = {flow.flow.table: flow.health for flow in running.flows}
        result = running.stop()
    assert world.rows("orders") == [(1, 10), (2, 5), (3, 100)]
    assert world.rows("customers") == [(1, "Bea", 3), (2, "Cy", 2), (9, "kept", 0)]
    assert healths["history"] is FlowHealth.DONE
    assert set(healths.values()) <= {FlowHealth.IDLE, FlowHealth.RUNNING, FlowHealth.DONE}
    assert result.state is UpdateState.CANCELED
    rows = {flow.flow.table: flow.rows_written for flow in result.flows}
    assert (rows["orders"], rows["more_orders"], rows["follow"]) == (2, 1, 3)


def test_a_failing_flow_is_degraded_and_heals_while_its_neighbour_goes_on(world: EngineWorld) -> None:
    """While the sink rejects batches, the other flow processes rows; when the sink accepts them, no row is missing."""
    broken, taken = threading.Event(), list[int]()
    broken.set()

    def declare() -> None:
        @dp.foreach_batch_sink(name="picky")
        def write(batch: DataFrame, _number: int) -> None:
            if broken.is_set():
                msg = "Connection refused"
                raise ConnectionError(msg)
            taken.extend(row.id for row in batch.collect())

        @dp.append_flow(target="picky")
        def into_picky() -> DataFrame:
            return world.spark.readStream.schema("id INT").json(str(world.root / "a"))

        @dp.table
        def sound() -> DataFrame:
            return world.spark.readStream.schema("id INT").json(str(world.root / "b"))

    files(world, "a", '{"id": 1}')
    files(world, "b", '{"id": 1}')
    pipeline, seen = world.pipeline(declare, configuration=OFTEN), Watched(world)

    def health(name: str, running: RunningUpdate) -> FlowHealth | None:
        return next((flow.health for flow in running.flows if flow.flow.table == name), None)

    with started(pipeline) as running:
        until(lambda: health("into_picky", running) is FlowHealth.DEGRADED, running)
        files(world, "b", '{"id": 2}')
        until(lambda: seen.rows("sound") == [(1,), (2,)], running)
        files(world, "a", '{"id": 2}')
        broken.clear()
        until(lambda: sorted(taken) == [1, 2], running)
        until(lambda: health("into_picky", running) in {FlowHealth.IDLE, FlowHealth.RUNNING}, running)
    messages = [event.message for event in world.events() if "degraded" in event.message]
    assert messages != []


def test_a_failure_that_cannot_heal_ends_one_flow_and_fails_the_update_at_its_stop(world: EngineWorld) -> None:
    """A failed expectation is not retried; the other flow continues; the result names the failure."""

    def declare() -> None:
        @dp.table
        @dp.expect_or_fail("positive", "id > 0")
        def strict() -> DataFrame:
            return world.spark.readStream.schema("id INT").json(str(world.root / "a"))

        @dp.table
        def reader() -> DataFrame:
            return world.spark.readStream.table("strict")

        @dp.table
        def sound() -> DataFrame:
            return world.spark.readStream.schema("id INT").json(str(world.root / "b"))

    files(world, "a", '{"id": -1}')
    files(world, "b", '{"id": 1}')
    pipeline, seen = world.pipeline(declare, configuration=OFTEN), Watched(world)

    def shown(running: RunningUpdate) -> dict[str, Any]:
        return {flow.flow.rpartition(".")[2]: flow for flow in running.board.flows}

    with started(pipeline) as running:
        until(lambda: any(flow.health is FlowHealth.FAILED for flow in running.flows), running, may_fail=True)
        files(world, "b", '{"id": 2}')
        until(lambda: seen.rows("sound") == [(1,), (2,)], running, may_fail=True)
        reasons = {flow.flow.table: flow.reason for flow in running.flows}
        until(lambda: shown(running)["sound"].written == 2, running, may_fail=True)
        until(lambda: shown(running)["reader"].state == "IDLE", running, may_fail=True)
        board, lines, html = running.board, repr(running).splitlines(), running._repr_html_()
        result = running.stop()
    states = {flow.dataset.rpartition(".")[2]: (flow.state, flow.reason) for flow in board.flows}
    assert states["strict"] == ("FAILED", reasons["strict"])
    assert states["reader"] == ("IDLE", reasons["reader"])
    assert lines[0] == f"RUNNING (update {result.update_id})"
    assert html.count("<tr>") == 1 + len(board.flows)
    assert reasons["reader"] == "waits for main.s.strict, which failed"
    assert result.state is UpdateState.FAILED
    assert {flow.flow.table: flow.state for flow in result.flows} == {
        "strict": FlowState.FAILED,
        "reader": FlowState.STOPPED,
        "sound": FlowState.STOPPED,
    }


def test_a_stop_in_the_middle_of_a_batch_loses_nothing_and_the_pipeline_runs_again(world: EngineWorld) -> None:
    """A batch that is interrupted runs again in the next update, which may be triggered or continuous."""
    inside, release, taken = threading.Event(), threading.Event(), list[int]()

    def declare() -> None:
        @dp.foreach_batch_sink(name="slow")
        def write(batch: DataFrame, _number: int) -> None:
            rows = [row.id for row in batch.collect()]
            inside.set()
            release.wait(60)
            taken.extend(rows)

        @dp.append_flow(target="slow")
        def into_slow() -> DataFrame:
            return world.spark.readStream.schema("id INT").json(str(world.root / "a"))

    files(world, "a", '{"id": 1}')
    pipeline = world.pipeline(declare, configuration=OFTEN)
    running = pipeline.start()
    assert inside.wait(240)
    stopper = threading.Thread(target=running.stop)
    stopper.start()
    release.set()
    stopper.join(240)
    assert running.state is UpdateState.CANCELED
    files(world, "a", '{"id": 2}')
    triggered = pipeline.run()
    again = pipeline.start()
    files(world, "a", '{"id": 3}')
    until(lambda: 3 in taken, again)
    stopped = again.stop()
    assert triggered.state is UpdateState.COMPLETED
    assert stopped.state is UpdateState.CANCELED
    assert sorted(set(taken)) == [1, 2, 3]


def test_run_blocks_until_it_is_stopped_from_another_thread(world: EngineWorld) -> None:
    """`run(continuous=True)` returns the result after `stop()`; a concurrent second update is rejected."""

    def declare() -> None:
        @dp.table
        def copies() -> DataFrame:
            return world.spark.readStream.schema("id INT").json(str(world.root / "a"))

    files(world, "a", '{"id": 1}')
    pipeline, refused = world.pipeline(declare, configuration=OFTEN), list[str]()

    def observe(event: Event) -> None:
        if event.event_type == "flow_progress" and event.details["flow_progress"].get("metrics"):
            done.set()

    done = threading.Event()

    def stop_later() -> None:
        done.wait(240)
        try:
            world.pipeline(declare).run()
        except OperationError as error:
            refused.append(error.condition)
        pipeline.stop()

    stopper = threading.Thread(target=stop_later)
    stopper.start()
    result = pipeline.run(continuous=True, observers=[observe])
    stopper.join()
    assert (result.state, refused) == (UpdateState.CANCELED, ["UPDATE_ALREADY_RUNNING"])
    assert world.rows("copies") == [(1,)]


def test_a_full_refresh_in_a_continuous_update_is_done_first_and_goes_on(world: EngineWorld) -> None:
    """The table is rebuilt from all files, and later rows follow in the new generation; a reset needs no stop."""

    def declare() -> None:
        @dp.table
        def copies() -> DataFrame:
            return world.spark.readStream.schema("id INT").json(str(world.root / "a"))

    files(world, "a", '{"id": 1}')
    pipeline = world.pipeline(declare, configuration=OFTEN)
    pipeline.run()
    files(world, "a", '{"id": 2}')
    running, seen = pipeline.start(full_refresh=["copies"]), Watched(world)
    until(lambda: seen.rows("copies") == [(1,), (2,)], running)
    files(world, "a", '{"id": 3}')
    until(lambda: seen.rows("copies") == [(1,), (2,), (3,)], running)
    assert reset_checkpoint(pipeline.storage, world.name, "copies")[1] is None
    twice = [(1,), (1,), (2,), (2,), (3,), (3,)]
    until(lambda: seen.rows("copies") == twice, running)
    running.stop()
    assert pipeline.run().is_idle
    asked = ResetRequest(dataset=COPIES, flow=COPIES, start=None)  # as of an update that ended before it was done
    ResetRequests(pipeline.storage, SystemClock()).ask(asked)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("copies") == sorted([*twice, (1,), (2,), (3,)])


def test_an_append_flow_compacts_its_small_files_unless_the_table_forbids_it(
    world: EngineWorld, swap: pytest.MonkeyPatch
) -> None:
    """Three batches leave one file with all rows; a table that is not managed or is clustered keeps three."""
    swap.setattr("framework.cdc.delta.compaction.MANY", 3)

    def declare() -> None:
        unmanaged = {"pipelines.autoOptimize.managed": "false"}
        for name, properties, keys in (("managed", {}, []), ("unmanaged", unmanaged, []), ("clustered", {}, ["id"])):

            @dp.table(name=name, table_properties=properties, cluster_by=keys or None)
            def copies() -> DataFrame:
                source = world.spark.readStream.schema("id INT").option("maxFilesPerTrigger", 1)
                return source.json(str(world.root / "a"))

    for number in range(3):
        files(world, "a", f'{{"id": {number}}}')
    pipeline = world.pipeline(declare)
    result = pipeline.run()
    names = ("managed", "unmanaged", "clustered")
    live = {name: len(pipeline.table(name).inputFiles()) for name in names}
    assert {flow.flow.table: flow.rows_written for flow in result.flows} == dict.fromkeys(names, 3)
    assert live == {"managed": 1, "unmanaged": 3, "clustered": 3}
    assert [world.rows(name) for name in names] == [[(0,), (1,), (2,)]] * 3
    assert pipeline.run().is_idle


def test_new_columns_of_files_restart_their_flow_and_its_readers_only(world: EngineWorld) -> None:
    """A column in the middle of an update is in the table and its readers with its first row; the neighbour goes on."""
    spark = world.spark

    def declare() -> None:
        for name in ("grown", "steady"):

            @dp.table(name=name)
            def landed(folder: str = name) -> DataFrame:
                reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
                return reader.load(str(world.root / folder)).drop("_rescued_data")

        @dp.table
        def readers() -> DataFrame:
            return spark.readStream.table("grown")

        @dp.materialized_view
        def counted() -> DataFrame:
            return spark.read.table("grown").groupBy().agg(F.count("*").alias("rows"))

    for name in ("grown", "steady"):
        files(world, name, '{"id": "1"}')
    pipeline, seen = world.pipeline(declare, configuration=OFTEN), Watched(world)

    def is_read(table: str, count: int) -> bool:
        return len(seen.rows(table)) == count

    with started(pipeline) as running:
        until(lambda: all(is_read(table, 1) for table in ("grown", "steady", "readers")), running)
        for number, column in ((2, "a"), (3, "b")):
            files(world, "grown", f'{{"id": "{number}", "{column}": "x"}}')
            until(lambda count=number: is_read("readers", count), running)  # type: ignore[misc]
        files(world, "steady", '{"id": "2"}')
        until(lambda: is_read("steady", 2) and seen.rows("counted") == [(3,)], running)
        result = running.stop()
    restarted = {event.origin.flow_name for event in world.events() if "restarts with new columns" in event.message}
    stored = {each.name.table: each.schema or "" for each in stored_graph(pipeline.storage, pipeline.name).datasets}
    columns = [field["name"] for field in json.loads(stored["readers"])["fields"]]
    assert result.state is UpdateState.CANCELED, result
    assert world.rows("grown") == world.rows("readers") == [("1", None, None), ("2", "x", None), ("3", None, "x")]
    assert columns == ["id", "a", "b"]
    assert world.rows("steady") == [("1",), ("2",)]
    assert {flow.rpartition(".")[2] for flow in restarted if flow} == {"grown", "readers", "counted"}
    assert pipeline.run().state is UpdateState.COMPLETED


def test_a_source_that_takes_longer_than_the_idle_time_is_not_interrupted(
    world: EngineWorld, swap: pytest.MonkeyPatch
) -> None:
    """A query ends when its sources have no data, not while they look for some; their rows arrive."""
    slow, groups, taken = threading.Event(), stream.file_groups, list[float]()  # type: ignore[attr-defined]
    swap.setattr(planner, "Continuous", partial(Continuous, idle_seconds=1.0))

    def slowly(*arguments: Any) -> Any:
        begin = time.monotonic()
        found = groups(*arguments)
        while slow.is_set() and time.monotonic() < begin + 4:
            found = groups(*arguments)  # jobs, which the end of the query would cancel
        taken.append(time.monotonic() - begin)
        return found

    swap.setattr(stream, "file_groups", slowly)

    def declare() -> None:
        @dp.table
        def grown() -> DataFrame:
            reader = world.spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
            return reader.load(str(world.root / "grown")).drop("_rescued_data")

    files(world, "grown", '{"id": "1"}')
    pipeline, seen = world.pipeline(declare, configuration=OFTEN), Watched(world)
    with started(pipeline) as running:
        until(lambda: seen.rows("grown") == [("1",)], running)
        slow.set()
        files(world, "grown", '{"id": "2", "a": "x"}')
        until(lambda: bool(taken) and taken[-1] > 4, running)
        slow.clear()
        until(lambda: seen.rows("grown") == [("1", None), ("2", "x")], running)


def test_wider_types_of_files_restart_their_flow_and_its_readers(world: EngineWorld) -> None:
    """A value that needs a wider type is in the table, in a stream that reads it, and in an AUTO CDC target."""
    spark = world.spark
    given = {
        "cloudFiles.format": "json", "cloudFiles.inferColumnTypes": "true", "prefersDecimal": "true",
        "cloudFiles.schemaEvolutionMode": "addNewColumnsWithTypeWidening",
    }  # fmt: skip

    def declare() -> None:
        @dp.table
        def grown() -> DataFrame:
            reader = spark.readStream.format("cloudFiles").options(**given)
            return reader.load(str(world.root / "grown")).drop("_rescued_data")

        @dp.table
        def readers() -> DataFrame:
            return spark.readStream.table("grown")

        dp.create_streaming_table("applied")
        dp.create_auto_cdc_flow(target="applied", source="grown", keys=["id"], sequence_by="n")

    files(world, "grown", '{"id": 1, "n": 1}')
    pipeline, seen = world.pipeline(declare, configuration=OFTEN), Watched(world)

    def is_read(count: int) -> bool:
        return all(len(seen.rows(table)) == count for table in ("readers", "applied"))

    with started(pipeline) as running:
        until(lambda: is_read(1), running)
        files(world, "grown", '{"id": 1.5, "n": 2}')
        until(lambda: is_read(2), running)
        result = running.stop()
    assert result.state is UpdateState.CANCELED, result
    for table in ("grown", "readers", "applied"):
        assert world.rows(table) == [(Decimal("1.0"), 1), (Decimal("1.5"), 2)], table
