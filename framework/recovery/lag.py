"""The lag of the flows of a pipeline, for its session; a reader without Spark has `framework.recovery.flow_lags`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.read_once import ReadOnceStorage
from framework.foundation.files.storage import LocalStorage, Storage
from framework.foundation.nearest import meant_names, qualified_hint
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.recovery.flow_journal import FlowJournal
from framework.recovery.flow_lag import FlowLag
from framework.recovery.flow_lags import flows_with_lag, lags_of
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.table_store import TableStore
from framework.run.update.lock import check_unlocked
from framework.sources.port import SourceReference


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ResolvedSources:
    """The sources of the flows of a resolved graph."""

    states: StateReader

    @property
    def graph(self) -> DataflowGraph:
        return self.states.graph

    @property
    def storage(self) -> Storage:
        return self.states.storage

    def check(self, flow: GraphFlow) -> None:
        self.states.flow_state(flow)

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        return self.states.stream_sources(flow)


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
    flows = flows_with_lag(graph)
    chosen = flows if flow is None else _named(flow, flows)
    journal = FlowJournal.read(store.storage)
    runs = not journal.has_ended and _is_locked(store.storage)
    states = StateReader(graph=graph, store=replace(store, storage=ReadOnceStorage(store.storage)))
    quarantined = {each.flow: each for each in waiting}
    found = lags_of(chosen, _ResolvedSources(states=states), journal, clock, runs=runs)
    return tuple(replace(each, quarantined=quarantined.get(str(each.flow))) for each in found)


def _named(text: str, flows: Sequence[GraphFlow]) -> list[GraphFlow]:
    names = [str(flow.spec.name) for flow in flows]
    meant = meant_names(text, names)
    if not meant:
        raise UserError("LAG_FLOW_NOT_FOUND", flow=text, hint=qualified_hint(text, names))
    return [flow for flow in flows if str(flow.spec.name) in meant]


def _is_locked(storage: Storage) -> bool:
    """Whether an update holds the lock; always True on remote storage, where only a lease's holder knows its state."""
    try:
        check_unlocked(storage)
    except OperationError:
        return True
    return not isinstance(storage, LocalStorage)
