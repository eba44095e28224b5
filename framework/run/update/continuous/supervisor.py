"""Runs the flows and views of a continuous update until the update is stopped.

A flow has a running query only while its sources have data to read. In between it is idle: the supervisor compares the
change tokens of its sources, which needs neither Spark nor a job. A flow that reads some partitions of a table starts
only if they have new rows. So 200 flows of which 5 receive rows cost little more than 5, even if all read one table. A
view is refreshed when its inputs changed, at most once per trigger interval. A flow that fails is degraded: it restarts
with exponential backoff while all other flows continue, also if a database refuses its login. A failure that a retry
can't heal ends the flow as FAILED. A flow that stops for new columns of its files restarts with the columns at once, as
do the readers of its table.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.reset_requests import ResetRequests
from framework.foundation.clock import Clock
from framework.foundation.conditions.databases import REFUSED_LOGINS
from framework.foundation.conditions.run import RESOLVED_AGAIN
from framework.foundation.errors import SluiceError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.foundation.resource_faults import FILE_CONDITIONS
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.plan.steps import AvailableNow, Continuous, RefreshView, RunFlow
from framework.run.flows.stop_signal import StopSignal
from framework.run.update.checkpoint_actions import begin_reset
from framework.run.update.continuous.units import FlowHealth, Grow, StepRunner, Successor, Unit
from framework.run.update.continuous.unread import UnreadDatasets
from framework.run.update.intervals import ALIVE_SECONDS, RefreshIntervals
from framework.run.update.journal import Journal
from framework.run.update.results import FlowResult, FlowState
from framework.run.update.retries import RetryPolicy
from framework.sources.kinds import all_drained, flow_positions, has_nothing_to_begin, kind_named
from framework.sources.port import UNKNOWN_LAG, Lag, SourceReference
from framework.sources.stored_lag import flow_lag

POLL_SECONDS = 0.25
"""The time between two comparisons of the change tokens of idle flows."""

"""The maximum time without an event of a flow."""

_MOST_RESTARTS = 100
"""The maximum restarts of a flow for new columns without a successful run; each restart adds at least one column."""


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
        reason: why it is degraded or failed, or the failed dataset that it waits for; else empty.
        failures: failed starts since the last success.
        result: the sum of its finished runs; None before the first run ends.
    """

    flow: QualifiedName
    dataset: QualifiedName
    health: FlowHealth
    reason: str = ""
    failures: int = 0
    result: FlowResult | None = None


