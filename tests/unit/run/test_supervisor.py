"""The supervisor of a continuous update starts flows with new data, restarts failed ones, and affects no other flow."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.reset_requests import ResetRequest, ResetRequests
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.plan.steps import AvailableNow, Continuous, RefreshView, RunFlow
from framework.record.events import Event, Origin
from framework.record.log import EventLog
from framework.run.flows.stop_signal import StopSignal
from framework.run.update.continuous.supervisor import Supervisor
from framework.run.update.continuous.units import FlowHealth, Grow, Successor
from framework.run.update.intervals import RefreshIntervals
from framework.run.update.journal import Journal
from framework.run.update.results import FlowResult, FlowState
from framework.run.update.retries import RetryPolicy
from framework.sources.delta.source import table_source
from framework.sources.kinds import remember_sources
from framework.sources.port import ColumnType, ColumnValues, SourceReference, SourceShape
from framework.testing.manual_clock import ManualClock

Outcome = Callable[[RunFlow | RefreshView], FlowResult]


def name(table: str) -> QualifiedName:
    """A name of one catalog and schema."""
    return QualifiedName(catalog="main", schema="s", table=table)


def folder(path: Path) -> SourceReference:
    """A folder of files as a source."""
    return SourceReference(kind="files", shape=SourceShape.FOLDER, location=str(path))


def completed(step: RunFlow | RefreshView, rows: int = 1) -> FlowResult:
    """A run that wrote rows."""
    return FlowResult(flow=step.flow, dataset=step.dataset, state=FlowState.COMPLETED, reason="", rows_written=rows)


def failed(step: RunFlow | RefreshView, *, may_heal: bool) -> FlowResult:
    """A run that failed."""
    error = OperationError("STORAGE_NOT_READABLE", path="/lake", problem="gone")
    return FlowResult(
        flow=step.flow, dataset=step.dataset, state=FlowState.FAILED, reason="", error=error, may_heal=may_heal
    )


@dataclass(kw_only=True, eq=False)
class World:
    """Flows over folders, whose runs are scripted; stops when a script is at its end."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    stop: StopSignal = field(default_factory=StopSignal)
    sources: dict[str, tuple[SourceReference, ...] | None] = field(default_factory=dict)
    scripts: dict[str, list[Outcome]] = field(default_factory=dict)
    ran: list[tuple[str, RunFlow | RefreshView]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    flows: list[GraphFlow] = field(default_factory=list)
    held: set[QualifiedName] = field(default_factory=set)

    @property
    def storage(self) -> LocalStorage:
        """The storage of events and folders."""
        return LocalStorage(str(self.folder))

    @property
    def resets(self) -> ResetRequests:
        """The resets that operators ask for."""
        return ResetRequests(self.storage, self.clock)

    def flow(
        self, table: str, *outcomes: Outcome, once: bool = False, unknown: bool = False, reads: str = ""
    ) -> RunFlow:
        """A flow `table_flow` into `table` with its own folder; its runs end as scripted."""
        source = self.folder / table
        source.mkdir()
        spec = FlowSpec(name=name(f"{table}_flow"), target=name(table), once=once)
        read = (Read(text=reads, streaming=True, dataset=name(reads)),) if reads else ()
        self.flows.append(GraphFlow(spec=spec, streaming=True, reads=read))
        self.sources[table] = None if unknown else (folder(source),)
        self.scripts[table] = list(outcomes)
        return RunFlow(flow=spec.name, dataset=spec.target, generation=1, after=(), reason="", trigger=Continuous())

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """The folder of the flow."""
        return self.sources[flow.spec.target.table]

    def compared_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """The folder of the view."""
        return self.sources[flow.spec.target.table]

    def run(self, step: RunFlow | RefreshView) -> FlowResult:
        """The next outcome of the script; after the last one of all scripts, the update is stopped."""
        table = step.dataset.table
        if not self.scripts[table]:
            return replace(completed(step, rows=0), state=FlowState.IDLE)
        self.ran.append((table, step))
        result = self.scripts[table].pop(0)(step)
        if not any(self.scripts.values()):
            self.stop.set()
        return result

    def file(self, table: str) -> None:
        """A new file in the folder of a flow."""
        place = self.folder / table
        (place / f"{len(list(place.iterdir()))}.json").write_text("{}", "utf-8")

    def supervise(
        self,
        *steps: RunFlow | RefreshView,
        broken: dict[QualifiedName, SluiceError] | None = None,
        threads: int = 1,
        grow: Grow | None = None,
    ) -> Supervisor:
        """Run until all scripts are at their end."""
        datasets = tuple(
            GraphDataset(
                spec=DatasetSpec(name=step.dataset, kind=DatasetKind.STREAMING_TABLE), kind=DatasetKind.STREAMING_TABLE
            )
            for step in steps
        )
        graph = DataflowGraph(pipeline="p", datasets=datasets, flows=tuple(self.flows))
        origin = Origin(pipeline_id="p", pipeline_name="p", update_id="u", host="h")
        with EventLog(self.storage, origin, self.clock) as log:
            log.subscribe(self.events.append)
            supervisor = Supervisor(
                graph=graph, attempts=self, state=self, journal=Journal(log, continuous=True),
                retries=RetryPolicy(first_delay_seconds=8.0), clock=self.clock, stop=self.stop,
                parallel_flows=threads, intervals=RefreshIntervals(), holds=self.held, grow=grow, resets=self.resets,
            )  # fmt: skip
            supervisor.run(steps, broken or {})
        return supervisor


@dataclass(kw_only=False, eq=False)
class PartitionedTable:
    """A Delta table with the partition column `p`."""

    storage: LocalStorage
    path: str
    version: int = -1

    def __post_init__(self) -> None:
        """Create the table."""
        fields = [{"name": "p", "type": "string", "nullable": True, "metadata": {}}]
        schema = json.dumps({"type": "struct", "fields": fields})
        self._write({"metaData": {"id": "t", "schemaString": schema, "partitionColumns": ["p"], "configuration": {}}})

    def commit(self, partition: str) -> None:
        """Add a file in a partition."""
        self._write({"add": {"path": "x", "partitionValues": {"p": partition}, "dataChange": True}})

    def partition(self, value: str) -> SourceReference:
        """The table as a source of a flow that reads one partition."""
        only = ColumnValues(column="p", type=ColumnType.STRING, values=(value,))
        return table_source(self.path, (only,), from_start=True)

    def is_read_by(self, step: RunFlow | RefreshView, *, but: int = 0) -> None:
        """Write the checkpoint of a flow that has read all commits but the last few, and knows them."""
        assert isinstance(step, RunFlow)
        checkpoint = GenerationStore(self.storage).path(step.dataset, step.flow, step.generation)
        offset = {
            "reservoirId": "t",
            "reservoirVersion": self.version + 1 - but,
            "index": -1,
            "isStartingVersion": False,
        }
        self.storage.write_text(f"{checkpoint}/offsets/{self.version}", f"v1\n{{}}\n{json.dumps(offset)}")
        self.storage.write_text(f"{checkpoint}/commits/{self.version}", "v1\n{}")
        remember_sources(self.storage, checkpoint, (table_source(self.path),))

    def _write(self, action: dict[str, object]) -> None:
        self.version += 1
        actions = ({"commitInfo": {"timestamp": 1_000 * self.version}}, action)
        text = "".join(f"{json.dumps(each)}\n" for each in actions)
        self.storage.write_text(f"{self.path}/_delta_log/{self.version:020d}.json", text)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world without flows."""
    world = World(folder=tmp_path)
    yield world
    world.stop.set()


def test_a_flow_starts_again_when_its_source_moved(world: World) -> None:
    """The first start is unconditional; each later one checks, and follows a new file."""

    def and_a_file(step: RunFlow | RefreshView) -> FlowResult:
        world.file("a")
        return completed(step)

    supervisor = world.supervise(world.flow("a", and_a_file, and_a_file, completed))
    checks = [step.check for _, step in world.ran]
    assert checks == [False, True, True]
    assert [(each.state, each.rows_written) for each in supervisor.results] == [(FlowState.STOPPED, 3)]


def test_a_flow_without_news_is_not_started(world: World) -> None:
    """While one flow starts three times, the other starts once."""

    def and_a_file(step: RunFlow | RefreshView) -> FlowResult:
        world.file("busy")
        return completed(step)

    world.supervise(world.flow("idle", completed), world.flow("busy", and_a_file, and_a_file, completed))
    assert [table for table, _ in world.ran] == ["idle", "busy", "busy", "busy"]


def test_a_flow_that_reads_one_partition_starts_for_that_partition_only(world: World) -> None:
    """Of two flows over one table, a commit starts only the one whose partition has a new file."""
    table = PartitionedTable(world.storage, str(world.folder / "table"))

    def then(partition: str = "") -> Outcome:
        def ends(step: RunFlow | RefreshView) -> FlowResult:
            table.is_read_by(step)
            if partition:
                table.commit(partition)
            return completed(step)

        return ends

    steps = (world.flow("one", then(), then("one"), then("two")), world.flow("two", then("one"), then()))
    for step in steps:
        world.sources[step.dataset.table] = (table.partition(step.dataset.table),)
    world.supervise(*steps)
    assert [ran for ran, _ in world.ran] == ["one", "two", "one", "one", "two"]


def test_a_flow_without_a_position_starts_with_its_first_row(world: World) -> None:
    """Commits to other partitions do not start a flow that has found nothing to begin with."""
    table = PartitionedTable(world.storage, str(world.folder / "table"))

    def moves(partition: str = "", *, reads: bool = True) -> Outcome:
        def ends(step: RunFlow | RefreshView) -> FlowResult:
            if reads:
                table.is_read_by(step)
            if partition:
                table.commit(partition)
            return completed(step)

        return ends

    steps = (
        world.flow("one", moves(), moves("one"), moves("two")),
        world.flow("two", moves("one", reads=False), moves()),
    )
    for step in steps:
        world.sources[step.dataset.table] = (table.partition(step.dataset.table),)
    world.supervise(*steps)
    assert [ran for ran, _ in world.ran] == ["one", "two", "one", "one", "two"]


def test_a_flow_that_ended_before_its_rows_starts_again(world: World) -> None:
    """A query that read only other partitions for a while may end with rows unread, which no commit announces again."""
    table = PartitionedTable(world.storage, str(world.folder / "table"))
    for partition in ("other", "one"):
        table.commit(partition)

    def reads(but: int) -> Outcome:
        def ends(step: RunFlow | RefreshView) -> FlowResult:
            table.is_read_by(step, but=but)
            return completed(step)

        return ends

    step = world.flow("one", reads(1), reads(0))
    world.sources["one"] = (table.partition("one"),)
    world.supervise(step)
    assert [ran for ran, _ in world.ran] == ["one", "one"]


def test_a_held_flow_waits_and_continues_without_a_new_commit(world: World) -> None:
    """A query that is interrupted has unread rows, which no commit announces again when the flow is released."""

    def interrupted(step: RunFlow | RefreshView) -> FlowResult:
        world.held |= {step.flow, name("idle_flow")}
        world.file("idle")
        return replace(completed(step), state=FlowState.STOPPED)

    def and_a_file(step: RunFlow | RefreshView) -> FlowResult:
        world.file("other")
        return completed(step)

    def releases(step: RunFlow | RefreshView) -> FlowResult:
        world.held.clear()
        return completed(step)

    steps = (
        world.flow("idle", completed, completed),
        world.flow("running", interrupted, completed),
        world.flow("other", and_a_file, and_a_file, releases),
    )
    world.supervise(*steps)
    before, after = [table for table, _ in world.ran[:5]], {table for table, _ in world.ran[5:]}
    assert (before, after) == (["idle", "running", "other", "other", "other"], {"idle", "running"})


def test_a_failure_that_may_heal_degrades_one_flow_only(world: World) -> None:
    """It restarts after its delay and is then healthy; the other flow keeps running."""

    def fails(step: RunFlow | RefreshView) -> FlowResult:
        return failed(step, may_heal=True)

    def and_a_file(step: RunFlow | RefreshView) -> FlowResult:
        world.file("sound")
        return completed(step)

    def passes_time(step: RunFlow | RefreshView) -> FlowResult:
        world.clock.sleep(20)
        return completed(step)

    supervisor = world.supervise(world.flow("broken", fails, completed), world.flow("sound", and_a_file, passes_time))
    degraded = [event.message for event in world.events if "degraded" in event.message]
    assert [table for table, _ in world.ran] == ["broken", "sound", "sound", "broken"]
    assert len(degraded) == 1
    assert [flow.health for flow in supervisor.flows] == [FlowHealth.IDLE, FlowHealth.IDLE]


def test_a_refused_login_degrades_every_flow(world: World) -> None:
    """A password that is wrong for a while ends no flow, whether it is streaming or runs once."""

    def fails(step: RunFlow | RefreshView) -> FlowResult:
        error = OperationError(
            "DATABASE_LOGIN_REFUSED", connection="bank", address="db", cause="no", role="r", login_rules="x"
        )
        return replace(failed(step, may_heal=False), error=error)

    def passes_time(step: RunFlow | RefreshView) -> FlowResult:
        world.clock.sleep(20)
        return completed(step)

    changes, snapshot = (
        world.flow(name, fails, completed, once=name == "snapshot") for name in ("changes", "snapshot")
    )
    sound = world.flow("sound", passes_time, once=True)
    supervisor = world.supervise(changes, *(replace(each, trigger=AvailableNow()) for each in (snapshot, sound)))
    states = {flow.dataset.table: (flow.health, flow.failures) for flow in supervisor.flows}
    healthy = {"changes": (FlowHealth.IDLE, 0), "snapshot": (FlowHealth.DONE, 0), "sound": (FlowHealth.DONE, 0)}
    assert states == healthy
    assert [table for table, _ in world.ran] == ["changes", "snapshot", "sound", "changes", "snapshot"]


def test_a_failure_after_rows_is_the_first_one(world: World) -> None:
    """A flow that runs until its connection drops restarts as soon each time; one that writes nothing waits longer."""

    def after_rows(step: RunFlow | RefreshView) -> FlowResult:
        return replace(failed(step, may_heal=True), rows_written=2)

    def at_once(step: RunFlow | RefreshView) -> FlowResult:
        return failed(step, may_heal=True)

    def passes_time(step: RunFlow | RefreshView) -> FlowResult:
        world.clock.sleep(400)
        return completed(step)

    steps = (
        world.flow("sound", *[after_rows] * 3),
        world.flow("broken", *[at_once] * 3),
        world.flow("clock", *[passes_time] * 8, unknown=True),
    )
    world.supervise(*steps)
    delays: dict[str | None, list[int]] = {}
    for event in world.events:
        restart = re.search(r"restarts in (\d+) s", event.message)
        if restart is not None:
            delays.setdefault(event.origin.dataset_name, []).append(int(restart[1]))
    assert [4 <= delay <= 8 for delay in delays["main.s.sound"]] == [True] * 3
    first, second, third = delays["main.s.broken"]
    assert 4 <= first <= 8 <= second <= 16 <= third <= 32


def test_a_failure_that_cannot_heal_ends_its_flow_and_names_those_who_wait(world: World) -> None:
    """The flow never restarts and ends as FAILED; a flow that reads its target reports what it waits for."""

    def fails(step: RunFlow | RefreshView) -> FlowResult:
        world.file("a")
        return failed(step, may_heal=False)

    supervisor = world.supervise(world.flow("a", fails), world.flow("b", completed, reads="a"))
    states = {result.dataset.table: result.state for result in supervisor.results}
    reasons = {flow.dataset.table: flow.reason for flow in supervisor.flows}
    assert states == {"a": FlowState.FAILED, "b": FlowState.STOPPED}
    assert reasons == {"a": "/lake cannot be read: gone.", "b": "waits for main.s.a, which failed"}
    assert [table for table, _ in world.ran] == ["a", "b"]


def test_a_once_flow_runs_once(world: World) -> None:
    """It is DONE after its run, whatever arrives later; an update with once flows only ends."""

    def and_a_file(step: RunFlow | RefreshView) -> FlowResult:
        world.file("a")
        return completed(step)

    step = replace(world.flow("a", and_a_file, completed, once=True), trigger=AvailableNow())
    supervisor = world.supervise(step)
    assert [flow.health for flow in supervisor.flows] == [FlowHealth.DONE]
    assert len(world.ran) == 1


def test_the_end_of_a_flow_counts_all_its_runs(world: World) -> None:
    """The end event and the result of a once flow, and of a flow that fails for good, have the sum of the runs."""

    def fails(step: RunFlow | RefreshView) -> FlowResult:
        return replace(failed(step, may_heal=True), rows_written=2)

    def and_a_file(step: RunFlow | RefreshView) -> FlowResult:
        world.clock.sleep(20)
        world.file("broken")
        return completed(step, rows=5)

    def fails_for_good(step: RunFlow | RefreshView) -> FlowResult:
        return failed(step, may_heal=False)

    once = replace(world.flow("once", fails, completed, once=True), trigger=AvailableNow())
    supervisor = world.supervise(once, world.flow("broken", and_a_file, fails_for_good))
    ends = [
        event.details["flow_progress"]["metrics"]["num_output_rows"]
        for event in world.events
        if event.details.get("flow_progress", {}).get("status") == "COMPLETED"
    ]
    assert ends == [3]
    assert [(result.state, result.rows_written) for result in supervisor.results] == [
        (FlowState.COMPLETED, 3),
        (FlowState.FAILED, 5),
    ]


def test_the_last_free_thread_reads_what_is_there_and_an_unknown_source_keeps_its_query(world: World) -> None:
    """With two threads the first flow keeps its query, without end for an unknown source; the second does not."""
    world.supervise(world.flow("a", completed, unknown=True), world.flow("b", completed), threads=2)
    triggers = {table: step.trigger for table, step in world.ran if isinstance(step, RunFlow)}
    assert triggers["a"] == Continuous(idle_seconds=None)
    assert triggers["b"] in (AvailableNow(), Continuous())


def test_a_dataset_that_could_not_be_set_up_fails_alone(world: World) -> None:
    """Its flow is FAILED with the error; the other one runs."""
    error = OperationError("STORAGE_NOT_WRITABLE", path="/lake", problem="read-only")
    supervisor = world.supervise(world.flow("a"), world.flow("b", completed), broken={name("a"): error})
    assert [(result.state, result.error) for result in supervisor.results] == [
        (FlowState.FAILED, error),
        (FlowState.STOPPED, None),
    ]


def test_when_the_update_stops_the_log_has_an_end_for_each_flow(world: World) -> None:
    """STOPPED, COMPLETED for a once flow, FAILED for a failed flow and for one that was degraded at the stop."""

    def fails(step: RunFlow | RefreshView) -> FlowResult:
        return failed(step, may_heal=False)

    def fails_for_now(step: RunFlow | RefreshView) -> FlowResult:
        return failed(step, may_heal=True)

    once = replace(world.flow("once", completed, once=True), trigger=AvailableNow())
    world.supervise(
        once, world.flow("broken", fails), world.flow("busy", completed), world.flow("degraded", fails_for_now)
    )
    ends = {
        str(event.origin.dataset_name).rpartition(".")[2]: event.details["flow_progress"]["status"]
        for event in world.events
        if event.event_type == "flow_progress"
    }
    assert ends == {"once": "COMPLETED", "broken": "FAILED", "busy": "STOPPED", "degraded": "FAILED"}


def new_columns(step: RunFlow | RefreshView) -> FlowResult:
    """A run that stopped for new columns of its files."""
    return replace(failed(step, may_heal=False), error=OperationError("UNKNOWN_FIELD", path="/in", columns="c"))


@dataclass(kw_only=True)
class Grown:
    """Runs the steps of the graph with new columns."""

    world: World
    ran: list[str] = field(default_factory=list)
    grown: threading.Event = field(default_factory=threading.Event)
    errors: dict[str, SluiceError] = field(default_factory=dict)

    def run(self, step: RunFlow | RefreshView) -> FlowResult:
        """Run a step, and note that it is of the new graph."""
        self.ran.append(step.dataset.table)
        return self.world.run(step)

    def of(self, *steps: RunFlow) -> Grow:
        """The successors of some flows."""
        flows = {flow.spec.name: flow for flow in self.world.flows}

        def grow(dataset: QualifiedName) -> Mapping[QualifiedName, Successor]:
            assert dataset == steps[0].dataset
            self.grown.set()
            return {
                step.flow: Successor(
                    step=step, flow=flows[step.flow], attempts=self, error=self.errors.get(step.dataset.table)
                )
                for step in steps
            }

        return grow

    def each(self, *steps: RunFlow) -> Grow:
        """The successor of the flow of each dataset, alone."""
        flows = {step.dataset: step for step in steps}
        return lambda dataset: self.of(flows[dataset])(dataset)


def test_new_columns_restart_a_flow_and_its_readers_and_no_other_flow(world: World) -> None:
    """A reader whose query breaks at the change goes on as its successor; one that can't be set up fails alone."""
    grown = Grown(world=world)
    grown.errors["d"] = OperationError("STORAGE_NOT_WRITABLE", path="/lake", problem="read-only")

    def breaks(step: RunFlow | RefreshView) -> FlowResult:
        assert grown.grown.wait(60)
        return failed(step, may_heal=False)

    a, b, c, d = (
        world.flow("a", new_columns, completed), world.flow("b", breaks, completed, reads="a"),
        world.flow("c", completed), world.flow("d", reads="a"),
    )  # fmt: skip
    supervisor = world.supervise(b, a, c, d, threads=3, grow=grown.of(a, b, d))
    assert sorted(grown.ran) == ["a", "b"]
    assert sorted(table for table, _ in world.ran) == ["a", "a", "b", "b", "c"]
    ended = {result.dataset.table: (result.state, result.error) for result in supervisor.results}
    stopped = (FlowState.STOPPED, None)
    assert ended == {"a": stopped, "b": stopped, "c": stopped, "d": (FlowState.FAILED, grown.errors["d"])}
    restarts = [event.message for event in world.events if "restarts with new columns" in event.message]
    assert sorted(restarts) == [f"Flow main.s.{table}_flow restarts with new columns." for table in "ab"]


def test_a_reset_lets_a_failed_flow_go_on_and_stops_no_other_one(world: World) -> None:
    """It begins its new generation in the update that runs; a request for a flow that runs waits for its end."""
    grown = Grown(world=world)

    def asks(step: RunFlow | RefreshView) -> FlowResult:
        for flow in (broken, busy):
            world.resets.ask(ResetRequest(dataset=flow.dataset, flow=flow.flow, start="startingVersion=3"))
        world.file("busy")
        world.clock.sleep(5)
        return completed(step)

    broken = world.flow("broken", partial(failed, may_heal=False), completed)
    busy = world.flow("busy", asks, completed)
    supervisor = world.supervise(broken, busy, grow=grown.each(broken, busy))
    assert sorted(grown.ran) == ["broken", "busy"]
    assert {result.state for result in supervisor.results} == {FlowState.STOPPED}
    generations = [GenerationStore(world.storage).current(step.dataset, step.flow) for step in (broken, busy)]
    assert [each and (each.number, each.start) for each in generations] == [(1, "startingVersion=3")] * 2
    assert world.resets.pending() == ()
    restarts = [event.message for event in world.events if "restarts with a new checkpoint" in event.message]
    assert sorted(restarts) == [
        f"Flow main.s.{table}_flow restarts with a new checkpoint." for table in ("broken", "busy")
    ]


def test_a_graph_that_is_invalid_with_new_columns_fails_the_flow_that_found_them(world: World) -> None:
    """The flow has the error of the graph; the other one runs. Without `grow` the error is that of the columns."""
    error = OperationError("STORAGE_NOT_READABLE", path="/lake", problem="gone")

    def grow(_dataset: QualifiedName) -> Mapping[QualifiedName, Successor]:
        raise error

    supervisor = world.supervise(world.flow("a", new_columns), world.flow("b", completed), grow=grow)
    assert [(result.state, result.error) for result in supervisor.results] == [
        (FlowState.FAILED, error),
        (FlowState.STOPPED, None),
    ]


def test_a_flow_that_has_no_step_with_its_new_columns_fails_with_them(world: World) -> None:
    """It is not left as running; the other flow runs."""
    supervisor = world.supervise(
        world.flow("a", new_columns), world.flow("b", completed), grow=lambda _dataset: {}, threads=2
    )
    ended = {result.dataset.table: (result.state, result.error) for result in supervisor.results}
    assert ended["b"] == (FlowState.STOPPED, None)
    state, error = ended["a"]
    assert state is FlowState.FAILED
    assert error is not None
    assert error.condition == "UNKNOWN_FIELD"


def test_a_fault_of_the_supervisor_stops_the_flows_that_run(world: World) -> None:
    """The update ends with the fault. A flow whose source tells no changes would run on for ever."""
    stopped = threading.Event()

    def until_stopped(step: RunFlow | RefreshView) -> FlowResult:
        if world.stop.wait(60):
            stopped.set()
        return completed(step)

    def grow(_dataset: QualifiedName) -> Mapping[QualifiedName, Successor]:
        raise AssertionError

    steps = (world.flow("a", until_stopped, unknown=True), world.flow("b", new_columns, completed))
    with pytest.raises(AssertionError):
        world.supervise(*steps, threads=2, grow=grow)
    assert stopped.is_set()


def test_a_source_that_can_not_be_asked_for_changes_concerns_its_flow_only(
    world: World, swap: pytest.MonkeyPatch
) -> None:
    """Its flow starts and reports what is wrong; the other flow goes on."""
    token = LocalStorage.folder_token

    def folder_token(self: LocalStorage, path: str) -> str:
        if Path(path).name == "a":
            raise OperationError("STORAGE_NOT_READABLE", path=path, problem="gone")
        return token(self, path)

    swap.setattr(LocalStorage, "folder_token", folder_token)

    def appears(step: RunFlow | RefreshView) -> FlowResult:
        world.file("b")
        return completed(step)

    steps = (world.flow("a", partial(failed, may_heal=False)), world.flow("b", appears, completed))
    supervisor = world.supervise(*steps)
    assert sorted(table for table, _ in world.ran) == ["a", "b", "b"]
    assert [result.state for result in supervisor.results] == [FlowState.FAILED, FlowState.STOPPED]
