"""Runs the flows and views of a continuous update until the update is stopped.

A flow has a running query only while its sources have data to read. In between it is idle: the
supervisor compares the change tokens of its sources, which needs neither Spark nor a job. So 200 flows of
which 5 receive rows cost little more than 5. A view is refreshed when its inputs changed, at most once per
trigger interval. A flow that fails is degraded: it restarts with exponential backoff while all other flows
continue. A failure that a retry can't heal ends the flow as FAILED.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from framework.checkpoints.generations import GenerationStore
from framework.foundation.clock import Clock
from framework.foundation.errors import SluiceError
from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.plan.steps import AvailableNow, Continuous, RefreshView, RunFlow
from framework.run.configuration import trigger_interval
from framework.run.flows.stop_signal import StopSignal
from framework.run.update.journal import Journal
from framework.run.update.results import FlowResult, FlowState
from framework.run.update.retries import RetryPolicy
from framework.sources.kinds import flow_lag, kind_named
from framework.sources.port import UNKNOWN_LAG, Lag, SourceReference

POLL_SECONDS = 0.25
"""Time between two looks at the change tokens of idle flows."""

ALIVE_SECONDS = 60.0
"""The longest time without an event of a flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshIntervals:
    """The shortest times between two refreshes of a view; Lakeflow's defaults of `pipelines.trigger.interval`.

    Args:
        tables_seconds: for a view or a snapshot flow whose inputs are all Delta tables.
        unknown_seconds: for one with another input, whose changes can't be detected.
    """

    tables_seconds: float = 60.0
    unknown_seconds: float = 600.0


DEFAULT_INTERVALS = RefreshIntervals()


def refresh_intervals(configuration: Mapping[str, str]) -> RefreshIntervals:
    """Return the intervals of a pipeline: `pipelines.trigger.interval` for all views, or the defaults.

    Raises:
        UserError: INVALID_CONFIGURATION for an interval that is not a number and a unit.
    """
    seconds = trigger_interval(configuration)
    return DEFAULT_INTERVALS if seconds is None else RefreshIntervals(tables_seconds=seconds, unknown_seconds=seconds)


class FlowHealth(StrEnum):
    """The health of a flow in a continuous update."""

    IDLE = "IDLE"
    RUNNING = "RUNNING"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    DONE = "DONE"


