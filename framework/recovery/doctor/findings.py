"""The examination of a pipeline: one finding for each flow that is broken, stuck, held or behind.

It reads the event log, checkpoints, folders and Delta logs, and queries the source of a gateway for its position. It
starts no stream, and runs no Spark job except the count of quarantined rows. An unreadable source is a finding of each
flow that reads it. If the code has errors, no update can be planned, and they are the only findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from framework.checkpoints.offsets import read_progress
from framework.foundation.clock import Clock, timestamp_text
from framework.foundation.errors import OperationError, SluiceError, UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import meant_names, qualified_hint
from framework.foundation.wording import counted
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.ingest.gateway_status import GatewayStatus
from framework.plan.planner import make_plan
from framework.plan.request import UpdateRequest
from framework.plan.state import StoredState
from framework.plan.steps import RefuseTable, RunFlow, breakage_error, refusal
from framework.record.events import Event, EventType
from framework.record.log import EVENTS_FOLDER
from framework.record.reader import read_events
from framework.recovery.doctor.broken_flow import BrokenFlow, UndoneCommits
from framework.recovery.doctor.diagnoses import (
    CHECKPOINT_DAMAGED,
    HELD,
    SILENT,
    TABLE_RESTORED,
    diagnosis_of,
    sqlstate_of,
)
from framework.recovery.doctor.diagnosis import Diagnosis
from framework.recovery.doctor.evidence.disk import disk_fault
from framework.recovery.doctor.evidence.failures import Failure, parse_error, read_failures, read_update_failure
from framework.recovery.doctor.evidence.gateways import log_evidence, read_gateways
from framework.recovery.doctor.evidence.pace import pace_of
from framework.recovery.doctor.evidence.undone import undone_commits
from framework.recovery.doctor.finding import Examination, Finding, Position
from framework.recovery.doctor.ways import person_ways, ways_out
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.recovery.lag import read_lag
from framework.recovery.quarantine.quarantine import Quarantine
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.left_tables import LeftTables
from framework.run.tables.table_store import TableStore
from framework.run.update.control.start_faults import backup_faults, start_faults

_LAST_EVENTS = 20_000
_MOST_NUMBERS = 5
"""The largest number of batches in the text of a finding."""

_NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
_OPERATORS = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"


def examine(graph: DataflowGraph, store: TableStore, *, clock: Clock, flows: Sequence[str] = ()) -> Examination:
    """Examine a pipeline.

    Args:
        graph: the pipeline's graph.
        store: its tables.
        clock: the present time.
        flows: names of the flows to examine, full or their last parts; () for all.

    Raises:
        UserError: FLOW_NOT_FOUND.
    """
    chosen = _chosen(graph, flows)
    examiner = _Examiner.of(graph, store, clock)
    found = [finding for flow in chosen if (finding := examiner.examine(flow)) is not None]
    if not flows:
        found += [of_update_fault(error, store.storage) for error in _pipeline_faults(graph, store)]
    full = None if flows else disk_fault(store.storage) or examiner.storage_fault
    if full is not None:
        found.insert(0, of_update_fault(full, store.storage))
    elif not flows and not found:
        found += examiner.update()
    if not flows:  # findings that stop no flow come last
        found += [of_update_fault(each.error(), store.storage) for each in examiner.state.warnings]
    found = [*_each_source_once(graph, found)]
    names = {str(flow.spec.name) for flow in chosen}
    waiting: tuple[WaitingRows, ...] = ()
    try:
        waiting = Quarantine(store=store, graph=lambda: graph).waiting()
    except OperationError as error:
        if not any(each.condition == error.condition for each in found):
            found.append(of_update_fault(error, store.storage))
    quarantined = tuple(each for each in waiting if each.flow in names)
    return Examination(flows=len(chosen), findings=tuple(found), quarantined=quarantined)


def _pipeline_faults(graph: DataflowGraph, store: TableStore) -> Iterator[OperationError]:
    """Yield an error for each file with which no update begins, and for each table whose deletion was interrupted."""
    yield from start_faults(store.storage)
    yield from backup_faults(store.storage)
    left = LeftTables(graph=graph, store=store)
    yield from left.mark_faults()
    for table in left.begun():
        place = table.path or "a place that is no longer known"
        yield OperationError("PRUNE_UNFINISHED", dataset=table.name, path=place)


def _chosen(graph: DataflowGraph, names: Sequence[str]) -> list[GraphFlow]:
    flows = [flow for flow in graph.flows if not _is_view(graph, flow)]
    if not names:
        return flows
    known = [str(flow.spec.name) for flow in flows]
    chosen: set[str] = set()
    for text in names:
        meant = meant_names(text, known)
        if not meant and graph.is_partial:  # it may be a flow of an unreadable source, whose fault is reported
            meant = [str(flow.spec.name) for flow in flows if _has_fault(graph, flow)]
        if not meant:
            raise UserError("FLOW_NOT_FOUND", flow=text, hint=qualified_hint(text, known))
        chosen.update(meant)
    return [flow for flow in flows if str(flow.spec.name) in chosen]


def _has_fault(graph: DataflowGraph, flow: GraphFlow) -> bool:
    dataset = graph.dataset(flow.spec.target)
    return dataset is not None and dataset.fault is not None


def _is_view(graph: DataflowGraph, flow: GraphFlow) -> bool:
    dataset = graph.dataset(flow.spec.target)
    return dataset is None or not (dataset.is_table or dataset.is_sink)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """The fault of a flow, before its ways out are computed."""

    condition: str = ""
    cause: str = ""
    remedy: str = ""
    location: str = ""
    diagnosis: Diagnosis | None = None
    undone: UndoneCommits | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Examiner:
    graph: DataflowGraph
    store: TableStore
    states: StateReader
    state: StoredState
    errors: Mapping[QualifiedName, SluiceError]
    failures: Mapping[str, Failure]
    lag: Mapping[QualifiedName, FlowLag]
    gateways: Mapping[QualifiedName, GatewayStatus]
    events: Sequence[Event]
    now: str

    @classmethod
    def of(cls, graph: DataflowGraph, store: TableStore, clock: Clock) -> _Examiner:
        states = StateReader(graph=graph, store=store)
        state = states.read()
        plan = make_plan(graph, UpdateRequest(), state)
        errors: dict[QualifiedName, SluiceError] = {}
        for step in plan.steps:
            if isinstance(step, RunFlow) and step.broken is not None:
                errors[step.flow] = breakage_error(graph, step.flow, step.broken)
            elif isinstance(step, RefuseTable):
                errors |= dict.fromkeys(step.flows, refusal(graph, step))
        return cls(
            graph=graph,
            store=store,
            states=states,
            state=state,
            errors=errors,
            failures=read_failures(store.storage),
            lag={each.flow: each for each in read_lag(graph, store, clock=clock)},
            gateways=read_gateways(store, clock),
            events=read_events(store.storage, type=EventType.FLOW_PROGRESS, last=_LAST_EVENTS),
            now=timestamp_text(clock.now()),
        )

    def examine(self, flow: GraphFlow) -> Finding | None:
        """Return the finding of one flow; None if no fault is found."""
        dataset = self.graph.dataset(flow.spec.target)
        assert dataset is not None  # views are not examined
        unread = self.state.unread.get(dataset.name)
        if unread is not None:
            return self._of_unread(flow, unread.error(dataset.spec.location))
        if dataset.name in self.state.waits:  # the fault is in its input, which has its own finding
            return None
        try:
            return self._examined(flow, dataset)
        except OperationError as error:  # an examination reads more than planning does
            return self._of_unread(flow, error.at(dataset.spec.location))

    @property
    def storage_fault(self) -> OperationError | None:
        """The error that keeps this process from writing to the storage; None if it can write."""
        return None if self.state.fault is None else self.state.fault.error()

    def _of_unread(self, flow: GraphFlow, error: SluiceError) -> Finding:
        """Return the finding of a flow whose table or checkpoint can't be read."""
        seen = _seen_error(error)
        return Finding(
            flow=flow.spec.name,
            dataset=flow.spec.target,
            diagnosis=diagnosis_of(seen.condition, seen.cause),
            condition=seen.condition,
            cause=seen.cause,
            location=seen.location,
            ways=person_ways(seen.remedy),
        )

    def _examined(self, flow: GraphFlow, dataset: GraphDataset) -> Finding | None:
        case = BrokenFlow(
            graph=self.graph, dataset=dataset, flow=flow, states=self.states, state=self.state.flow(flow.spec.name)
        )
        case = replace(case, damages=case.state.damages)
        failure = self._failure(case)
        seen = self._seen(case, failure)
        if seen is None:
            return None
        case = replace(case, condition=seen.condition, cause=seen.cause, remedy=seen.remedy, undone=seen.undone)
        diagnosis = seen.diagnosis or _diagnosis(case)
        return Finding(
            flow=flow.spec.name,
            dataset=dataset.name,
            diagnosis=diagnosis,
            condition=seen.condition,
            sqlstate=sqlstate_of(seen.condition),
            cause=seen.cause,
            location=seen.location,
            since="" if failure is None else failure.since,
            updates=0 if failure is None else failure.updates,
            evidence=tuple(self._evidence(case, failure)),
            position=position_of(case),
            ways=ways_out(case, diagnosis),
        )

    def update(self) -> list[Finding]:
        """Return the findings of the last update's failure outside of its flows."""
        failure = read_update_failure(self.store.storage)
        return [] if failure is None else [_of_update(failure, (_log_of(self.store.storage, failure),))]

    def _failure(self, case: BrokenFlow) -> Failure | None:
        """Return the last failure of a flow; None if its checkpoint was changed afterwards."""
        failure = self.failures.get(str(case.flow.spec.name))
        since = (case.current.current_since if case.current is not None else None) or ""
        # A time in the future was recorded before the clock was set back, so it can't be compared with the failure.
        is_older = failure is not None and failure.last < since <= self.now
        return None if is_older else failure

    def _seen(self, case: BrokenFlow, failure: Failure | None) -> _Seen | None:
        """Return the fault of a flow: certain faults first, then reported failures, then missing state."""
        name = case.flow.spec.name
        if name in self.errors:
            return _seen_error(self.errors[name])
        gateway = self.gateways.get(name)
        gap = None if gateway is None else gateway.gap
        if failure is not None and gap in (None, failure.condition):
            return _Seen(
                condition=failure.condition, cause=failure.cause, remedy=failure.remedy, location=failure.location
            )
        if gap is not None:
            return _Seen(condition=gap, cause="The source no longer has the changes after the position.")
        return _held(case) or self._pace(name) or _restored(case)

    def _pace(self, name: QualifiedName) -> _Seen | None:
        lag = self.lag.get(name)
        if lag is None or lag.health not in (FlowHealth.STUCK, FlowHealth.RUNNING):
            return None
        if lag.health is FlowHealth.STUCK:
            return _Seen(cause=lag.reason, diagnosis=SILENT)
        update = self.events[-1].origin.update_id if self.events else ""
        mine = [
            event for event in self.events if event.origin.flow_name == str(name) and event.origin.update_id == update
        ]
        diagnosis = pace_of(mine)
        return None if diagnosis is None else _Seen(cause=lag_text(lag), diagnosis=diagnosis)

    def _evidence(self, case: BrokenFlow, failure: Failure | None) -> Iterator[str]:
        """Yield the evidence, with paths and positions."""
        storage, current = self.store.storage, case.current
        if current is not None and case.checkpoint is not None and case.flow.streaming:
            progress = read_progress(storage, case.checkpoint)
            batch = "no batch" if progress.last_commit_batch is None else f"batch {progress.last_commit_batch}"
            yield f"checkpoint: generation {current.number}, {batch} committed, {case.checkpoint}"
        yield from (f"damaged: {damage.path}: {damage.problem}" for damage in case.damages)
        position = position_of(case)
        yield from (f"position: {start}" for start in position.starts)
        yield from (f"lost: {gap.location}: {gap.problem}" for gap in case.state.gaps)
        gateway = self.gateways.get(case.flow.spec.name)
        if gateway is not None:
            yield from log_evidence(gateway)
        if case.state.held and case.state.held not in case.cause:
            yield f"held: {case.state.held}"
        if failure is not None:
            if failure.condition != case.condition:
                yield f"reported: [{failure.condition}] {failure.cause}"
            yield _log_of(storage, failure)
        lag = self.lag.get(case.flow.spec.name)
        if lag is not None and lag.lag.records:
            yield f"unread: {lag_text(lag)}"


