"""Runs one flow or view to its end: checks for new input, runs it, and retries it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException

from framework.checkpoints.generations import GenerationStore, flow_folder
from framework.checkpoints.offsets import read_progress
from framework.declare.specs import DatasetKind
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.jvm.process_ends import kills_since, memory_kills
from framework.engine.plans.plans import analysed_plan
from framework.foundation.clock import Clock
from framework.foundation.conditions.recovery import COLUMNS_DROPPED, REMOVED_ROWS, SOURCE_FILES_GONE
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.graph.queries.pickled_functions import function_names
from framework.ingest.holds import held_flows
from framework.plan.foretelling import dropped_columns_ways, foretell, foretell_rebuild, ways_out
from framework.plan.state import FlowState as StoredFlow
from framework.plan.state import TableState
from framework.plan.steps import Breakage, RefreshView, RunFlow, breakage_error
from framework.run.flows.flow_runner import FlowRunner
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.quality_counts import NOTHING_COUNTED, ExpectationCount, QualityCounts
from framework.run.flows.state.state_reader import StateReader
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.streaming_query import StoppedError
from framework.run.flows.view_refresh import ViewRefresher
from framework.run.update.fault_classification import (
    PYTHON_ENDED,
    break_fault,
    can_heal,
    changed_columns,
    flow_fault,
    is_resource_fault,
    is_spark_lost,
    unreadable_quarantine,
)
from framework.run.update.journal import Journal
from framework.run.update.results import FlowResult, FlowState
from framework.run.update.retries import RetryPolicy
from framework.sources.delta.older_columns import lacks_columns_of, present_since
from framework.sources.delta.source import KIND as DELTA

_STOPPING = "the update is stopping"


class _Committed:
    """The committed batches of a run, which stay committed if it fails or is stopped."""

    def __init__(self) -> None:
        self.total = FlowOutcome()

    def add(self, outcome: FlowOutcome) -> None:
        """Add a committed batch."""
        self.total = self.total.plus(outcome)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowAttempts:
    """Executes RunFlow and RefreshView steps, and returns a result in every case.

    Args:
        retries: the number and delays of retries.
        kills: the number of processes that the system had killed for lack of memory before the update.
    """

    graph: DataflowGraph
    runner: FlowRunner
    refresher: ViewRefresher
    state: StateReader
    journal: Journal
    retries: RetryPolicy
    clock: Clock
    stop: StopSignal
    kills: int | None = field(default_factory=memory_kills)
    _ended: set[QualifiedName] = field(default_factory=set, repr=False)
    """The flows whose Python functions have terminated their worker process since their last batch."""

    def run(self, step: RunFlow | RefreshView) -> FlowResult:
        """Execute one step and return its result; never raises."""
        started = self.clock.monotonic()
        committed = _Committed()
        if isinstance(step, RunFlow) and step.broken is not None:
            broken = breakage_error(self.graph, step.flow, step.broken)
            return self._result(step, FlowState.FAILED, started, reason=broken.condition, error=broken)
        try:
            idle = step.check and self._has_nothing_new(step)
            outcome = None if idle else self._try(step, committed)
        except StoppedError:
            reason = _STOPPING if self.stop.is_set else "an operator has paused it"
            return self._result(step, FlowState.STOPPED, started, reason=reason, outcome=committed.total)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the outermost frame; `sys.exit()` fails the flow only
            try:
                return self._failed(step, error, started, committed)
            except (Py4JError, OSError) as lost:  # the JVM ended before the causes of its error were read
                if not is_spark_lost(lost):
                    raise
                return self._failed(step, lost, started, committed)
        if outcome is None:
            return self._result(step, FlowState.IDLE, started, reason="its inputs have not changed")
        lacking = self.graph.lacking.get(step.dataset)
        reason = "" if lacking is None else lacking.what.removesuffix(".")
        return self._result(step, FlowState.COMPLETED, started, reason=reason, outcome=outcome)

    def _places(self, step: RunFlow | RefreshView) -> tuple[str, ...]:
        """The folders that a step writes to."""
        store, dataset = self.runner.context.store, self._dataset(step)
        table = (store.path(dataset.spec),) if dataset.is_table else ()
        return (*table, flow_folder(store.storage, step.dataset, step.flow), store.storage.root)

    def _failed(
        self, step: RunFlow | RefreshView, error: BaseException, started: float, committed: _Committed
    ) -> FlowResult:
        """Return the result of a step that raised an error."""
        is_lost = is_spark_lost(error)
        if is_lost:
            self.stop.lose_spark()  # no other flow can run
            if self.stop.is_asked:  # a second signal does not wait for the flows
                return self._result(step, FlowState.STOPPED, started, reason=_STOPPING, outcome=committed.total)
        places = () if is_lost else self._places(step)
        location = self._flow(step).spec.location
        fault = self._break(step, error) or flow_fault(error, step.flow, location, places, kills=self.kills)
        outcome = committed.total.plus(FlowOutcome(quality=self._violated(step, fault)))
        return self._result(
            step,
            FlowState.FAILED,
            started,
            reason=fault.condition,
            error=fault,
            may_heal=can_heal(error),
            outcome=outcome,
        )

    def _try(self, step: RunFlow | RefreshView, committed: _Committed) -> FlowOutcome:
        """Run the step, and retry it after transient faults as often as the retry policy allows."""
        attempt, begins_again = 0, False
        while True:
            self.journal.flow(step.flow, step.dataset, FlowState.STARTING)
            try:
                return self._once(step, committed)
            except StoppedError:
                raise
            except Exception as error:
                if not begins_again and self._may_begin_again(step, error):
                    begins_again = True
                    continue
                attempt += 1
                if not can_heal(error):
                    raise
                fault = flow_fault(error, step.flow, None)
                if fault.condition == PYTHON_ENDED and self._ends_python_again(step):
                    raise self._ended_again(step) from error
                if attempt > self.retries.most_retries:
                    raise
                delay_seconds = self.retries.delay_seconds(attempt)
                self.journal.flow(
                    step.flow,
                    step.dataset,
                    FlowState.QUEUED,
                    f"Flow {step.flow} is retried in {delay_seconds:.0f} s: {fault.what}",
                )
                if self.stop.wait(delay_seconds):
                    raise StoppedError(str(step.flow)) from error

    def _ends_python_again(self, step: RunFlow | RefreshView) -> bool:
        """Whether a flow's Python functions end their process for the second time without a committed batch in between.

        The first time is remembered for all attempts of the update. A source's reader is not a function: the system may
        have killed its process because of another process.
        """
        is_again = step.flow in self._ended
        self._ended.add(step.flow)
        return is_again and bool(self._functions(step))

    def _functions(self, step: RunFlow | RefreshView) -> tuple[str, ...]:
        """Return the names of the Python functions in a flow's tasks."""
        flow = self._flow(step)
        if self._dataset(step).kind is DatasetKind.FOREACH_BATCH_SINK:
            return (step.dataset.table,)
        with suppress(SluiceError, PySparkException):  # the query was analysed before
            frame = self.runner.context.queries.flow_query(flow.spec, self.graph.settings(flow)).frame
            return function_names(analysed_plan(frame))
        return ()

    def _ended_again(self, step: RunFlow | RefreshView) -> OperationError:
        """Return the error for a flow whose functions have twice ended their process with the same rows."""
        functions = self._functions(step)
        names = ", ".join(functions)
        return OperationError(
            "PYTHON_PROCESS_ENDED_AGAIN",
            location=self._flow(step).spec.location,
            flow=step.flow,
            functions=f"The Python function {names}" if len(functions) == 1 else f"A Python function ({names})",
            killed=kills_since(self.kills, memory_kills()),
        )

    def _once(self, step: RunFlow | RefreshView, total: _Committed) -> FlowOutcome:
        self.journal.flow(step.flow, step.dataset, FlowState.RUNNING)
        if isinstance(step, RefreshView):
            return self.refresher.refresh(step)
        self._check_sources(step)

        def committed(outcome: FlowOutcome, progress: dict[str, Any] | None) -> None:
            total.add(outcome)
            self._ended.discard(step.flow)
            self.journal.progressed(step.flow, step.dataset, outcome, progress)

        return self.runner.run(step, committed)

    def _check_sources(self, step: RunFlow) -> None:
        """Raise the error of a flow whose stored position no longer exists in its source.

        An earlier step of the update may have written to a table that was restored from a backup.
        """
        flow, dataset = self._flow(step), self._dataset(step)
        if not flow.streaming or flow.spec.from_snapshots:
            return
        path = GenerationStore(self.runner.context.store.storage).path(step.dataset, step.flow, step.generation)
        gap = self.state.put_back(flow, path)
        if gap is None:
            return
        if step.rebuild is None:
            broken = foretell(dataset, flow, replace(self.state.flow_state(flow), gaps=(gap,)))
        else:
            broken = foretell_rebuild(dataset, StoredFlow(rebuild_gaps=(gap,)))
        assert broken is not None  # there is a gap
        raise breakage_error(self.graph, step.flow, broken)

    def _may_begin_again(self, step: RunFlow | RefreshView, error: BaseException) -> bool:
        """Whether rows of a Delta source were removed while its first read began; a new start reads other files."""
        found = break_fault(error)
        if found is None or found.condition not in REMOVED_ROWS or isinstance(step, RefreshView):
            return False
        storage = self.runner.context.store.storage
        checkpoint = GenerationStore(storage).path(step.dataset, step.flow, step.generation)
        return read_progress(storage, checkpoint).last_offset_batch is None

    def _break(self, step: RunFlow | RefreshView, error: BaseException) -> SluiceError | None:
        """Return the error for a checkpoint that the flow can't continue from, with the ways out; None if it can."""
        if isinstance(step, RefreshView) or is_resource_fault(error):
            return None
        dataset, flow = self._dataset(step), self._flow(step)
        quarantine = unreadable_quarantine(error, self.runner.context.store.storage)
        if quarantine is not None:  # the quarantine's log is not a source
            return quarantine.at(flow.spec.location)
        found = break_fault(error)
        if found is None:
            return self._dropped(step, flow, error) or self._damage(step, error)
        if found.condition == SOURCE_FILES_GONE and not self._names_source(flow, found.words):
            return None
        # A rebuild has its own checkpoint, and the table keeps the current one.
        state = self.state.flow_state(flow) if step.rebuild is None else StoredFlow()
        foretold = foretell(dataset, flow, state)
        is_same = foretold is not None and foretold.condition == found.condition
        problem = foretold.problem if foretold is not None and is_same else found.words
        broken = Breakage(
            condition=found.condition, problem=problem, ways=ways_out(found.condition, dataset, flow, state)
        )
        return breakage_error(self.graph, step.flow, broken)

    def _dropped(self, step: RunFlow, flow: GraphFlow, error: BaseException) -> SluiceError | None:
        """Return the error for a Delta source that lacks columns that its stream must read; None for any other error.

        A stream starts with its last batch. If the columns changed while it ran, it continues at its next start.
        """
        version, storage = changed_columns(error), self.runner.context.store.storage
        if version is None:
            return None
        sources = [each for each in self.state.stream_sources(flow) or () if each.kind == DELTA]
        for path in (str(each.location) for each in sources):
            first = present_since(storage, path) if lacks_columns_of(storage, path, version) else None
            if first is not None:
                ways = dropped_columns_ways(step.dataset, flow, first, is_rebuilt=step.rebuild is not None)
                return OperationError(
                    COLUMNS_DROPPED,
                    location=flow.spec.location,
                    flow=flow.spec.name,
                    version=version,
                    table=path,
                    first=first,
                    ways=ways,
                )
        return None

    def _damage(self, step: RunFlow, error: BaseException) -> SluiceError | None:
        """Return the error for a checkpoint whose files were damaged since the plan; None if they are intact."""
        if isinstance(error, SluiceError) or step.rebuild is not None:
            return None
        state = self.state.flow_state(self._flow(step))
        foretold = foretell(self._dataset(step), self._flow(step), state) if state.damages else None
        return None if foretold is None else breakage_error(self.graph, step.flow, foretold)

    def _names_source(self, flow: GraphFlow, text: str) -> bool:
        """Whether a text names a file in the folder of a Delta table that the flow reads as a stream."""
        sources = self.state.stream_sources(flow) or ()
        return any(source.kind == DELTA and f"{source.location}/" in text for source in sources)

    def _violated(self, step: RunFlow | RefreshView, fault: SluiceError) -> QualityCounts:
        """Return the count of the expectation that failed the flow, including its one violating row."""
        if fault.condition != "EXPECTATION_VIOLATION":
            return NOTHING_COUNTED
        name = fault.fields["expectation"]
        read = [read.dataset for read in self._flow(step).reads if read.dataset is not None]
        for dataset in filter(None, map(self.graph.dataset, [step.dataset, *read])):
            for spec in dataset.spec.expectations:
                if spec.name == name:
                    count = ExpectationCount(
                        name=spec.name, dataset=dataset.name, action=spec.action, passed=0, failed=1
                    )
                    return QualityCounts(rows=1, expectations=(count,))
        return NOTHING_COUNTED

    def _has_nothing_new(self, step: RunFlow | RefreshView) -> bool:
        if isinstance(step, RefreshView):
            dataset = self._dataset(step)
            stored: TableState = self.state.table_state(dataset)
            present = self.state.computable_from(dataset)
            return present is not None and stored.computed_from == present
        storage = self.runner.context.store.storage
        if step.flow in held_flows(storage):  # an operator has paused it since the update started
            return True
        generations = GenerationStore(storage)
        return self.state.is_drained(self._flow(step), generations.path(step.dataset, step.flow, step.generation))

    def _result(
        self,
        step: RunFlow | RefreshView,
        state: FlowState,
        started: float,
        *,
        reason: str = "",
        outcome: FlowOutcome | None = None,
        error: SluiceError | None = None,
        may_heal: bool = False,
    ) -> FlowResult:
        done = outcome or FlowOutcome()
        return FlowResult(
            flow=step.flow,
            dataset=step.dataset,
            state=state,
            reason=reason,
            rows_written=done.written,
            rows_upserted=done.upserted,
            rows_deleted=done.deleted,
            rows_dropped=done.quality.dropped,
            seconds=self.clock.monotonic() - started,
            error=error,
            may_heal=may_heal,
            expectations=done.quality.expectations,
        )

    def _flow(self, step: RunFlow | RefreshView) -> GraphFlow:
        flow = self.graph.flow(step.flow)
        assert flow is not None
        return flow

    def _dataset(self, step: RunFlow | RefreshView) -> GraphDataset:
        dataset = self.graph.dataset(step.dataset)
        assert dataset is not None
        return dataset
