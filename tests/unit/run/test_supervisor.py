"""The supervisor of a continuous update starts flows with new data, restarts failed ones, and affects no other flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.names import QualifiedName
from framework.foundation.storage import LocalStorage
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.plan.steps import AvailableNow, Continuous, RefreshView, RunFlow
from framework.record.events import Event, Origin
from framework.record.log import EventLog
from framework.run.flows.stop_signal import StopSignal
from framework.run.update.journal import Journal
from framework.run.update.results import FlowResult, FlowState
from framework.run.update.retries import RetryPolicy
from framework.run.update.supervisor import FlowHealth, RefreshIntervals, Supervisor
from framework.sources.port import SourceReference, SourceShape
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

    @property
    def storage(self) -> LocalStorage:
        """The storage of events and folders."""
        return LocalStorage(str(self.folder))

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
        self, *steps: RunFlow | RefreshView, broken: dict[QualifiedName, SluiceError] | None = None, threads: int = 1
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
                parallel_flows=threads, intervals=RefreshIntervals(),
            )  # fmt: skip
            supervisor.run(steps, broken or {})
        return supervisor


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