class SourceState(Protocol):
    """Access to the sources of flows."""

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        ...

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return the streaming sources of a flow; None if a path is unknown."""
        ...

    def compared_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return the tables that a view or a snapshot flow reads; None if it reads any other source."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supervisor:
    """Runs the steps of a continuous plan until the update is stopped.

    Args:
        attempts: runs one step to its end and never raises.
        state: reads the sources of flows.
        retries: the delays between two starts of a degraded flow; their number is not limited.
        parallel_flows: the number of flows that run at the same time.
        intervals: the minimum times between two refreshes of a view.
        holds: the flows that an operator has paused; they start when they are released.
        grow: restarts flows with new columns of their files, or with a new generation; None if such flows fail instead.
        resets: the flows that are to begin a new generation as soon as they do not run.
        unread: the datasets whose sources could not be read; their flows begin as soon as they can be.
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
    holds: Container[QualifiedName] = frozenset()
    grow: Grow | None = None
    resets: ResetRequests | None = None
    unread: UnreadDatasets = field(default_factory=UnreadDatasets)
    _units: list[Unit] = field(default_factory=list)

    @property
    def flows(self) -> tuple[FlowStatus, ...]:
        """The current state of each flow; may be called from any thread."""
        units = tuple(self._units)
        failed = [unit.step.dataset for unit in units if unit.health is FlowHealth.FAILED]
        unread = (
            FlowStatus(
                flow=flow, dataset=each.name, health=FlowHealth.DEGRADED, reason=each.error.what,
                failures=each.failures,
            )
            for each in self.unread.waiting for flow in each.flows
        )  # fmt: skip
        return (*(self._status(unit, failed) for unit in units), *unread)

    def _status(self, unit: Unit, failed: Sequence[QualifiedName]) -> FlowStatus:
        missing = [str(name) for name in _inputs(unit.flow) if name in failed]
        waits = f"waits for {', '.join(missing)}, which failed" if missing and not unit.is_over else ""
        return FlowStatus(
            flow=unit.step.flow, dataset=unit.step.dataset, health=unit.health, reason=unit.reason or waits,
            failures=unit.failures, result=unit.result,
        )  # fmt: skip

    def run(self, steps: Iterable[RunFlow | RefreshView], failed: Mapping[QualifiedName, SluiceError]) -> None:
        """Supervise until the update is stopped or every flow is over.

        Args:
            steps: one step for each flow and view, including those without new data.
            failed: the datasets whose tables could not be set up.
        """
        self._units.extend(self._unit(step, failed.get(step.dataset)) for step in steps)
        running: dict[Future[FlowResult], Unit] = {}
        with ThreadPoolExecutor(self.parallel_flows, thread_name_prefix="sluice-flow") as pool:
            is_over = False
            try:
                self._supervise(pool, running)
                is_over = True
            finally:
                if not is_over:
                    self.stop.set()  # the pool waits for its flows, and flows of unknown sources end only at a stop
            if running:
                wait(running)
                self._collect(running)
        for unit in self._units:
            if not unit.is_over:
                self.journal.ended(self._result(unit))

    def _supervise(self, pool: ThreadPoolExecutor, running: dict[Future[FlowResult], Unit]) -> None:
        while not self.stop.is_set and (self.unread.waiting or not self._is_over):
            for unit in self._due(self.parallel_flows - len(running)):
                running[pool.submit(unit.attempts.run, self._started(unit, len(running)))] = unit
            self._pause(running)
            self._collect(running)
            if self.resets is not None and self.grow is not None:
                self._reset(self.resets, self.grow)
            if self.grow is not None:
                self._go_on(self.unread.successors(self.grow, self.journal, self.clock, self.retries))
            self._report_alive()

    @property
    def _is_over(self) -> bool:
        return bool(self._units) and all(unit.is_over for unit in self._units)

    @property
    def results(self) -> tuple[FlowResult, ...]:
        """One result for each flow: the sum of its runs, and its final state."""
        return tuple(self._result(unit) for unit in self._units)

    def _unit(self, step: RunFlow | RefreshView, error: SluiceError | None, new: Successor | None = None) -> Unit:
        flow = self._flow(step) if new is None else new.flow
        compared = isinstance(step, RefreshView) or flow.spec.from_snapshots
        sources = self.state.compared_sources(flow) if compared else self.state.stream_sources(flow)
        interval = self.intervals.tables_seconds if sources is not None else self.intervals.unknown_seconds
        unit = Unit(
            step, sources, flow=flow, attempts=self.attempts if new is None else new.attempts,
            interval_seconds=interval if compared else 0.0, now=self.clock.monotonic(),
        )  # fmt: skip
        if error is not None:
            self._fail(unit, _not_set_up(step, error))
        return unit

    def _due(self, most: int) -> Iterator[Unit]:
        """Yield up to `most` units to start now; each source is read once."""
        now, seen = self.clock.monotonic(), dict[SourceReference, str | None]()
        # A view has no table before its first refresh.
        first = {each.step.dataset for each in self._units if isinstance(each.step, RefreshView) and each.is_first}
        # The longest waiting units first, so that a busy flow can't starve the rest.
        for unit in sorted(self._units, key=lambda unit: unit.started_at or 0.0):
            if most <= 0:
                return
            may_start = unit.health in {FlowHealth.IDLE, FlowHealth.DEGRADED} and now >= unit.not_before
            may_start = may_start and not (unit.is_first and first.intersection(_inputs(unit.flow)))
            if may_start and unit.step.flow in self.holds:
                unit.was_held = True
            elif may_start and self._moved(unit, seen):
                most -= 1
                yield unit

    def _moved(self, unit: Unit, seen: dict[SourceReference, str | None]) -> bool:
        """Whether a source may have new rows for the unit since its last start."""
        if unit.started_at is None or unit.health is FlowHealth.DEGRADED or unit.was_held or not unit.sources:
            return True
        if not self._changed(unit, seen):
            return False
        if not any(source.only for source in unit.sources):
            return True
        with suppress(SluiceError, OSError):  # if it can't be read, the flow's own start reports why
            if self._has_read_all(unit):
                # The tokens were read before the log, so a commit that the log did not have yet changes them again.
                unit.tokens = {source: seen[source] for source in unit.watched}
                return False
        return True

    def _token(self, unit: Unit, source: SourceReference) -> str | None:
        """The change token of a source; None if it can't detect changes, or can't be read now.

        The flow then starts: its own query reports the reason, and only this flow is degraded.
        """
        try:
            return kind_named(source.kind).change_token(self.state.storage, source, unit.tokens.get(source))
        except (SluiceError, OSError):
            return None

    def _changed(self, unit: Unit, seen: dict[SourceReference, str | None]) -> bool:
        """Whether a source may have changed for this unit since the last look; each source is read once per round."""
        for source in unit.watched:
            if source not in seen:
                seen[source] = self._token(unit, source)
        if any(seen[source] is None or seen[source] != unit.tokens.get(source) for source in unit.watched):
            unit.unconfirmed = True
            return True
        confirming, unit.unconfirmed = unit.unconfirmed, False
        return confirming

    def _has_read_all(self, unit: Unit) -> bool:
        """Whether all rows of interest are read; the position of an idle unit does not change."""
        storage, checkpoint, sources = self.state.storage, self._checkpoint(unit.step), unit.sources or ()
        if unit.positions is None:
            unit.positions = flow_positions(storage, checkpoint, sources)
        if unit.positions is None:
            return has_nothing_to_begin(storage, checkpoint, sources)
        return all_drained(unit.positions) is True

    def _started(self, unit: Unit, running: int) -> RunFlow | RefreshView:
        """Store the current change tokens of the unit's sources, and return the step to run."""
        for source in unit.watched:
            unit.tokens[source] = self._token(unit, source)
        unit.positions, unit.was_held = None, False
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

    def _pause(self, running: Mapping[Future[FlowResult], Unit]) -> None:
        if running:
            wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
        else:
            self.stop.wait(POLL_SECONDS)

    def _collect(self, running: dict[Future[FlowResult], Unit]) -> None:
        for future in [future for future in running if future.done()]:
            self._ended(running.pop(future), future.result())

    def _ended(self, unit: Unit, result: FlowResult) -> None:
        unit.result = total = result if unit.result is None else unit.result.plus(result)
        match result.state:
            case FlowState.FAILED if unit.successor is not None:
                # A query fails when the columns of a table that it reads change; its successor reads the new columns.
                self._replace(unit, unit.successor)
            case FlowState.FAILED if self.grow is not None and _has_new_columns(result, unit):
                self._restart(unit, self.grow)
            case FlowState.FAILED if result.error is not None and _may_heal(result, result.error):
                self._degrade(unit, result, result.error)
            case FlowState.FAILED:
                self._fail(unit, total)
            case _:
                unit.health, unit.reason, unit.failures, unit.restarts = FlowHealth.IDLE, "", 0, 0
                unit.was_held = result.state is FlowState.STOPPED
                # A query that reads some partitions may end after an empty batch while rows of interest follow.
                unit.unconfirmed |= any(source.only for source in unit.sources or ())
                if unit.flow.spec.once and result.state is not FlowState.STOPPED:
                    unit.health = FlowHealth.DONE
                    self.journal.ended(total)
                elif unit.successor is not None:
                    self._replace(unit, unit.successor)

    def _restart(self, unit: Unit, grow: Grow) -> None:
        """Restart a flow that stopped for new columns with these columns, and all flows that read its table."""
        unit.restarts += 1
        try:
            successors = grow(unit.step.dataset)
        except SluiceError as error:
            assert unit.result is not None
            self._fail(unit, replace(unit.result, error=error, reason=error.condition))
            return
        self._go_on(successors, unit)
        if unit.health is FlowHealth.RUNNING and unit.result is not None:  # the plan has no step for it
            self._fail(unit, unit.result)

    def _go_on(self, successors: Mapping[QualifiedName, Successor], stopped: Unit | None = None) -> None:
        """Continue flows as their successors: a running flow when its query has ended, a new one at once."""
        units = {unit.step.flow: unit for unit in self._units}
        for name, successor in successors.items():
            unit = units.get(name)
            if unit is None:
                self._units.append(self._unit(successor.step, successor.error, successor))
            elif unit.health is FlowHealth.RUNNING and unit is not stopped:
                unit.successor = successor  # its query ends when it reaches the change of its source
            elif not unit.is_over:
                self._replace(unit, successor)

    def _reset(self, resets: ResetRequests, grow: Grow) -> None:
        """Begin the new generations that operators have requested; failed flows restart, too."""
        for request in resets.new():
            unit = next((each for each in self._units if each.step.flow == request.flow), None)
            if unit is None or unit.step.dataset != request.dataset or unit.health is FlowHealth.RUNNING:
                continue
            begin_reset(resets, self.state.storage, request)
            try:
                successor = grow(request.dataset).get(request.flow)
            except SluiceError as error:
                self._fail(unit, _not_set_up(unit.step, error))
                continue
            if successor is not None:
                unit.failures, unit.not_before = 0, 0.0
                self._replace(unit, successor, "with a new checkpoint")

    def _replace(self, unit: Unit, successor: Successor, how: str = "with new columns") -> None:
        unit.step, unit.flow, unit.attempts, unit.successor = successor.step, successor.flow, successor.attempts, None
        if successor.error is not None:
            self._fail(unit, _not_set_up(unit.step, successor.error))
            return
        # The next start is unconditional, like the first one: there may be more to read, whatever ended the last run.
        unit.health, unit.reason, unit.started_at, unit.positions = FlowHealth.IDLE, "", None, None
        self.journal.flow(unit.step.flow, unit.step.dataset, FlowState.QUEUED, f"Flow {unit.step.flow} restarts {how}.")

    def _degrade(self, unit: Unit, result: FlowResult, error: SluiceError) -> None:
        # A query with a source of undetectable changes runs until it fails. If it wrote rows or ran for a while, it was
        # healthy. Otherwise the delay would grow each time that a connection drops, even if only once a week.
        rows = (result.rows_written, result.rows_upserted, result.rows_deleted)
        was_sound = result.seconds >= ALIVE_SECONDS or any(rows)
        unit.failures = 1 if was_sound else unit.failures + 1
        delay_seconds = self.retries.delay_seconds(unit.failures)
        unit.health, unit.reason = FlowHealth.DEGRADED, error.what
        unit.not_before = self.clock.monotonic() + delay_seconds
        unit.last_event_at = self.clock.monotonic()
        self.journal.degraded(unit.step.flow, unit.step.dataset, error, delay_seconds)

    def _fail(self, unit: Unit, result: FlowResult) -> None:
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

    def _lag(self, unit: Unit) -> Lag:
        step = unit.step
        if unit.sources is None or not isinstance(step, RunFlow):
            return UNKNOWN_LAG
        now = self.clock.now().timestamp()
        with suppress(SluiceError, OSError):
            return flow_lag(self.state.storage, self._checkpoint(step), unit.sources, now=now)
        return UNKNOWN_LAG

    def _checkpoint(self, step: RunFlow | RefreshView) -> str:
        assert isinstance(step, RunFlow)  # only streams have positions
        return GenerationStore(self.state.storage).path(step.dataset, step.flow, step.generation)

    def _result(self, unit: Unit) -> FlowResult:
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


def _may_heal(result: FlowResult, error: SluiceError) -> bool:
    """Whether a later start may succeed: refused logins and full disks are often fixed while the update runs."""
    return result.may_heal or error.condition in REFUSED_LOGINS | FILE_CONDITIONS


def _has_new_columns(result: FlowResult, unit: Unit) -> bool:
    is_stopped = result.error is not None and result.error.condition in RESOLVED_AGAIN
    return is_stopped and unit.restarts < _MOST_RESTARTS


def _not_set_up(step: RunFlow | RefreshView, error: SluiceError) -> FlowResult:
    return FlowResult(
        flow=step.flow, dataset=step.dataset, state=FlowState.FAILED, error=error, reason="its table cannot be set up"
    )


def _inputs(flow: GraphFlow) -> Sequence[QualifiedName]:
    return tuple(read.dataset for read in flow.reads if read.dataset is not None)
