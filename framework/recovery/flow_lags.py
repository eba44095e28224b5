"""The lag of flows behind their sources, and their health, from a graph, checkpoints and events; without Spark.

Unread data is computed from checkpoints, source folders and Delta logs. Whether a flow is alive is read from the event
log: a continuous update writes an event for each of its flows every minute, even without rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from framework.checkpoints.generations import Generation, GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.declare.specs import DatasetKind
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.graph.stored_graph import StoredGraph
from framework.recovery.flow_journal import FlowJournal, FlowRecord
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.run.flows.state.stream_sources import current_starts, stream_sources
from framework.run.update.intervals import ALIVE_SECONDS
from framework.sources.port import UNKNOWN_LAG, Lag, SourceReference
from framework.sources.stored_lag import flow_lag, lost_in

SILENT_INTERVALS = 3
"""A flow of a continuous update is stuck if it is silent for more than this many event intervals."""


class FlowSources(Protocol):
    """The sources of the flows of a graph."""

    @property
    def graph(self) -> DataflowGraph:
        """The graph."""
        ...

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        ...

    def check(self, flow: GraphFlow) -> None:
        """Read the files that only the start of a flow needs.

        Raises:
            OperationError: the flow could not start.
        """
        ...

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return all streaming sources of a flow; None if a path is unknown."""
        ...


class StoredSources:
    """The sources of the flows of a stored graph.

    The stored graph has no options of reads, so a read that has no position yet has no known begin.

    Args:
        stored: the graph.
        storage: the pipeline's storage.
    """

    def __init__(self, stored: StoredGraph, storage: Storage) -> None:
        self.graph, self.storage = stored.graph, storage
        self._folders = stored.folders

    def check(self, flow: GraphFlow) -> None:
        """Check nothing: the update that starts the flow reports what is wrong."""

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return all streaming sources of a flow; None if a path is unknown."""
        return stream_sources(
            self.graph,
            flow,
            current_starts(self.storage, flow),
            lambda read: read.path if read.dataset is None else self._folders.get(read.dataset, read.path),
        )


def flows_with_lag(graph: DataflowGraph) -> list[GraphFlow]:
    """Return the flows that have or may have a checkpoint, in order of declaration."""
    return [each for each in graph.flows if _has_checkpoint(graph, each)]


def lags_of(
    flows: Sequence[GraphFlow], sources: FlowSources, journal: FlowJournal, clock: Clock, *, runs: bool
) -> Iterator[FlowLag]:
    """Yield the lag of each flow; one that can't be read now has an unknown lag and a reason.

    Args:
        flows: the flows.
        sources: their sources.
        journal: what the event log says about them.
        clock: the present time.
        runs: whether the last update of the journal runs.
    """
    for flow in flows:
        yield _read_flow(flow, sources, journal, clock, runs=runs)


def _has_checkpoint(graph: DataflowGraph, flow: GraphFlow) -> bool:
    dataset = graph.dataset(flow.spec.target)
    if dataset is None or not (dataset.is_table or dataset.is_sink):
        return False
    # The query of an unresolved flow is unknown; only a materialized view has certainly no checkpoint.
    return flow.streaming or (dataset.is_unresolved and dataset.kind is not DatasetKind.MATERIALIZED_VIEW)


def _read_flow(flow: GraphFlow, sources: FlowSources, journal: FlowJournal, clock: Clock, *, runs: bool) -> FlowLag:
    """Return the lag of a flow; an unreadable table, checkpoint or source affects only its own flow."""
    record = journal.record(flow.spec.name)
    reason = _why_unresolved(sources.graph.dataset(flow.spec.target))
    try:
        if not reason:
            sources.check(flow)
            return _flow_lag(flow, sources, journal, clock, runs=runs and journal.is_in_update(flow.spec.name))
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


def _flow_lag(flow: GraphFlow, sources: FlowSources, journal: FlowJournal, clock: Clock, *, runs: bool) -> FlowLag:
    name, target, record = flow.spec.name, flow.spec.target, journal.record(flow.spec.name)
    generations = GenerationStore(sources.storage)
    current = generations.current(target, name)
    checkpoint = None if current is None else generations.path(target, name, current.number)
    lag, lost = _unread(flow, sources, checkpoint, clock)
    if lag == UNKNOWN_LAG and runs:  # within a batch; the flow's last event has the unread amount
        lag = record.backlog
    silent = None if record.last is None else _seconds_since(record.last.timestamp, clock)
    has_batch = checkpoint is not None and _has_batch(sources.storage, checkpoint)
    health = _health(current, has_batch, lag, record, runs=runs)
    reason = record.error.splitlines()[0] if health is FlowHealth.FAILED and record.error else ""
    if runs and journal.is_continuous and silent is not None and silent > SILENT_INTERVALS * ALIVE_SECONDS:
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
        lost_in_seconds=lost,
    )


def _unread(flow: GraphFlow, sources: FlowSources, checkpoint: str | None, clock: Clock) -> tuple[Lag, float | None]:
    """Return what a flow has not read, and the seconds until its source may delete some of it."""
    found = sources.stream_sources(flow)
    if checkpoint is None or found is None:
        return UNKNOWN_LAG, None
    now = clock.now().timestamp()
    return (
        flow_lag(sources.storage, checkpoint, found, now=now),
        lost_in(sources.storage, checkpoint, found, now=now),
    )


def _has_batch(storage: Storage, checkpoint: str) -> bool:
    return read_progress(storage, checkpoint).last_commit_batch is not None


def _health(current: Generation | None, has_batch: bool, lag: Lag, record: FlowRecord, *, runs: bool) -> FlowHealth:  # noqa: FBT001 - a fact, not an option
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
