"""The position of a table's copy: how much of the source's log its flows have applied."""

from __future__ import annotations

from dataclasses import dataclass

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import GenerationState
from framework.checkpoints.offsets import read_progress
from framework.foundation.errors import SourceError
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.table_store import TableStore
from framework.sources.databases.position import position_of
from framework.sources.databases.source import ChangesSource

_CHANGES = ChangesSource.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPosition:
    """The position of a copy.

    Args:
        stored: the offset up to which all changes are applied to the copy; None if it is unknown.
        problem: the reason why it is unknown, as one sentence; empty if it is known.
    """

    stored: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopyPositions:
    """Reads positions from the checkpoints of the flows between a source and its copy.

    Args:
        graph: the pipeline's graph.
        store: its tables.
    """

    graph: DataflowGraph
    store: TableStore

    def read(self, dataset: GraphDataset | None) -> CopyPosition:
        """Return the position of a dataset that the flows of this pipeline fill from a database."""
        if dataset is None:
            return CopyPosition(problem="The copy is no dataset of this pipeline, so its position is unknown.")
        flows = self._upstream(dataset)
        readers = [flow for flow in flows if self._reads_log(flow)]
        if len(readers) != 1:
            return CopyPosition(problem=f"{dataset.name} does not get its changes from one flow of this pipeline.")
        # The position is read before the state of later flows: whatever they read in between only adds to the copy.
        stored = self._position(readers[0])
        if stored is None:
            return CopyPosition(problem=f"Flow {readers[0].spec.name} has an unfinished batch, or has not run.")
        behind = next((flow for flow in flows if flow is not readers[0] and not self._is_done(flow)), None)
        if behind is not None:
            return CopyPosition(problem=f"Flow {behind.spec.name} has not read all rows of its sources yet.")
        return CopyPosition(stored=stored)

    def _upstream(self, dataset: GraphDataset) -> list[GraphFlow]:
        """Return the flows into a dataset and into all its upstream datasets."""
        names = [dataset.name]
        found: list[GraphFlow] = []
        for name in names:  # grows during the loop; each name occurs once
            found += self.graph.flows_into(name)
            names += [each for each in self.graph.inputs(name) if each not in names]
        return found

    @staticmethod
    def _reads_log(flow: GraphFlow) -> bool:
        return any(source.kind == _CHANGES for source in flow.sources)

    def _checkpoint(self, flow: GraphFlow) -> str | None:
        generations = GenerationStore(self.store.storage)
        current = generations.manifest(flow.spec.target, flow.spec.name).in_state(GenerationState.CURRENT)
        if current is None:
            return None
        return generations.path(flow.spec.target, flow.spec.name, current.number)

    def _position(self, flow: GraphFlow) -> str | None:
        checkpoint = self._checkpoint(flow)
        progress = None if checkpoint is None else read_progress(self.store.storage, checkpoint)
        if progress is None or not progress.is_settled:
            return None
        return next((each for each in progress.sources if ChangesSource().owns(each) and _is_whole(each)), None)

    def _is_done(self, flow: GraphFlow) -> bool:
        dataset = self.graph.dataset(flow.spec.target)
        if dataset is not None and not dataset.is_table:  # a temporary view is part of the flows that read it
            return True
        generations = GenerationStore(self.store.storage)
        current = generations.current(flow.spec.target, flow.spec.name)
        if current is None:
            return False
        path = generations.path(flow.spec.target, flow.spec.name, current.number)
        return current.completed or StateReader(graph=self.graph, store=self.store).is_drained(flow, path)


def _is_whole(offset: str) -> bool:
    """Whether an offset has a position; a damaged one has none."""
    try:
        position_of(offset)
    except SourceError:
        return False
    return True
