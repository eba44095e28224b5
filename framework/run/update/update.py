"""One update from request to result: lock, plan, run, record."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from framework.declare.registry import Registry
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.continuous import rebuild_steps, supervised_steps
from framework.plan.planner import make_plan
from framework.plan.request import UpdateRequest
from framework.plan.steps import Plan
from framework.record.events import Event, Origin
from framework.record.hooks import EventHook, HookRunner
from framework.record.log import EventLog, delete_old_events
from framework.run.flows.flow_run import FlowContext, FlowSessions
from framework.run.flows.flow_runner import FlowRunner
from framework.run.flows.reads import TableQueries
from framework.run.flows.state_reader import StateReader
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.view_refresh import ViewRefresher
from framework.run.tables.known_tables import StoredTables
from framework.run.tables.left_tables import LeftTables
from framework.run.tables.table_store import TableStore
from framework.run.update.executor import Executor
from framework.run.update.fault_classification import flow_fault
from framework.run.update.flow_attempts import FlowAttempts
from framework.run.update.journal import Journal
from framework.run.update.lock import update_lock
from framework.run.update.rebuilds import Rebuilds
from framework.run.update.results import FlowResult, FlowState, UpdateResult, UpdateState
from framework.run.update.retries import RetryPolicy
from framework.run.update.supervisor import DEFAULT_INTERVALS, FlowStatus, RefreshIntervals, Supervisor
from framework.session.query_log import quiet_query_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Observer = Callable[[Event], None]

_UNDONE = frozenset({FlowState.FAILED, FlowState.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Update:
    """One update of a pipeline.

    Args:
        parallel_flows: the number of flows that run at the same time.
        observers: called with each event when it is recorded.
    """

    graph: DataflowGraph
    registry: Registry
    spark: SparkSession
    store: TableStore
    request: UpdateRequest
    retries: RetryPolicy
    clock: Clock
    stop: StopSignal
    parallel_flows: int = 4
    observers: Sequence[Observer] = ()
    intervals: RefreshIntervals = DEFAULT_INTERVALS
    _supervisors: list[Supervisor] = field(default_factory=list)

    def plan(self) -> Plan:
        """Return the steps that this update would execute now; nothing is written."""
        return self._plan_for(self.request)

    def _plan_for(self, request: UpdateRequest) -> Plan:
        return make_plan(self.graph, request, self._state.read())

    def run(self) -> UpdateResult:
        """Run the update.

        Raises:
            OperationError: UPDATE_ALREADY_RUNNING, STORAGE_NOT_WRITABLE, before anything is written.
            UserError: names of the request that the graph does not have.
        """
        started = self.clock.monotonic()
        update_id = str(uuid.uuid4())
        self.store.storage.check_writable()
        with quiet_query_log(), update_lock(self.store.storage, update_id, on_lost=self.stop.set):
            self._left.finish_begun()
            self._rebuilds.settle_all()
            with suppress(OperationError):  # an update does not need the list of old events
                delete_old_events(self.store.storage, self.clock.now())
            plan = self.plan()
            with self._log(update_id) as log:
                return self._recorded(plan, Journal(log, continuous=self.request.continuous), update_id, started)

    def _recorded(self, plan: Plan, journal: Journal, update_id: str, started: float) -> UpdateResult:
        """Execute the plan, and record its start and its end, failures included."""
        journal.created(self.request)
        journal.update(UpdateState.INITIALIZING)
        journal.definitions(self.graph, self.store)
        journal.planned(plan)
        try:
            flows = self._execute(plan, journal, update_id)
        except BaseException as error:
            fault = error if isinstance(error, SluiceError) else flow_fault(error, _pipeline_name(self.graph), None)
            canceled = isinstance(error, KeyboardInterrupt)
            journal.update(UpdateState.CANCELED if canceled else UpdateState.FAILED, error=None if canceled else fault)
            raise
        seconds = self.clock.monotonic() - started
        state = _state(flows)
        journal.update(state, seconds=seconds)
        return UpdateResult(update_id=update_id, state=state, flows=flows, duration_seconds=seconds, graph=self.graph)

    def _continuous(self, plan: Plan, executor: Executor, journal: Journal) -> tuple[FlowResult, ...]:
        """Set up, finish full refreshes, then supervise all flows until the update is stopped."""
        journal.update(UpdateState.SETTING_UP_TABLES)
        failed = executor.set_up(plan)
        journal.update(UpdateState.RUNNING)
        rebuilt = executor.run(rebuild_steps(plan), failed)
        failed |= {result.dataset: result.error for result in rebuilt if result.error is not None}
        supervisor = Supervisor(
            graph=self.graph, attempts=executor.work, state=self._state, journal=journal, retries=self.retries,
            clock=self.clock, stop=self.stop, parallel_flows=self.parallel_flows, intervals=self.intervals,
        )  # fmt: skip
        self._supervisors.append(supervisor)
        supervisor.run(supervised_steps(plan), failed)
        journal.update(UpdateState.STOPPING)
        supervised = {result.flow for result in supervisor.results}
        return (*(result for result in rebuilt if result.flow not in supervised), *supervisor.results)

    @property
    def flow_statuses(self) -> tuple[FlowStatus, ...]:
        """The current state of each flow of a continuous update; () before its flows run."""
        return tuple(status for supervisor in self._supervisors for status in supervisor.flows)

    def _execute(self, plan: Plan, journal: Journal, update_id: str) -> tuple[FlowResult, ...]:
        executor = self._executor(journal, update_id)
        if self.request.continuous:
            return self._continuous(plan, executor, journal)
        flows = self._attempt(plan, executor, journal)
        for attempt in range(1, self.retries.most_update_retries + 1):
            if not any(flow.may_heal for flow in flows) or self.stop.wait(self.retries.delay_seconds(attempt)):
                break
            # Failed and skipped datasets are planned again; a rebuild continues from its checkpoints.
            left = {flow.dataset for flow in flows if flow.state in _UNDONE}
            again = self._attempt(self._plan_for(UpdateRequest(refresh=tuple(left))), executor, journal)
            flows = (*(flow for flow in flows if flow.dataset not in left), *again)
        if self.stop.is_set:
            journal.update(UpdateState.STOPPING)
        return flows

    def _attempt(self, plan: Plan, executor: Executor, journal: Journal) -> tuple[FlowResult, ...]:
        journal.update(UpdateState.SETTING_UP_TABLES)
        failed = executor.set_up(plan)
        journal.update(UpdateState.RUNNING)
        return executor.run(plan, failed)

    @property
    def _state(self) -> StateReader:
        return StateReader(graph=self.graph, store=self.store)

    @property
    def _left(self) -> LeftTables:
        return LeftTables(graph=self.graph, store=self.store)

    @property
    def _rebuilds(self) -> Rebuilds:
        return Rebuilds(pipeline=self.graph.pipeline, graph=self.graph, store=self.store)

    @property
    def queries(self) -> TableQueries:
        """The pipeline's queries over its stored tables."""
        tables = StoredTables(store=self.store, registry=self.registry)
        return TableQueries(graph=self.graph, registry=self.registry, spark=self.spark, store=self.store, tables=tables)

    def _executor(self, journal: Journal, update_id: str) -> Executor:
        queries, sessions = self.queries, FlowSessions(self.spark)
        runner = FlowRunner(
            context=FlowContext(
                pipeline=self.graph.pipeline, graph=self.graph, registry=self.registry, spark=self.spark,
                store=self.store, queries=queries, sessions=sessions, state=self._state, stop=self.stop,
                clock=self.clock,
            )
        )  # fmt: skip
        refresher = ViewRefresher(
            graph=self.graph, sessions=sessions, store=self.store, queries=queries, state=self._state,
            update_id=update_id,
        )  # fmt: skip
        work = FlowAttempts(
            graph=self.graph, runner=runner, refresher=refresher, state=self._state, journal=journal,
            retries=replace(self.retries, most_retries=0) if self.request.continuous else self.retries,
            clock=self.clock, stop=self.stop,
        )  # fmt: skip
        return Executor(
            graph=self.graph, store=self.store, rebuilds=self._rebuilds, work=work, journal=journal, stop=self.stop,
            parallel_flows=self.parallel_flows,
        )  # fmt: skip

    @contextmanager
    def _log(self, update_id: str) -> Iterator[EventLog]:
        name = self.graph.pipeline
        origin = Origin(
            pipeline_id=f"{name}@{self.store.storage.root}", pipeline_name=name, update_id=update_id,
            host=f"{socket.gethostname()}:{os.getpid()}",
        )  # fmt: skip
        with EventLog(self.store.storage, origin, self.clock) as log:
            for observer in self.observers:
                log.subscribe(observer)
            hooks = HookRunner(self._hooks(), log)
            try:
                yield log
            finally:
                hooks.close()

    def _hooks(self) -> list[EventHook]:
        return [
            EventHook(
                name=spec.name,
                function=self.registry.hook_functions[spec.name],
                max_allowable_consecutive_failures=spec.max_allowable_consecutive_failures,
            )
            for spec in self.registry.hooks
        ]


def _state(flows: Sequence[FlowResult]) -> UpdateState:
    states = {flow.state for flow in flows}
    if states & _UNDONE:
        return UpdateState.FAILED
    return UpdateState.CANCELED if FlowState.STOPPED in states else UpdateState.COMPLETED


def _pipeline_name(graph: DataflowGraph) -> QualifiedName:
    """Return the name for a fault outside of any flow: the pipeline's."""
    return QualifiedName(catalog="", schema="", table=graph.pipeline)