_FLOW_STATES: Mapping[FlowHealth, FlowState] = {
    FlowHealth.IDLE: FlowState.IDLE,
    FlowHealth.RUNNING: FlowState.RUNNING,
    FlowHealth.DEGRADED: FlowState.QUEUED,
    FlowHealth.FAILED: FlowState.FAILED,
    FlowHealth.DONE: FlowState.COMPLETED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """The current state of one flow.

    Args:
        health: the health of the flow.
        reason: why it is degraded or failed, or which failed dataset it waits for; else empty.
        failures: failed starts since the last success.
        result: the sum of its runs that have ended; None before the first end.
    """

    flow: QualifiedName
    dataset: QualifiedName
    health: FlowHealth
    reason: str = ""
    failures: int = 0
    result: FlowResult | None = None


class _Unit:
    """A supervised flow or view and its current state; changed from the supervisor's thread only.

    Args:
        step: the step to execute when the unit is due.
        sources: the sources it reads; None if changes of one can't be detected.
        interval_seconds: the shortest time between two starts.
        now: the start of the interval until its first event.
    """

    def __init__(
        self,
        step: RunFlow | RefreshView,
        sources: tuple[SourceReference, ...] | None,
        *,
        interval_seconds: float,
        now: float,
    ) -> None:
        self.step = step
        self.sources = sources
        self.interval_seconds = interval_seconds
        self.health = FlowHealth.IDLE
        self.reason = ""
        self.failures = 0
        self.started_at: float | None = None
        self.not_before = 0.0
        self.last_event_at = now
        self.tokens: dict[SourceReference, str | None] = {}
        """The change tokens at the last start."""
        self.unconfirmed = False
        """Whether the last change may hide another one with the same token."""
        self.result: FlowResult | None = None
        """The sum of its runs."""

    @property
    def is_over(self) -> bool:
        """Whether the unit never starts again in this update."""
        return self.health in {FlowHealth.FAILED, FlowHealth.DONE}


class StepRunner(Protocol):
    """Runs one step to its end and returns every failure as a result."""

    def run(self, step: RunFlow | RefreshView) -> FlowResult:
        """Run a step; never raises."""
        ...


class SourceState(Protocol):
    """The sources of flows."""

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        ...

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return the streaming sources of a flow; None if a path is unknown."""
        ...

    def compared_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return the tables that a view or a snapshot flow reads; None if it reads anything else."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supervisor:
    """Runs the steps of a continuous plan until the update is stopped.

    Args:
        attempts: runs one step to its end and never raises.
        state: reads the sources of flows.
        retries: the delays between two starts of a degraded flow; their number is not limited.
        parallel_flows: the number of flows that run at the same time.
        intervals: the shortest times between two refreshes of a view.
    """

    graph: DataflowGraph
    attempts: StepRunner
    state: SourceState
    journal: Journal
    retries: RetryPolicy
    clock: Clock
    stop: StopSignal
    parallel_flows: int
    intervals: RefreshIntervals
    _units: list[_Unit] = field(default_factory=list)

    @property
    def flows(self) -> tuple[FlowStatus, ...]:
        """The current state of each flow; may be called from any thread."""
        units = tuple(self._units)
        failed = [unit.step.dataset for unit in units if unit.health is FlowHealth.FAILED]
        return tuple(self._status(unit, failed) for unit in units)

    def _status(self, unit: _Unit, failed: Sequence[QualifiedName]) -> FlowStatus:
        missing = [str(name) for name in _inputs(self._flow(unit.step)) if name in failed]
        waits = f"waits for {', '.join(missing)}, which failed" if missing and not unit.is_over else ""
        return FlowStatus(
            flow=unit.step.flow, dataset=unit.step.dataset, health=unit.health, reason=unit.reason or waits,
            failures=unit.failures, result=unit.result,
        )  # fmt: skip

    def run(self, steps: Iterable[RunFlow | RefreshView], failed: Mapping[QualifiedName, SluiceError]) -> None:
        """Supervise until the update is stopped, or until every flow is over.

        Args:
            steps: one for each flow and view, those without new data included.
            failed: datasets whose tables could not be set up.
        """
        self._units.extend(self._unit(step, failed.get(step.dataset)) for step in steps)
        running: dict[Future[FlowResult], _Unit] = {}
        with ThreadPoolExecutor(self.parallel_flows, thread_name_prefix="sluice-flow") as pool:
            while not self.stop.is_set and not (self._units and all(unit.is_over for unit in self._units)):
                for unit in self._due(self.parallel_flows - len(running)):
                    running[pool.submit(self.attempts.run, self._started(unit, len(running)))] = unit
                self._pause(running)
                self._collect(running)
                self._report_alive()
            if running:
                wait(running)
                self._collect(running)
        for unit in self._units:
            if not unit.is_over:
                self.journal.ended(self._result(unit))

    @property
    def results(self) -> tuple[FlowResult, ...]:
        """One result for each flow: the sum of its runs, and its final state."""
        return tuple(self._result(unit) for unit in self._units)

    def _unit(self, step: RunFlow | RefreshView, error: SluiceError | None) -> _Unit:
        flow = self._flow(step)
        compared = isinstance(step, RefreshView) or flow.spec.from_snapshots
        sources = self.state.compared_sources(flow) if compared else self.state.stream_sources(flow)
        interval = self.intervals.tables_seconds if sources is not None else self.intervals.unknown_seconds
        unit = _Unit(step, sources, interval_seconds=interval if compared else 0.0, now=self.clock.monotonic())
        if error is not None:
            self._fail(unit, FlowResult(
                flow=step.flow, dataset=step.dataset, state=FlowState.FAILED, error=error,
                reason="its table cannot be set up",
            ))  # fmt: skip
        return unit

    def _due(self, most: int) -> Iterator[_Unit]:
        """Yield up to `most` units to start now; each source is read once."""
        now, seen = self.clock.monotonic(), dict[SourceReference, str | None]()
        # The longest waiting units first, so that a busy flow can't starve the rest.
        for unit in sorted(self._units, key=lambda unit: unit.started_at or 0.0):
            if most <= 0:
                return
            may_start = unit.health in {FlowHealth.IDLE, FlowHealth.DEGRADED} and now >= unit.not_before
            if may_start and self._moved(unit, seen):
                most -= 1
                yield unit

    def _moved(self, unit: _Unit, seen: dict[SourceReference, str | None]) -> bool:
        """Whether a source may have changed since the last start."""
        if unit.started_at is None or unit.health is FlowHealth.DEGRADED or not unit.sources:
            return True
        for source in unit.sources:
            if source not in seen:
                kind = kind_named(source.kind)
                seen[source] = kind.change_token(self.state.storage, source, unit.tokens.get(source))
            if seen[source] is None or seen[source] != unit.tokens.get(source):
                unit.unconfirmed = True
                return True
        confirming, unit.unconfirmed = unit.unconfirmed, False
        return confirming

    def _started(self, unit: _Unit, running: int) -> RunFlow | RefreshView:
        """Store the current change tokens of the unit's sources, and return the step to run."""
        storage = self.state.storage
        for source in unit.sources or ():
            unit.tokens[source] = kind_named(source.kind).change_token(storage, source, unit.tokens.get(source))
        first = unit.started_at is None
        unit.started_at, unit.health = self.clock.monotonic(), FlowHealth.RUNNING
        unit.not_before = unit.started_at + unit.interval_seconds
        unit.last_event_at = unit.started_at
        step = unit.step if first else replace(unit.step, check=True)
        if not isinstance(step, RunFlow) or not isinstance(step.trigger, Continuous):
            return step
        # The last free thread serves all other flows in turn, so its flow reads the available data and ends.
        if running >= self.parallel_flows - 1:
            return replace(step, trigger=AvailableNow())
        # Only the flow's own query can detect changes of an unknown source.
        unknown = not unit.sources or None in unit.tokens.values()
        return replace(step, trigger=replace(step.trigger, idle_seconds=None)) if unknown else step

    def _pause(self, running: Mapping[Future[FlowResult], _Unit]) -> None:
        if running:
            wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        else:
            self.stop.wait(POLL_SECONDS)

    def _collect(self, running: dict[Future[FlowResult], _Unit]) -> None:
        for future in [future for future in running if future.done()]:
            self._ended(running.pop(future), future.result())

    def _ended(self, unit: _Unit, result: FlowResult) -> None:
        unit.result = total = result if unit.result is None else unit.result.plus(result)
        match result.state:
            case FlowState.FAILED if result.may_heal and result.error is not None:
                self._degrade(unit, result.error)
            case FlowState.FAILED:
                self._fail(unit, total)
            case _:
                unit.health, unit.reason, unit.failures = FlowHealth.IDLE, "", 0
                if self._flow(unit.step).spec.once and result.state is not FlowState.STOPPED:
                    unit.health = FlowHealth.DONE
                    self.journal.ended(total)

    def _degrade(self, unit: _Unit, error: SluiceError) -> None:
        unit.failures += 1
        delay_seconds = self.retries.delay_seconds(unit.failures)
        unit.health, unit.reason = FlowHealth.DEGRADED, error.what
        unit.not_before = self.clock.monotonic() + delay_seconds
        unit.last_event_at = self.clock.monotonic()
        self.journal.degraded(unit.step.flow, unit.step.dataset, error, delay_seconds)

    def _fail(self, unit: _Unit, result: FlowResult) -> None:
        unit.health, unit.result = FlowHealth.FAILED, result
        unit.reason = result.error.what if result.error is not None else result.reason
        self.journal.ended(result)

    def _report_alive(self) -> None:
        now, active = self.clock.monotonic(), self.journal.take_active()
        for unit in self._units:
            if unit.step.flow in active:
                unit.last_event_at = now
            if not unit.is_over and now - unit.last_event_at >= ALIVE_SECONDS:
                unit.last_event_at = now
                self.journal.alive(unit.step.flow, unit.step.dataset, _FLOW_STATES[unit.health], self._lag(unit))

    def _lag(self, unit: _Unit) -> Lag:
        step = unit.step
        if unit.sources is None or not isinstance(step, RunFlow):
            return UNKNOWN_LAG
        storage = self.state.storage
        checkpoint = GenerationStore(storage).path(step.dataset, step.flow, step.generation)
        return flow_lag(storage, checkpoint, unit.sources, now=self.clock.now().timestamp())

    def _result(self, unit: _Unit) -> FlowResult:
        step = unit.step
        done = unit.result or FlowResult(
            flow=step.flow, dataset=step.dataset, state=FlowState.IDLE, reason="its inputs have not changed"
        )
        if unit.is_over:
            return done
        if unit.health is FlowHealth.DEGRADED:
            return replace(done, state=FlowState.FAILED)
        return replace(done, state=FlowState.STOPPED, reason="the update is stopping", error=None)

    def _flow(self, step: RunFlow | RefreshView) -> GraphFlow:
        flow = self.graph.flow(step.flow)
        assert flow is not None
        return flow


def _inputs(flow: GraphFlow) -> Sequence[QualifiedName]:
    return tuple(read.dataset for read in flow.reads if read.dataset is not None)