def unplannable(errors: Sequence[SluiceError], storage: Storage) -> Examination:
    """Return the findings of a pipeline whose updates can't be planned.

    Args:
        errors: why they can't be planned.
        storage: the pipeline's storage, with the event log.
    """
    return Examination(flows=0, findings=tuple(of_update_fault(error, storage) for error in errors))


def of_update_fault(error: SluiceError, storage: Storage) -> Finding:
    """Return the finding of a fault outside of the flows, with its history from the event log.

    Args:
        error: the fault.
        storage: the pipeline's storage, with the event log.
    """
    failure = read_update_failure(storage)
    seen = parse_error(error.render())
    if failure is not None and failure.condition == seen.condition:
        seen = replace(seen, since=failure.since, updates=failure.updates, update_id=failure.update_id)
    return _of_update(seen, (_log_of(storage, seen),) if seen.update_id else ())


def _each_source_once(graph: DataflowGraph, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings; datasets with the same source fault, such as a database, share the first one's finding."""
    faults: dict[str, list[Finding]] = {}
    for each in findings:
        dataset = None if each.dataset is None else graph.dataset(each.dataset)
        of_source = dataset is not None and dataset.fault is not None and dataset.fault.what == each.cause
        key = f"{each.condition} {each.cause}" if of_source or each.flow is None else str(each.flow)
        faults.setdefault(key, []).append(each)
    for first, *others in faults.values():
        names = [str(other.flow) for other in others if other.flow is not None]
        more = f", and {len(names) - _MOST_NUMBERS} more" if len(names) > _MOST_NUMBERS else ""
        also = (f"the same holds {', '.join(names[:_MOST_NUMBERS])}{more}",) if names else ()
        yield replace(first, evidence=(*first.evidence, *also))


def _of_update(failure: Failure, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        flow=None,
        dataset=None,
        diagnosis=diagnosis_of(failure.condition, failure.cause),
        condition=failure.condition,
        sqlstate=sqlstate_of(failure.condition),
        cause=failure.cause,
        location=failure.location,
        since=failure.since,
        updates=failure.updates if failure.since else 0,
        evidence=evidence,
        ways=person_ways(failure.remedy),
    )


def _log_of(storage: Storage, failure: Failure) -> str:
    return f"event log: {storage.path(EVENTS_FOLDER, f'{failure.update_id}.jsonl')}"


def _seen_error(error: SluiceError) -> _Seen:
    parsed = parse_error(error.render())
    return _Seen(condition=error.condition, cause=error.what, remedy=error.remedy, location=parsed.location)


def _diagnosis(case: BrokenFlow) -> Diagnosis:
    """Return the diagnosis of a fault; missing state is damage only if the flow ever had state."""
    if case.condition in {damage.condition for damage in case.damages}:
        return CHECKPOINT_DAMAGED
    had_state = case.state_rows() is not None
    if case.condition == _NO_STATE and not had_state:
        return diagnosis_of(_OPERATORS)
    return diagnosis_of(case.condition, case.cause)


def _held(case: BrokenFlow) -> _Seen | None:
    """Return the hold of an operator on the flow, if any; a snapshot that is skipped on purpose is no fault."""
    held = case.state.held
    if not held or case.is_skipped:
        return None
    return _Seen(cause=f"It does not run, because {held}.", diagnosis=HELD)


def _restored(case: BrokenFlow) -> _Seen | None:
    """Return the undone rows of a manual RESTORE, if any; no error or event reports them."""
    undone = undone_commits(case)
    if undone is None:
        return None
    cause = (
        f"Version {undone.restore} of {case.dataset.name.table} is a RESTORE to version {undone.restored}: "
        f"the rows of {_undone_text(undone)} are not in the table any more."
    )
    return _Seen(cause=cause, diagnosis=TABLE_RESTORED, undone=undone)


def _undone_text(undone: UndoneCommits) -> str:
    numbers = ", ".join(map(str, undone.batches[:_MOST_NUMBERS])) + (", ..." if undone.batches[_MOST_NUMBERS:] else "")
    parts = []
    if undone.is_refreshed:
        parts.append("the last full refresh")
    if undone.batches:
        parts.append(f"{counted(len(undone.batches), 'batch', 'batches')} of the flow ({numbers})")
    if undone.replays:
        parts.append(f"{counted(undone.replays, 'replay', 'replays')} of quarantined rows")
    return " and ".join(parts)


def position_of(case: BrokenFlow) -> Position:
    """Return the position of a flow."""
    current, checkpoint = case.current, case.checkpoint
    if current is None or checkpoint is None:
        return Position()
    if not case.flow.streaming or case.progress is None:
        return Position(generation=current.number)
    try:
        starts = case.states.resume(case.flow, checkpoint, case.progress)
    except SluiceError:
        starts = ()
    return Position(generation=current.number, starts=starts)


def lag_text(lag: FlowLag) -> str:
    """Return the unread data of a flow as text."""
    rows, size = lag.lag.records, lag.lag.bytes
    parts = [f"{rows:,} rows" if rows is not None else "", f"{size:,} bytes" if size is not None else ""]
    return ", ".join(part for part in parts if part) or "an unknown number of rows"
