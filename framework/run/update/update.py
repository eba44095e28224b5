"""One update from request to result: lock, plan, run, record."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from framework.checkpoints.rebuilds import RebuildStore
from framework.checkpoints.reset_requests import ResetRequests
from framework.checkpoints.rewinds import RewindStore
from framework.declare.registry import Registry
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.ingest.generations import Refusal, begin_generations
from framework.ingest.holds import Holds
from framework.ingest.kept_changes import kept_changes
from framework.plan.continuous import rebuild_steps, supervised_steps
from framework.plan.planner import make_plan
from framework.plan.request import UpdateRequest
from framework.plan.selection import is_resettable
from framework.plan.steps import BeginGeneration, KeepStored, Plan, SkipStep
from framework.record.events import Event
from framework.record.log import EventLog, delete_old_events
from framework.run.flows.flow_run import FlowContext, FlowSessions
from framework.run.flows.flow_runner import FlowRunner
from framework.run.flows.reads import TableQueries
from framework.run.flows.state.state_reader import StateReader
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.view_refresh import ViewRefresher
from framework.run.tables.known_tables import StoredTables
from framework.run.tables.left_tables import LeftTables
from framework.run.tables.storage_identity import StorageIdentity
from framework.run.tables.stored_resolution import store_resolution
from framework.run.tables.table_store import TableStore
from framework.run.update.checkpoint_actions import begin_reset
from framework.run.update.continuous.growth import MOST_RESTARTS, Growth, has_new_columns, with_graph
from framework.run.update.continuous.supervisor import FlowStatus, Supervisor
from framework.run.update.continuous.unread import unread_datasets
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.control.start_faults import check_startable
from framework.run.update.control.stop_requests import StopRequests, stopped_on_request
from framework.run.update.control.update_log import claim_id, update_log
from framework.run.update.executor import Executor
from framework.run.update.fault_classification import flow_fault, is_spark_lost
from framework.run.update.flow_attempts import FlowAttempts
from framework.run.update.ingestion_reports import ingestion_reports
from framework.run.update.journal import Journal
from framework.run.update.lock import update_lock
from framework.run.update.refresh.rebuilds import Rebuilds
from framework.run.update.refresh.refused_refreshes import lost_slots, refused_copies, waiting, with_causes, with_faults
from framework.run.update.results import FlowResult, FlowState, UpdateResult, UpdateState
from framework.run.update.rewind_refusals import check_no_rewind
from framework.run.update.rewinds import Rewinds
from framework.run.update.schedule import NOT_SET_UP
from framework.run.update.settings import UpdateSettings
from framework.run.update.start_waits import reported_waits
from framework.session.query_log import quiet_query_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Observer = Callable[[Event], None]

_UNDONE = frozenset({FlowState.FAILED, FlowState.SKIPPED})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Update:
    """One update of a pipeline.

    Args:
        settings: how the update runs.
        observers: called with each event when it is recorded.
        resolve: resolves the graph again, after new columns of files were recorded.
        check: called under the lock, before anything is written; raises if the update may no longer run.
        identity: its id, its request and attempt, and its cause.
    """

    graph: DataflowGraph
    registry: Registry
    spark: SparkSession
    store: TableStore
    request: UpdateRequest
    settings: UpdateSettings
    clock: Clock
    stop: StopSignal
    observers: Sequence[Observer] = ()
    resolve: Callable[[], DataflowGraph] | None = None
    check: Callable[[], None] | None = None
    identity: UpdateIdentity = field(default_factory=UpdateIdentity.of)
    _supervisors: list[Supervisor] = field(default_factory=list)

    def plan(self) -> Plan:
        """Return the steps that this update would execute now, without writing anything.

        Raises:
            OperationError: REWIND_UNFINISHED, REWIND_NOT_FINISHABLE; STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED if a
                file that each update reads at its start can't be used.
        """
        check_no_rewind(self.store)
        check_startable(self.store.storage, keeps_history=self.request.keep_history)
        self._left.check_marks()
        return self._keeping()._planned({})  # noqa: SLF001 - the same class

    def _keeping(self) -> Update:
        """Return the update with full refreshes that keep the changes that copies have not applied yet."""
        kept = kept_changes(self.registry.gateways, self.store.storage, refreshes=self.request.refreshes)
        return replace(self, request=replace(self.request, kept=kept))

    def _planned(self, refused: Mapping[QualifiedName, SluiceError]) -> Plan:
        """Return the plan without the copies that must be read again from the start, but whose source has refused it.

        Otherwise they would contain rows of two definitions.
        """
        rebuilt = frozenset(self.registry.rebuilt)
        withheld = frozenset(name for name in rebuilt | self.registry.replaced if name in refused)
        plan = self._plan_for(replace(self.request, outdated=rebuilt - withheld, withheld=withheld))
        return with_causes(plan, {name: error for name, error in refused.items() if name in withheld})

    def _without_refused(
        self, refused: Mapping[QualifiedName, SluiceError], slots: Mapping[QualifiedName, SluiceError]
    ) -> Update:
        """Return the update in which a full refresh fails if the generation of its copy could not begin.

        Such a copy would apply changes that the new rows must not get. Copies that retry by themselves in the next
        update are withheld instead. Changes whose slot is lost and could not be replaced fail as well.
        """
        waits = self.registry.rebuilt | self.registry.replaced
        faults = {name: refused[name] for name in refused if self.request.refreshes(name) and name not in waits}
        if not faults and not slots:
            return self
        resolve = self.resolve
        again = None if resolve is None else lambda: with_faults(resolve(), faults, slots)
        return replace(self, graph=with_faults(self.graph, faults, slots), resolve=again)

    def _plan_for(self, request: UpdateRequest) -> Plan:
        state = self._state
        plan = make_plan(self.graph, request, state.read())
        steps = tuple(
            replace(step, start=state.starts.pinned(step.flow, step.start))
            if isinstance(step, BeginGeneration)
            else step
            for step in plan.steps
        )
        return replace(plan, steps=steps)

    def run(self) -> UpdateResult:
        """Run the update.

        Raises:
            OperationError: UPDATE_ALREADY_RUNNING, STORAGE_NOT_WRITABLE, STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED,
                before anything is written; REWIND_NOT_FINISHABLE.
            UserError: UPDATE_ID_USED, before anything is written; names of the request that are not in the graph.
        """
        started, storage, update_id = self.clock.monotonic(), self.store.storage, self.identity.update_id
        storage.check_writable()
        with quiet_query_log(), update_lock(storage, update_id, on_lost=self.stop.set):
            if self.check is not None:
                self.check()
            check_startable(storage, keeps_history=self.request.keep_history)
            claim_id(storage, self.identity)
            reader = StorageIdentity.settled(storage).mark
            Rewinds(store=self.store, clock=self.clock).finish_begun()
            entries = self._left.finish_begun()
            unsettled = self._rebuilds.settle_all()
            with suppress(OperationError):  # an update can run without the list of old events and requests
                delete_old_events(storage, self.clock.now())
                StopRequests(storage).delete_old(update_id, self.clock.now())
            gateways = self.registry.gateways
            with (
                self._log() as log,
                stopped_on_request(storage, update_id, log, self.stop),
                reported_waits(gateways, log, self.clock) as waits,
            ):
                Journal(log).warned(entries)
                refusals = begin_generations(
                    gateways, storage, self.clock, is_refreshed=self.request.refreshes, reader=reader,
                    unread=[each.ingestion for each in self.registry.unlisted if each.is_whole],
                    waiting=waits.beginning,
                )  # fmt: skip
                return self._begun(refusals, log, started, unsettled)

    def _begun(
        self, refusals: tuple[Refusal, ...], log: EventLog, started: float,
        unsettled: Mapping[QualifiedName, SluiceError],
    ) -> UpdateResult:  # fmt: skip
        """Plan and execute the update, after the generations of copies have begun as far as their databases allowed."""
        store_resolution(self.graph, self.store)
        RewindStore(self.store.storage).check_none()
        self._begin_resets()
        refused = refused_copies(refusals, self.registry.gateways)
        ready = self._keeping()._without_refused(refused, lost_slots(refusals))  # noqa: SLF001 - the same class
        plan = ready._planned(refused)  # noqa: SLF001 - the same class
        with self._reports(log):
            journal = Journal(log, continuous=self.request.continuous)
            journal.refused(refusals)
            result = ready._recorded(plan, journal, started, unsettled)  # noqa: SLF001 - as above
            failed = {str(flow.error.fields.get("cause")) for flow in result.flows if flow.error is not None}
            return replace(result, refused=waiting(refusals, failed))

    def _begin_resets(self) -> None:
        """Execute resets that a continuous update left pending at its end; a full refresh reads all data anyway."""
        resets, rebuilds = ResetRequests(self.store.storage, self.clock), RebuildStore(self.store.storage)
        for request in resets.pending():
            rebuild = rebuilds.read(request.dataset)
            if rebuild is not None and rebuild.is_building:
                resets.drop(request)
            else:
                begin_reset(resets, self.store.storage, request)

    def _recorded(
        self, plan: Plan, journal: Journal, started: float, unsettled: Mapping[QualifiedName, SluiceError]
    ) -> UpdateResult:
        """Execute the plan, and record its start and end, including failures."""
        journal.created(self.request, self.identity)
        journal.update(UpdateState.INITIALIZING)
        journal.definitions(self.graph, self.store)
        journal.lacking(self.graph)
        journal.planned(plan)
        try:
            flows = self._execute(plan, journal, unsettled)
        except BaseException as error:
            fault = error if isinstance(error, SluiceError) else flow_fault(error, _pipeline_name(self.graph), None)
            is_lost = is_spark_lost(error)
            canceled = isinstance(error, KeyboardInterrupt) or (self.stop.is_asked and is_lost)
            journal.update(UpdateState.CANCELED if canceled else UpdateState.FAILED, error=None if canceled else fault)
            if is_lost and fault is not error:
                raise fault from error
            raise
        seconds, state = self.clock.monotonic() - started, _state(flows)
        journal.update(state, seconds=seconds)
        return UpdateResult(
            update_id=self.identity.update_id, state=state, flows=flows, duration_seconds=seconds, graph=self.graph
        )

    def _continuous(
        self, plan: Plan, executor: Executor, journal: Journal, restarts: int = 0,
        unsettled: Mapping[QualifiedName, SluiceError] | None = None,
    ) -> tuple[FlowResult, ...]:  # fmt: skip
        """Set up tables, finish full refreshes, then supervise all flows until the update is stopped."""
        journal.update(UpdateState.SETTING_UP_TABLES)
        failed = executor.set_up(plan, unsettled)
        journal.update(UpdateState.RUNNING)
        rebuilt = executor.run(rebuild_steps(plan), failed)
        if has_new_columns(rebuilt) and self.resolve is not None and restarts < MOST_RESTARTS:
            grown = replace(self, graph=self.resolve())  # no flow is running now
            # The steps include the unfinished full refreshes.
            asked = grown._again(_datasets(plan), self.graph.unresolved.union(failed))  # noqa: SLF001 - the same class
            again = grown._plan_for(_going_on(self.request, _datasets(plan), asked))  # noqa: SLF001 - as above
            return grown._continuous(again, with_graph(executor, grown.graph), journal, restarts + 1)  # noqa: SLF001 - as above
        failed |= {result.dataset: result.error for result in rebuilt if result.error is not None}
        # Held or skipped. With the table, the checkpoints of the copy would lose and duplicate rows.
        unfinished = frozenset(each.dataset for each in rebuilt if not each.is_good and each.dataset not in failed)
        supervisor = Supervisor(
            graph=self.graph, attempts=executor.work, state=self._state, journal=journal, clock=self.clock,
            stop=self.stop, retries=self.settings.retries, parallel_flows=self.settings.parallel_flows,
            intervals=self.settings.intervals, holds=executor.work.runner.context.holds,
            grow=self._growth(plan, executor), resets=ResetRequests(self.store.storage, self.clock),
            unread=unread_datasets(self.graph, plan, self._is_tried_again),
        )  # fmt: skip
        self._supervisors.append(supervisor)
        supervisor.run(supervised_steps(plan, unfinished), failed)
        journal.update(UpdateState.STOPPING)
        supervised = {result.flow for result in supervisor.results}
        return (*(result for result in rebuilt if result.flow not in supervised), *supervisor.results)

    def _growth(self, plan: Plan, executor: Executor) -> Growth | None:
        """Return the callback that restarts flows with new columns; None if the graph can't be resolved again."""
        if self.resolve is None:
            return None

        def plan_of(graph: DataflowGraph, datasets: tuple[QualifiedName, ...]) -> Plan:
            return replace(self, graph=graph)._plan_for(_going_on(self.request, datasets))  # noqa: SLF001 - the same class

        waiting = filter(self._is_tried_again, self.graph.unresolved.intersection(_datasets(plan)))
        supervised = frozenset((*(step.dataset for step in supervised_steps(plan)), *waiting))
        return Growth(executor=executor, resolve=self.resolve, plan_of=plan_of, supervised=supervised)

    @property
    def flow_statuses(self) -> tuple[FlowStatus, ...]:
        """The current state of each flow of a continuous update; () before its flows run."""
        return tuple(status for supervisor in self._supervisors for status in supervisor.flows)

    def _execute(
        self, plan: Plan, journal: Journal, unsettled: Mapping[QualifiedName, SluiceError]
    ) -> tuple[FlowResult, ...]:
        executor = self._executor(journal)
        if self.request.continuous:
            return self._continuous(plan, executor, journal, unsettled=unsettled)
        flows = self._attempt(plan, executor, journal, unsettled)
        for attempt in range(1, self.settings.retries.most_update_retries + 1):
            if not any(flow.may_heal for flow in flows) or self.stop.wait(self.settings.retries.delay_seconds(attempt)):
                break
            # Failed and skipped datasets are planned again; a rebuild continues from its checkpoints.
            left = {flow.dataset for flow in flows if flow.state in _UNDONE}
            again = self._attempt(self._plan_for(self._again(left, _not_set_up(flows))), executor, journal)
            flows = (*(flow for flow in flows if flow.dataset not in left), *again)
        flows = self._with_new_columns(flows, executor, journal)
        if self.stop.is_set:
            journal.update(UpdateState.STOPPING)
        return flows

    def _with_new_columns(
        self, flows: tuple[FlowResult, ...], executor: Executor, journal: Journal
    ) -> tuple[FlowResult, ...]:
        """Run flows that stopped for new columns of their files again, with a graph that has the columns.

        Tables that read their targets were skipped, so no row arrives anywhere without its new columns.
        """
        for _ in range(MOST_RESTARTS):
            if not has_new_columns(flows) or self.resolve is None or self.stop.is_set:
                break
            left = {flow.dataset for flow in flows if flow.state in _UNDONE}
            grown = replace(self, graph=self.resolve())
            unset = _not_set_up(flows) | self.graph.unresolved
            plan = grown._plan_for(grown._again(left, unset))  # noqa: SLF001 - the same class
            executor = with_graph(executor, grown.graph)
            again = self._attempt(plan, executor, journal)
            flows = (*(flow for flow in flows if flow.dataset not in left), *again)
        return flows

    def _again(self, left: Iterable[QualifiedName], unset: Container[QualifiedName]) -> UpdateRequest:
        """Return the request to plan datasets again; those that were not set up keep their part of this request."""
        left = tuple(left)
        datasets = tuple(name for name in left if name in unset)
        resettable = {each.name for each in self.graph.datasets if is_resettable(each)}
        flows = [flow.spec.name for name in datasets for flow in self.graph.flows_into(name)]
        asked = self.request.part(datasets, resettable, flows)
        if all(found.cdc for name in asked.full_refresh if (found := self.graph.dataset(name)) is not None):
            asked = replace(asked, history_keys=())  # AUTO CDC targets have their own keys
        outdated = frozenset(self.registry.rebuilt).intersection(datasets)
        return replace(asked, refresh=left, outdated=outdated)

    def _attempt(
        self, plan: Plan, executor: Executor, journal: Journal,
        unsettled: Mapping[QualifiedName, SluiceError] | None = None,
    ) -> tuple[FlowResult, ...]:  # fmt: skip
        journal.update(UpdateState.SETTING_UP_TABLES)
        failed = executor.set_up(plan, unsettled)
        journal.update(UpdateState.RUNNING)
        return executor.run(plan, failed)

    def _is_tried_again(self, name: QualifiedName) -> bool:
        """Whether a dataset whose source can't be read starts within the running update as soon as it can be."""
        flows = {flow.spec.name for flow in self.graph.flows_into(name)}
        is_asked = self.request.refreshes(name) or not flows.isdisjoint(self.request.reset_checkpoints)
        return not is_asked and name not in self.registry.isolated

    @property
    def _state(self) -> StateReader:
        return StateReader(graph=self.graph, store=self.store)

    @property
    def _holds(self) -> Container[QualifiedName]:
        """The flows that are paused while the update runs; a triggered update ends soon, and is not paused."""
        watches = self.request.continuous and bool(self.registry.gateways)
        return Holds(self.store.storage, self.clock) if watches else frozenset()

    @property
    def _left(self) -> LeftTables:
        return LeftTables(graph=self.graph, store=self.store)

    @property
    def _rebuilds(self) -> Rebuilds:
        return Rebuilds(pipeline=self.graph.pipeline, graph=self.graph, store=self.store, clock=self.clock)

    @property
    def queries(self) -> TableQueries:
        """The pipeline's queries over its stored tables."""
        tables = StoredTables(store=self.store, registry=self.registry)
        return TableQueries(graph=self.graph, registry=self.registry, spark=self.spark, store=self.store, tables=tables)

    def _executor(self, journal: Journal) -> Executor:
        queries, sessions = self.queries, FlowSessions(self.spark)
        runner = FlowRunner(
            context=FlowContext(
                pipeline=self.graph.pipeline, graph=self.graph, registry=self.registry, spark=self.spark,
                store=self.store, queries=queries, sessions=sessions, state=self._state, stop=self.stop,
                clock=self.clock, holds=self._holds, update_id=self.identity.update_id,
            )
        )  # fmt: skip
        refresher = ViewRefresher(
            graph=self.graph, sessions=sessions, store=self.store, queries=queries, state=self._state,
            update_id=self.identity.update_id,
        )  # fmt: skip
        retries = self.settings.retries
        work = FlowAttempts(
            graph=self.graph, runner=runner, refresher=refresher, state=self._state, journal=journal,
            retries=replace(retries, most_retries=0) if self.request.continuous else retries,
            clock=self.clock, stop=self.stop,
        )  # fmt: skip
        return Executor(
            graph=self.graph, store=self.store, rebuilds=self._rebuilds, work=work, journal=journal, stop=self.stop,
            parallel_flows=self.settings.parallel_flows,
        )  # fmt: skip

    def _log(self) -> AbstractContextManager[EventLog]:
        return update_log(
            self.graph.pipeline, self.store.storage, self.identity, clock=self.clock, observers=self.observers,
            registry=self.registry,
        )  # fmt: skip

    def _reports(self, log: EventLog) -> AbstractContextManager[None]:
        def path_of(name: QualifiedName) -> str:
            dataset = self.graph.dataset(name)
            assert dataset is not None
            return self.store.path(dataset.spec)

        # A gateway whose tables have all failed stages no changes.
        gateways = [each for each in self.registry.gateways if self.graph.dataset(each.changes) is not None]
        return ingestion_reports(gateways, self.store.storage, log, self.settings.progress_seconds, path_of)


