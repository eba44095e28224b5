"""Lag and health of flows, from checkpoints, folders and events of a pipeline that no Spark ever ran."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.record import drafts
from framework.record.events import EventError, ExceptionSummary, Origin
from framework.record.log import EventLog
from framework.recovery.flow_lag import FlowHealth
from framework.recovery.lag import read_lag
from framework.run.tables.table_store import TableStore
from framework.run.update.intervals import ALIVE_SECONDS
from framework.run.update.lock import update_lock
from framework.sources.port import SourceReference, SourceShape
from framework.testing.manual_clock import START, ManualClock
from framework.views.lag import lag_json, lag_table
from tests.support.fake_pipeline import name
from tests.support.hand_written_world import HandWrittenWorld

TABLE = DatasetKind.STREAMING_TABLE
FLOWS = ("fresh", "drained", "unread", "opaque", "once")


class World:
    """A pipeline with one flow of each kind, whose files and events a test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.storage = LocalStorage(str(folder / "storage"))
        self.store = TableStore(pipeline="shop", spark=cast("Any", None), storage=self.storage)
        self.graph = DataflowGraph(
            pipeline="shop",
            datasets=tuple(GraphDataset(spec=DatasetSpec(name=name(each), kind=TABLE), kind=TABLE) for each in FLOWS),
            flows=tuple(self._flow(each) for each in FLOWS),
        )
        for each in FLOWS[1:]:
            self._commit(each)
        GenerationStore(self.storage).complete(name("once"), name("once"), 1)
        unread = folder / "unread" / "new.json"
        unread.write_text("x" * 120, "utf-8")
        os.utime(unread, (START.timestamp() - 30, START.timestamp() - 30))

    def _flow(self, flow: str) -> GraphFlow:
        (self.folder / flow).mkdir()
        files = SourceReference(kind="files", shape=SourceShape.FOLDER, location=str(self.folder / flow))
        opaque = SourceReference(kind="opaque", shape=SourceShape.STREAM, location="rate")
        return GraphFlow(
            spec=FlowSpec(name=name(flow), target=name(flow), once=flow == "once"),
            streaming=True,
            sources=(opaque if flow == "opaque" else files,),
        )

    def _commit(self, flow: str) -> None:
        generations = GenerationStore(self.storage, self.clock)
        path = generations.path(name(flow), name(flow), generations.begin(name(flow), name(flow), reason="").number)
        offset = {"rate": 3} if flow == "opaque" else {"logOffset": 0}
        self.storage.write_text(f"{path}/offsets/0", f"v1\n{{}}\n{json.dumps(offset)}")
        self.storage.write_text(f"{path}/commits/0", "v1\n{}")

    def record(self, update: str, *events: Any) -> None:
        """Write events of an update."""
        origin = Origin(pipeline_id="shop", pipeline_name="shop", update_id=update)
        with EventLog(self.storage, origin, self.clock) as log:
            for event in events:
                log.record(event)

    def alive(self, *flows: str) -> list[Any]:
        """The events of flows without rows."""
        metrics = {"num_output_rows": 0}
        return [
            drafts.flow_progress(flow=str(name(each)), dataset=str(name(each)), status="RUNNING", metrics=metrics)
            for each in flows
        ]

    def health(self) -> dict[str, FlowHealth]:
        """The health of each flow."""
        return {each.flow.table: each.health for each in read_lag(self.graph, self.store, clock=self.clock)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The pipeline in a folder of the test."""
    return World(tmp_path)


@pytest.fixture
def lock(world: World) -> Callable[[], ExitStack]:
    """Holds the lock of an update."""

    def hold() -> ExitStack:
        stack = ExitStack()
        stack.enter_context(update_lock(world.storage, "u-1"))
        return stack

    return hold


AT_REST = {
    "fresh": FlowHealth.NOT_STARTED,
    "drained": FlowHealth.IDLE,
    "unread": FlowHealth.BEHIND,
    "opaque": FlowHealth.UNKNOWN,
    "once": FlowHealth.DONE,
}


def test_lag_is_what_the_sources_hold_beyond_the_checkpoint(world: World) -> None:
    """Bytes and age of the unread file; nothing where all is read; unknown where only the source knows."""
    found = read_lag(world.graph, world.store, clock=world.clock)
    assert {each["flow"]: (each["records"], each["bytes"], each["seconds"]) for each in lag_json(found)} == {
        "main.shop.fresh": (None, None, None),
        "main.shop.drained": (0, 0, 0.0),
        "main.shop.unread": (None, 120, 30.0),
        "main.shop.opaque": (None, None, None),
        "main.shop.once": (0, 0, 0.0),
    }
    assert world.health() == AT_REST
    assert [[cell.text for cell in row] for row in lag_table(found[2:3]).rows] == [
        ["unread", "behind", "?", "120", "30.0 s"]
    ]


def test_a_flow_that_can_not_be_resolved_is_unknown_with_a_reason(world: World) -> None:
    """A fault of its table or of its input is the reason; a materialized view has no lag."""
    fault = OperationError("STORED_FORMAT_UNKNOWN", path="/records/fresh.json", found=999, reads=1)
    view = DatasetKind.MATERIALIZED_VIEW
    changed: dict[str, dict[str, Any]] = {
        "fresh": {"fault": fault},
        "unread": {"waits_for": (name("fresh"),)},
        "drained": {"fault": fault, "kind": view, "spec": DatasetSpec(name=name("drained"), kind=view)},
    }
    datasets = tuple(replace(each, **changed.get(each.name.table, {})) for each in world.graph.datasets)
    flows = tuple(
        replace(each, streaming=each.spec.name.table not in changed, sources=()) for each in world.graph.flows
    )
    graph = replace(world.graph, datasets=datasets, flows=flows)
    found = [
        (each["flow"], each["health"], each["reason"])
        for each in lag_json(read_lag(graph, world.store, clock=world.clock))
    ]
    assert found[:3] == [
        ("main.shop.fresh", "unknown", fault.what),
        ("main.shop.unread", "unknown", "The columns of main.shop.fresh are unknown."),
        ("main.shop.opaque", "unknown", ""),
    ]
    (one,) = read_lag(graph, world.store, clock=world.clock, flow="fresh")
    assert one.reason == fault.what


def test_a_flow_with_a_file_of_another_release_has_its_path_as_the_reason(tmp_path: Path) -> None:
    """Also a file that only the start of the flow needs; another flow keeps its lag."""
    world = HandWrittenWorld(tmp_path, ("first", "second", "third"))
    paths = [world.path("first") / "read_commits.json", world.path("second").parent / "table.json"]
    for path in paths:
        path.write_text('{"format": 9}', "utf-8")
    first, second, third = read_lag(world.graph, world.store, clock=world.clock)
    assert [each.reason.partition(",")[0] for each in (first, second)] == [str(each) for each in paths]
    assert [each.health for each in (first, second, third)] == [FlowHealth.UNKNOWN] * 2 + [FlowHealth.BEHIND]


def test_a_silent_flow_of_a_continuous_update_is_stuck_and_one_without_rows_is_not(
    world: World, lock: Callable[[], ExitStack]
) -> None:
    """Events without rows are life; after three intervals without any event the flow hangs, also if it has read all."""
    started = [drafts.create_update(cause="USER_ACTION", continuous=True), drafts.update_progress(state="RUNNING")]
    with lock():
        world.record("u-1", *started, *world.alive(*FLOWS))
        alive = {**AT_REST, "fresh": FlowHealth.RUNNING, "unread": FlowHealth.RUNNING, "opaque": FlowHealth.RUNNING}
        assert world.health() == alive
        world.clock.sleep(3 * ALIVE_SECONDS)
        assert world.health() == alive
        world.record("u-1", *world.alive("unread"))
        world.clock.sleep(1)
        silent = dict.fromkeys(FLOWS, FlowHealth.STUCK)
        assert world.health() == {**silent, "unread": FlowHealth.RUNNING}
        stuck = read_lag(world.graph, world.store, clock=world.clock, flow="shop.drained")
        assert [(each.silent_seconds, each.reason) for each in stuck] == [
            (181.0, "A continuous update runs, but the flow has reported nothing for 181 s.")
        ]
    # The process is gone, though its last event says that it runs.
    assert world.health() == AT_REST


def test_a_triggered_update_may_be_silent(world: World, lock: Callable[[], ExitStack]) -> None:
    """Its batches take as long as they take, and report at their end."""
    with lock():
        world.record(
            "u-1",
            drafts.create_update(cause="USER_ACTION"),
            drafts.update_progress(state="RUNNING"),
            *world.alive("unread"),
        )
        world.clock.sleep(3600)
        assert world.health()["unread"] is FlowHealth.RUNNING


def test_a_flow_that_the_running_update_does_not_have_is_not_running(
    world: World, lock: Callable[[], ExitStack]
) -> None:
    """The code declares it since the update began; the other one has not reported anything yet."""
    defined = drafts.flow_definition(
        flow=str(name("unread")), dataset=str(name("unread")), flow_type="append", input_datasets=[], once=False,
        comment=None, spark_conf={},
    )  # fmt: skip
    with lock():
        world.record("u-1", drafts.create_update(cause="USER_ACTION"), defined, drafts.update_progress(state="RUNNING"))
        assert world.health() == {**AT_REST, "unread": FlowHealth.RUNNING}


def test_a_failed_flow_has_its_error(world: World) -> None:
    """Its last run failed; its lag is still known."""
    error = EventError(fatal=True, exceptions=(ExceptionSummary(class_name="OperationError", message="broken\nmore"),))
    event = drafts.flow_progress(
        flow=str(name("unread")), dataset=str(name("unread")), status="FAILED", error=error
    )  # fmt: skip
    world.record("u-1", event, drafts.update_progress(state="FAILED"))
    found = read_lag(world.graph, world.store, clock=world.clock, flow="unread")
    assert [(each.health, each.lag.bytes, each.reason) for each in found] == [(FlowHealth.FAILED, 120, "broken")]


def test_an_unknown_flow_is_an_error_with_the_nearest_name(world: World) -> None:
    """A name that no flow has is never an empty result."""
    with pytest.raises(UserError, match=r"Did you mean main\.shop\.unread") as caught:
        read_lag(world.graph, world.store, clock=world.clock, flow="unred")
    assert caught.value.condition == "LAG_FLOW_NOT_FOUND"
