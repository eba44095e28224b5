"""Reads the stored state of a pipeline without Spark, as input of the planner."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import GenerationState, Manifest
from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.checkpoints.snapshots import SnapshotStore
from framework.declare.specs import DatasetKind
from framework.foundation.names import QualifiedName
from framework.foundation.storage import Storage
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.state import FlowState, StoredState, TableState
from framework.run.tables.left_tables import LeftTables
from framework.run.tables.table_record import definition_of
from framework.run.tables.table_store import TableStore
from framework.sources.delta.log import last_user_metadata
from framework.sources.delta.source import table_source
from framework.sources.kinds import is_drained, source_identity
from framework.sources.port import SourceReference


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateReader:
    """Reads tables, checkpoints and Delta logs of a graph's datasets."""

    graph: DataflowGraph
    store: TableStore

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        return self.store.storage

    def read(self) -> StoredState:
        """Return the stored state of all datasets and flows of the graph."""
        left = LeftTables(graph=self.graph, store=self.store)
        gone = {table.name for table in left.begun()}  # an update finishes their deletion before it plans
        present = [dataset for dataset in self.graph.datasets if dataset.name not in gone]
        tables = {dataset.name: self.table_state(dataset) for dataset in present if dataset.is_table}
        flows = {
            flow.spec.name: self._flow(dataset, flow)
            for dataset in present
            if dataset.kind is not DatasetKind.MATERIALIZED_VIEW
            for flow in self.graph.flows_into(dataset.name)
        }
        views = [dataset for dataset in self.graph.datasets if dataset.kind is DatasetKind.MATERIALIZED_VIEW]
        return StoredState(
            tables=tables,
            flows=flows,
            left=left.kept(),
            wanted_definitions={
                dataset.name: definition_of(dataset) for dataset in self.graph.datasets if dataset.is_table
            },
            computable_from={dataset.name: self.computable_from(dataset) for dataset in views},
        )

    def table_state(self, dataset: GraphDataset) -> TableState:
        """Return the state of a dataset's table: existence, applied definition, and unfinished rebuild."""
        name = dataset.name
        stored = self.store.stored_table(dataset)
        rebuild = RebuildStore(self.storage).read(name)
        computed_from = None
        if dataset.kind is DatasetKind.MATERIALIZED_VIEW:
            mark = last_user_metadata(self.storage, self.store.path(dataset.spec))
            computed_from = mark.content.get("computed_from") if mark is not None else None
        return TableState(
            exists=stored is not None,
            path=self.store.path(dataset.spec),
            other_owner=stored.other_owner if stored is not None else None,
            definition=stored.definition if stored is not None else None,
            computed_from=computed_from,
            rebuilding=rebuild.number if rebuild is not None and not rebuild.published else None,
            last_rebuild=rebuild.number if rebuild is not None else 0,
        )

    def _flow(self, dataset: GraphDataset, flow: GraphFlow) -> FlowState:
        generations = GenerationStore(self.storage)
        manifest = generations.manifest(dataset.name, flow.spec.name)
        rebuild = RebuildStore(self.storage).read(dataset.name)
        building = building_of(manifest, rebuild)
        current = manifest.in_state(GenerationState.CURRENT)
        if rebuild is not None and rebuild.published and building is not None:
            # Published but not yet promoted: the rebuild's generation counts as current.
            current, building = manifest.find(building), None
        latest = generations.latest_number(dataset.name, flow.spec.name)
        if current is None:
            return FlowState(building=building, latest=latest)
        return FlowState(
            generation=current.number,
            completed=current.completed,
            building=building,
            drained=not flow.spec.once
            and self.is_drained(flow, generations.path(dataset.name, flow.spec.name, current.number)),
            latest=latest,
        )

    def is_drained(self, flow: GraphFlow, checkpoint: str) -> bool:
        """Whether a flow has read all current data of its sources; False if unknown."""
        if flow.spec.from_snapshots:
            return self._is_compared(flow, checkpoint)
        sources = self.stream_sources(flow)
        return sources is not None and is_drained(self.storage, checkpoint, sources) is True

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return all streaming sources of a flow, tables of the pipeline included; None if a path is unknown."""
        tables = []
        for read in flow.reads:
            dataset = self.graph.dataset(read.dataset) if read.dataset else None
            if not read.streaming or (dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW):
                continue
            path = self._path(read.dataset, read.path)
            if path is None:
                return None
            tables.append(table_source(path))
        return (*tables, *flow.sources)

    def compared_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return the tables that a view or a snapshot flow reads; None for other reads or nondeterministic results."""
        if flow.fingerprint is None or not flow.reads:
            return None
        tables = []
        for read in flow.reads:
            dataset = self.graph.dataset(read.dataset) if read.dataset else None
            if dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW:
                continue
            path = self._path(read.dataset, read.path)
            if path is None:
                return None
            tables.append(table_source(path))
        return tuple(dict.fromkeys(tables))

    def _is_compared(self, flow: GraphFlow, checkpoint: str) -> bool:
        """Whether the last applied snapshot equals the current source, and no later one is claimed."""
        progress, present = SnapshotStore(self.storage, checkpoint).read(), self.source_identity(flow)
        applied = progress.applied
        return present is not None and applied == progress.claimed and applied is not None and applied.source == present

    def computable_from(self, dataset: GraphDataset) -> str | None:
        """Return the fingerprint of a materialized view's code and current input versions; None if unknown."""
        return self.source_identity(self.graph.flows_into(dataset.name)[0])

    def source_identity(self, flow: GraphFlow) -> str | None:
        """Return a fingerprint that changes whenever a flow's query may return other rows; None if unknown."""
        if flow.fingerprint is None:
            return None
        parts = [flow.fingerprint]
        for read in flow.reads:
            path = self._path(read.dataset, read.path)
            if path is None:
                continue
            parts.append(str(source_identity(self.storage, table_source(path))))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    def _path(self, name: QualifiedName | None, path: str | None) -> str | None:
        dataset = self.graph.dataset(name) if name is not None else None
        if dataset is None:
            return path
        return self.store.path(dataset.spec) if dataset.is_table else None


def building_of(manifest: Manifest, rebuild: Rebuild | None) -> int | None:
    """Return the number of the generation of this rebuild; None if the generation is of an earlier rebuild."""
    generation = manifest.in_state(GenerationState.BUILDING)
    if generation is None or rebuild is None or generation.fingerprint != rebuild.generation_mark:
        return None
    return generation.number