def _state(flows: Sequence[FlowResult]) -> UpdateState:
    states = {flow.state for flow in flows}
    if states & _UNDONE:
        return UpdateState.FAILED
    return UpdateState.CANCELED if FlowState.STOPPED in states else UpdateState.COMPLETED


def _not_set_up(flows: Iterable[FlowResult]) -> frozenset[QualifiedName]:
    """Return the datasets that could not be set up, so that the request for them has not taken effect."""
    return frozenset(flow.dataset for flow in flows if flow.reason == NOT_SET_UP)


def _going_on(
    request: UpdateRequest, datasets: tuple[QualifiedName, ...], asked: UpdateRequest | None = None
) -> UpdateRequest:
    """Return the request to continue some datasets of a continuous update, without beginning anything again."""
    interval = request.trigger_interval_seconds
    return replace(asked or UpdateRequest(), refresh=datasets, continuous=True, trigger_interval_seconds=interval)


def _datasets(plan: Plan) -> tuple[QualifiedName, ...]:
    """Return the datasets that a plan updates, or would update if their sources could be read."""
    steps = (step for step in plan.steps if not isinstance(step, KeepStored))
    return tuple(dict.fromkeys(each.dataset for each in steps if not isinstance(each, SkipStep) or each.waits_for))


def _pipeline_name(graph: DataflowGraph) -> QualifiedName:
    """Return the name for faults outside any flow: the pipeline's name."""
    return QualifiedName(catalog="", schema="", table=graph.pipeline)
