"""The lag of each flow behind its sources, and whether it is idle, running or stuck; without Spark jobs.

Unread data is computed from checkpoints, source folders and Delta logs. Whether a flow is alive is read from the event
log: a continuous update writes an event for each of its flows every minute, even without rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from framework.checkpoints.generations import Generation, GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.declare.specs import DatasetKind
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.read_once import ReadOnceStorage
from framework.foundation.files.storage import LocalStorage, Storage
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import meant_names, qualified_hint
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.record.events import Event, EventType
from framework.record.reader import read_events
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.table_store import TableStore
from framework.run.update.continuous.supervisor import ALIVE_SECONDS
from framework.run.update.lock import check_unlocked
from framework.sources.kinds import flow_lag
from framework.sources.port import UNKNOWN_LAG, Lag

SILENT_INTERVALS = 3
"""A flow of a continuous update is stuck if it is silent for more than this many event intervals."""

_LAST_EVENTS = 20_000
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The state of one flow in the event log."""

    last: Event | None = None
    backlog: Lag = UNKNOWN_LAG
    error: str = ""

    @property
    def status(self) -> str:
        return "" if self.last is None else str(_details(self.last).get("status", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastUpdate:
    """The last update: whether it is running, and whether it is continuous, so that each flow reports regularly.

    Args:
        flows: the flows of the update, if it is running.
    """

    update_id: str | None = None
    runs: bool = False
    is_continuous: bool = False
    flows: frozenset[str] = frozenset()

    def has(self, flow: QualifiedName, last: Event | None) -> bool:
        """Whether the update is running and has the flow; a newly declared flow is only in the next update."""
        return self.runs and (str(flow) in self.flows if last is None else last.origin.update_id == self.update_id)


def read_lag(
    graph: DataflowGraph,
    store: TableStore,
    *,
    clock: Clock,
    flow: str | None = None,
    waiting: Sequence[WaitingRows] = (),
) -> tuple[FlowLag, ...]:
    """Return the lag of each streaming flow, in order of declaration.

    A flow that can't be resolved now, because its table or a source can't be read, has an unknown lag and a reason.

    Args:
        graph: the pipeline's graph.
        store: its tables.
        clock: the present time.
        flow: one flow, by its full name or its last parts; None for all.
        waiting: the open rows in the quarantine.

    Raises:
        UserError: LAG_FLOW_NOT_FOUND.
    """
    flows = [each for each in graph.flows if _has_checkpoint(graph, each)]
    chosen = flows if flow is None else _named(flow, flows)
    events = read_events(store.storage, type=EventType.FLOW_PROGRESS, last=_LAST_EVENTS)
    update = _last_update(store.storage)
    states = StateReader(graph=graph, store=replace(store, storage=ReadOnceStorage(store.storage)))
    records = _records(events)
    found = (_read_flow(each, states, records.get(str(each.spec.name), _Record()), update, clock) for each in chosen)
    quarantined = {each.flow: each for each in waiting}
    return tuple(replace(each, quarantined=quarantined.get(str(each.flow))) for each in found)


def _has_checkpoint(graph: DataflowGraph, flow: GraphFlow) -> bool:
    dataset = graph.dataset(flow.spec.target)
    if dataset is None or not (dataset.is_table or dataset.is_sink):
        return False
    # The query of an unresolved flow is unknown; only a materialized view has certainly no checkpoint.
    return flow.streaming or (dataset.is_unresolved and dataset.kind is not DatasetKind.MATERIALIZED_VIEW)


def _named(text: str, flows: Sequence[GraphFlow]) -> list[GraphFlow]:
    names = [str(flow.spec.name) for flow in flows]
    meant = meant_names(text, names)
    if not meant:
        raise UserError("LAG_FLOW_NOT_FOUND", flow=text, hint=qualified_hint(text, names))
    return [flow for flow in flows if str(flow.spec.name) in meant]


def _last_update(storage: Storage) -> _LastUpdate:
    last = next(iter(read_events(storage, type=EventType.UPDATE_PROGRESS, last=1)), None)
    if last is None:
        return _LastUpdate()
    update_id = last.origin.update_id
    state = last.details.get(str(EventType.UPDATE_PROGRESS), {}).get("state")
    created = read_events(storage, type=EventType.CREATE_UPDATE, update_id=update_id, last=1)
    requests = [event.details.get(str(EventType.CREATE_UPDATE), {}) for event in created]
    runs = state not in _ENDED and _is_locked(storage)
    defined = read_events(storage, type=EventType.FLOW_DEFINITION, update_id=update_id) if runs else ()
    return _LastUpdate(
        update_id=update_id,
        runs=runs,
        flows=frozenset(filter(None, (event.origin.flow_name for event in defined))),
        is_continuous=any(request.get("continuous") for request in requests),
    )


def _is_locked(storage: Storage) -> bool:
    """Whether an update holds the lock; always True on remote storage, where only a lease's holder knows its state."""
    try:
        check_unlocked(storage)
    except OperationError:
        return True
    return not isinstance(storage, LocalStorage)


def _details(event: Event) -> Mapping[str, Any]:
    found: Mapping[str, Any] = event.details.get(str(EventType.FLOW_PROGRESS), {})
    return found


def _records(events: Sequence[Event]) -> dict[str, _Record]:
    """Return the state of each flow in the events, which are ordered oldest first."""
    found: dict[str, _Record] = {}
    for event in events:
        name = event.origin.flow_name
        if name is None:
            continue
        backlog = _backlog(_details(event).get("metrics", {}))
        before = found.get(name, _Record())
        error = event.error.exceptions[0].message if event.error and event.error.exceptions else ""
        found[name] = _Record(last=event, backlog=before.backlog if backlog is None else backlog, error=error)
    return found


def _backlog(metrics: Mapping[str, Any]) -> Lag | None:
    names = ("backlog_records", "backlog_bytes", "backlog_seconds")
    records, size, seconds = (metrics.get(name) for name in names)
    if records is None and size is None and seconds is None:
        return None
    return Lag(records=records, bytes=size, seconds=seconds)


def _read_flow(flow: GraphFlow, states: StateReader, record: _Record, update: _LastUpdate, clock: Clock) -> FlowLag:
    """Return the lag of a flow; an unreadable table, checkpoint or source affects only its own flow."""
    reason = _why_unresolved(states.graph.dataset(flow.spec.target))
    try:
        if not reason:
            states.flow_state(flow)  # also reads the files that only the start of the flow needs
            return _flow_lag(flow, states, record, update, clock)
    except OperationError as error:
        reason = error.what
    return FlowLag(
        flow=flow.spec.name,
        dataset=flow.spec.target,
        health=FlowHealth.UNKNOWN,
        lag=UNKNOWN_LAG,
        last_event=None if record.last is None else record.last.timestamp,
        reason=reason,
    )


def _why_unresolved(dataset: GraphDataset | None) -> str:
    """Return why the flows of a dataset can't be resolved, as a sentence; empty if they are."""
    if dataset is None or not dataset.is_unresolved:
        return ""
    if dataset.fault is not None:
        return dataset.fault.what
    return f"The columns of {', '.join(map(str, dataset.waits_for))} are unknown."


def _flow_lag(flow: GraphFlow, states: StateReader, record: _Record, update: _LastUpdate, clock: Clock) -> FlowLag:
    name, target = flow.spec.name, flow.spec.target
    generations = GenerationStore(states.storage)
    current = generations.current(target, name)
    checkpoint = None if current is None else generations.path(target, name, current.number)
    lag = _unread(flow, states, checkpoint, clock)
    runs = update.has(name, record.last)
    if lag == UNKNOWN_LAG and runs:  # within a batch; the flow's last event has the unread amount
        lag = record.backlog
    silent = None if record.last is None else _seconds_since(record.last.timestamp, clock)
    health = _health(current, checkpoint is not None and _has_batch(states.storage, checkpoint), lag, record, runs=runs)
    reason = record.error.splitlines()[0] if health is FlowHealth.FAILED and record.error else ""
    if runs and update.is_continuous and silent is not None and silent > SILENT_INTERVALS * ALIVE_SECONDS:
        health = FlowHealth.STUCK
        reason = f"A continuous update runs, but the flow has reported nothing for {silent:.0f} s."
    return FlowLag(
        flow=name,
        dataset=target,
        health=health,
        lag=lag,
        last_event=None if record.last is None else record.last.timestamp,
        silent_seconds=silent,
        reason=reason,
    )


def _unread(flow: GraphFlow, states: StateReader, checkpoint: str | None, clock: Clock) -> Lag:
    sources = states.stream_sources(flow)
    if checkpoint is None or sources is None:
        return UNKNOWN_LAG
    return flow_lag(states.storage, checkpoint, sources, now=clock.now().timestamp())


def _has_batch(storage: Storage, checkpoint: str) -> bool:
    return read_progress(storage, checkpoint).last_commit_batch is not None


def _health(current: Generation | None, has_batch: bool, lag: Lag, record: _Record, *, runs: bool) -> FlowHealth:  # noqa: FBT001 - a fact, not an option
    if current is not None and current.completed:
        return FlowHealth.DONE
    if record.status == "FAILED":
        return FlowHealth.FAILED
    if has_batch and _is_nothing(lag):
        return FlowHealth.IDLE
    if runs:
        return FlowHealth.RUNNING
    if not has_batch:
        return FlowHealth.NOT_STARTED
    return FlowHealth.UNKNOWN if lag == UNKNOWN_LAG else FlowHealth.BEHIND


def _is_nothing(lag: Lag) -> bool:
    known = [value for value in (lag.records, lag.bytes) if value is not None]
    return bool(known) and not any(known)


def _seconds_since(timestamp: str, clock: Clock) -> float:
    return max((clock.now() - datetime.fromisoformat(timestamp)).total_seconds(), 0.0)
