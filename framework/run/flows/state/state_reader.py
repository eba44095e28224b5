"""Reads the stored state of a pipeline without Spark, as input of the planner."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from framework.checkpoints.damage import inspect_checkpoint
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import Generation, GenerationState, Manifest
from framework.checkpoints.offsets import CheckpointProgress, read_progress
from framework.checkpoints.operators import read_query
from framework.checkpoints.rebuilds import Rebuild, RebuildStore, last_number
from framework.checkpoints.roll_back import last_kept, written_since
from framework.checkpoints.snapshots import SnapshotStore
from framework.checkpoints.table_marks import read_mark
from framework.declare.specs import DatasetKind
from framework.foundation.conditions.recovery import PUT_BACK
from framework.foundation.errors import OperationError
from framework.foundation.files.read_once import ReadOnceStorage
from framework.foundation.files.storage import Storage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.ingest.holds import held_flows
from framework.plan.starts import flow_sources
from framework.plan.state import FlowState, StateFault, StoredState, TableState
from framework.run.flows.state.ahead import begins_late, has_lost_start, is_ahead, sink_folder
from framework.run.flows.state.flow_starts import FlowStarts
from framework.run.flows.state.former_flows import former_flows, has_unknown_refresh, has_unknown_rows
from framework.run.flows.state.generation_numbers import is_older_than_restart, is_older_than_rewind, latest_number
from framework.run.flows.state.sink_types import sink_place
from framework.run.flows.state.source_places import misplaced_in_checkpoint, misplaced_source
from framework.run.flows.state.stored_access import UnreadState, storage_fault, unwritable_datasets
from framework.run.flows.state.stream_sources import stream_sources
from framework.run.flows.state.trusted_positions import trusted_progress
from framework.run.tables.catalog_entries import foreign_entry, is_configured
from framework.run.tables.column_changes import change_of, shown
from framework.run.tables.left_tables import LeftTables
from framework.run.tables.marked_tables import older_copy
from framework.run.tables.table_kind import view_fingerprint
from framework.run.tables.table_record import definition_of
from framework.run.tables.table_store import TableStore
from framework.sources.cloud_files.source import follows_columns
from framework.sources.delta.history import batches_in
from framework.sources.delta.log import LogTip, read_tip
from framework.sources.delta.source import REPLACED, table_source
from framework.sources.kinds import (
    flow_gaps,
    flow_resume,
    is_drained,
    put_back_sources,
    remember_sources,
    removed_data,
    source_identity,
)
from framework.sources.port import Gap, SourceReference

_LATEST = "startingVersion=latest"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateReader:
    """Reads tables, checkpoints and Delta logs of a graph's datasets."""

    graph: DataflowGraph
    store: TableStore

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        return self.store.storage

    @property
    def starts(self) -> FlowStarts:
        """The starts of the flows' sources."""
        return FlowStarts(graph=self.graph, store=self.store)

    def read(self) -> StoredState:
        """Return the stored state of all datasets and flows of the graph; each file is read once."""
        once = replace(self.store, storage=ReadOnceStorage(self.storage))
        return replace(self, store=once)._read()  # noqa: SLF001 - the same class

    def _read(self) -> StoredState:
        left = LeftTables(graph=self.graph, store=self.store)
        gone = {table.name for table in left.begun()}  # an update finishes their deletion before it plans
        present = [dataset for dataset in self.graph.datasets if dataset.name not in gone]
        unread = UnreadState(graph=self.graph)
        silent: dict[str, StateFault] = {}
        tables = self._table_states([dataset for dataset in present if dataset.is_table], unread, silent)
        flows: dict[QualifiedName, FlowState] = {}
        for dataset in present:
            if dataset.is_sink:
                sink = unread.read(dataset.name, partial(self._sink_state, dataset))
                tables |= {} if sink is None else {dataset.name: sink}
            if dataset.kind is not DatasetKind.MATERIALIZED_VIEW:
                flows |= unread.read(dataset.name, partial(self._flows, dataset)) or {}
        for name, reason in held_flows(self.storage).items():
            if name in flows:
                flows[name] = replace(flows[name], held=reason)
        views = [dataset for dataset in self.graph.datasets if dataset.kind is DatasetKind.MATERIALIZED_VIEW]
        computable_from = {view.name: unread.read(view.name, partial(self.computable_from, view)) for view in views}
        fault = storage_fault(self.storage)
        return StoredState(
            root=self.storage.root,
            tables=tables,
            flows=flows,
            left=left.kept(),
            wanted_definitions={
                dataset.name: definition_of(dataset) for dataset in self.graph.datasets if dataset.is_table
            },
            computable_from=computable_from,
            unread=unread.faults,
            waits=unread.waits,
            unwritable={} if fault is not None else unwritable_datasets(self.graph, self.store, unread.faults),
            fault=fault,
            warnings=tuple(silent.values()),
        )

    def _table_states(
        self, tables: Sequence[GraphDataset], unread: UnreadState, silent: dict[str, StateFault]
    ) -> dict[QualifiedName, TableState]:
        """Return the states of tables, and add the catalogs that don't respond, which are not asked again.

        The JVM is asked once for each catalog that is not configured, instead of once for each table.
        """
        spark, catalogs = self.store.spark, {table.name.catalog for table in tables}
        configured = {catalog for catalog in catalogs if is_configured(spark, catalog)}
        states = {}
        for table in tables:
            asked = table.name.catalog in configured and table.name.catalog not in silent
            state = unread.read(table.name, partial(self._table_state, table, silent if asked else None))
            states[table.name] = TableState(path=self.store.path(table.spec)) if state is None else state
        return states

    def _flows(self, dataset: GraphDataset) -> dict[QualifiedName, FlowState]:
        return {flow.spec.name: self._flow(dataset, flow) for flow in self.graph.flows_into(dataset.name)}

    def _table_state(self, dataset: GraphDataset, silent: dict[str, StateFault] | None) -> TableState:
        """Return a table's state, including its catalog entry; with `silent` None, the catalog is not read."""
        state, spec = self.table_state(dataset), dataset.spec
        if silent is None:
            return state
        try:
            foreign = foreign_entry(self.store.spark, spec, self.store.path(spec), self.store.record(spec.name))
        except OperationError as error:
            if error.condition != "CATALOG_SILENT":
                raise
            silent[spec.name.catalog] = StateFault.of(error)
            return state
        if foreign is None:
            return state
        return replace(state, path=foreign.location, other_owner=foreign.other_owner, advice=foreign.advice)

    def table_state(self, dataset: GraphDataset) -> TableState:
        """Return the state of a dataset's table: existence, applied definition, and unfinished rebuild."""
        name = dataset.name
        stored = self.store.stored_table(dataset)
        rebuild = RebuildStore(self.storage).read(name)
        # Only the declared flows: on an object store, listing a folder for each dataset takes long.
        flows = self.graph.flows_into(name)
        manifests = [GenerationStore(self.storage).manifest(name, flow.spec.name) for flow in flows]
        path = self.store.path(dataset.spec)
        tip = read_tip(self.storage, path)
        is_replaced = rebuild is not None and rebuild.frozen and not rebuild.finished  # first, by the copy
        change = None if stored is None or tip is None or is_replaced else change_of(dataset, tip.schema)
        computed_from = None
        if dataset.kind is DatasetKind.MATERIALIZED_VIEW:
            computed_from = view_fingerprint(self.storage, path)
        return TableState(
            exists=stored is not None,
            path=path,
            other_owner=stored.other_owner if stored is not None else None,
            elsewhere=stored.elsewhere if stored is not None else "",
            other_storage=stored.other_storage if stored is not None else "",
            kind=stored.kind if stored is not None else None,
            definition=stored.definition if stored is not None else None,
            computed_from=computed_from,
            append_only=tip is not None and tip.is_append_only,
            rebuilding=rebuild.number if rebuild is not None and rebuild.is_building else None,
            last_rebuild=last_number(rebuild, manifests),
            keeps_history=rebuild is not None and rebuild.is_building and rebuild.backup is not None,
            change=None if change is None else shown(change),
            files=None if tip is None else tip.files,
            size_bytes=None if tip is None else tip.size_bytes,
        )

    def _sink_state(self, dataset: GraphDataset) -> TableState:
        """Return the state of a sink; another pipeline that writes to a sink of this name has its checkpoints here."""
        owners = {each.owner for each in GenerationStore(self.storage).list_of(dataset.name)}
        other = min(owners - {"", self.graph.pipeline}, default=None)
        place = sink_place(dataset.spec).partition("=")[2]
        return TableState(path=place, other_owner=None if other is None else f"pipeline {other}")

    def _flow(self, dataset: GraphDataset, flow: GraphFlow) -> FlowState:
        manifest = GenerationStore(self.storage).manifest(dataset.name, flow.spec.name)
        rebuild = RebuildStore(self.storage).read(dataset.name)
        building = building_of(manifest, rebuild)
        current = manifest.in_state(GenerationState.CURRENT)
        if rebuild is not None and not rebuild.is_building and building is not None:
            # Complete but not yet promoted: the rebuild's generation counts as current; an update promotes it first.
            current, building = manifest.find(building), None
        path = self.store.path(dataset.spec) if dataset.is_table else None
        folder = path or sink_folder(dataset.spec)
        tip = None if folder is None else read_tip(self.storage, folder)
        runs_next = current if building is None else manifest.find(building)
        begun = FlowState(
            building=building,
            latest=self._latest_number(dataset, flow, tip),
            misplaced=misplaced_in_checkpoint(self.graph, self.store, flow, runs_next, self.storage),
            rebuild_gaps=self._rebuild_gaps(flow, building),
            removed=removed_data(self.storage, flow.sources),
            begins_late=begins_late(flow),
            finds_columns=any(map(follows_columns, flow.sources)),
        )
        if current is not None:
            return self._in_generation(dataset, flow, (manifest, current), begun, tip)
        return begun if building else self._before_first_run(dataset, flow, manifest, begun, tip)

    def _in_generation(
        self,
        dataset: GraphDataset,
        flow: GraphFlow,
        after: tuple[Manifest, Generation],
        state: FlowState,
        tip: LogTip | None,
    ) -> FlowState:
        """Return the state of a flow with a current generation, from its checkpoint and its target."""
        path = self.store.path(dataset.spec) if dataset.is_table else None
        folder = path or sink_folder(dataset.spec)
        manifest, current = after
        checkpoint = GenerationStore(self.storage).path(dataset.name, flow.spec.name, current.number)
        # A once flow that has run has nothing to continue, so nothing can be broken.
        is_over = flow.spec.once and current.completed
        query = read_query(self.storage, checkpoint) if flow.streaming and not is_over else None
        drained = not flow.spec.once and self.is_drained(flow, checkpoint)
        reads = not (drained or is_over)
        former = former_flows(self.storage, self.graph, dataset, path, tip=tip, after=after) if reads else ()
        progress = self._progress(flow, checkpoint)
        was_stream = progress.query_id is not None
        is_stream = flow.streaming and not flow.spec.from_snapshots
        damages = inspect_checkpoint(self.storage, checkpoint) if is_stream and not is_over else ()
        trusted = trusted_progress(self.storage, checkpoint, damages, current.query) if damages else progress
        changed = was_stream if not is_stream else current.completed and not was_stream
        appends, in_target = dataset.cdc is None, batches_in(self.storage, path)
        kept = last_kept(manifest, appends=appends, storage=self.storage)
        return replace(
            state,
            generation=current.number,
            begins_late=state.begins_late or bool(current.start),
            completed=current.completed,
            drained=drained,
            has_kept=kept is not None,
            repeats=appends and kept is not None and bool(written_since(self.storage, manifest, kept, in_target)),
            query=query,
            damages=damages,
            gaps=() if query is None else self.gaps(flow, checkpoint),
            resume=() if query is None or trusted is None else self.resume(flow, checkpoint, trusted),
            former=former,
            changed_kind=changed and not is_over,
            deleted=(is_stream or flow.spec.from_snapshots)
            and not is_over
            and (has_lost_start(flow, current, progress) or self._is_ahead(flow, current, progress, folder, tip)),
            went_back=older_copy(self.storage, folder or "", manifest, tip),
            moved_sink=reads and self._has_moved(dataset, flow, current),
            unknown_rows=reads and has_unknown_rows(self.storage, dataset, tip, after=after),
            rewound=is_older_than_rewind(self.storage, dataset.name, flow.spec.name, tip),
            restarted=self._is_older_than_restart(dataset, flow, tip),
            refreshed=reads and has_unknown_refresh(self.storage, self.graph.pipeline, dataset, tip, after=after),
        )

    def _is_ahead(
        self, flow: GraphFlow, current: Generation, progress: CheckpointProgress, folder: str | None, tip: LogTip | None
    ) -> bool:
        """Whether the target has batches that the checkpoint lacks."""
        pipeline = self.graph.pipeline
        return is_ahead(self.storage, folder, tip, pipeline=pipeline, flow=flow, generation=current, progress=progress)

    def _before_first_run(
        self, dataset: GraphDataset, flow: GraphFlow, manifest: Manifest, state: FlowState, tip: LogTip | None
    ) -> FlowState:
        """Return the state of a flow without a generation, according to its rows that are already in the target."""
        path = self.store.path(dataset.spec) if dataset.is_table else None
        if flow.spec.cdc is None:
            unknown = self._is_older_than_restart(dataset, flow, tip) or has_unknown_rows(self.storage, dataset, tip)
            unknown = unknown or has_unknown_refresh(self.storage, self.graph.pipeline, dataset, tip)
        else:  # it may apply events again, but must not skip any
            unknown = bool(state.latest) and state.begins_late and not manifest.generations
        former = former_flows(self.storage, self.graph, dataset, path, tip=tip)
        went_back = older_copy(self.storage, path or "", manifest, tip)
        return replace(state, former=former, unknown_rows=unknown, went_back=went_back)

    def _progress(self, flow: GraphFlow, checkpoint: str) -> CheckpointProgress:
        """Return the progress of a checkpoint; for snapshots, the ordinal of the last transaction is the batch."""
        progress = read_progress(self.storage, checkpoint)
        if not flow.spec.from_snapshots:
            return progress
        claimed = SnapshotStore(self.storage, checkpoint).read().claimed
        return replace(progress, last_offset_batch=None if claimed is None else claimed.ordinal)

    def _is_older_than_restart(self, dataset: GraphDataset, flow: GraphFlow, tip: LogTip | None) -> bool:
        name, appends = flow.spec.name, flow.spec.cdc is None
        return appends and is_older_than_restart(self.storage, self.graph.pipeline, dataset.name, name, tip)

    def _has_moved(self, dataset: GraphDataset, flow: GraphFlow, generation: Generation) -> bool:
        """Whether a sink's location has changed since the last run of a generation."""
        mark = read_mark(self.storage, dataset.name, flow.spec.name) if dataset.is_sink else None
        return mark is not None and mark.generation >= generation.number and mark.table_id != sink_place(dataset.spec)

    def _latest_number(self, dataset: GraphDataset, flow: GraphFlow, tip: LogTip | None) -> int:
        """Return the highest generation number that a flow ever had."""
        path = self.store.path(dataset.spec) if dataset.is_table and flow.spec.cdc is not None else None
        return latest_number(self.storage, self.graph.pipeline, dataset.name, flow.spec.name, path=path, tip=tip)

    def flow_state(self, flow: GraphFlow) -> FlowState:
        """Return the state of one flow's checkpoint."""
        dataset = self.graph.dataset(flow.spec.target)
        return FlowState() if dataset is None else self._flow(dataset, flow)

    def gaps(self, flow: GraphFlow, checkpoint: str) -> tuple[Gap, ...]:
        """Return the lost positions of a flow's sources; only replaced tables if its options may permit data loss."""
        gaps = flow_gaps(self.storage, checkpoint, self.stream_sources(flow) or ())
        for read in flow.reads:
            by_path = read.dataset is None and read.text == read.path  # the options of such a read are unknown
            if by_path or dict(read.options).get("failondataloss", "true").lower() == "false":
                return tuple(gap for gap in gaps if gap.condition in {REPLACED, PUT_BACK})
        return gaps

    def _rebuild_gaps(self, flow: GraphFlow, building: int | None) -> tuple[Gap, ...]:
        if building is None or not flow.streaming:
            return ()
        gap = self.put_back(flow, GenerationStore(self.storage).path(flow.spec.target, flow.spec.name, building))
        return () if gap is None else (gap,)

    def put_back(self, flow: GraphFlow, checkpoint: str) -> Gap | None:
        """Return a source whose already read part was replaced by something else; None if there is none."""
        return next(iter(put_back_sources(self.storage, checkpoint, self.stream_sources(flow) or ())), None)

    def remember_sources(self, flow: GraphFlow, checkpoint: str) -> None:
        """Store what a checkpoint has read, and what the stream that starts now may read."""
        remember_sources(self.storage, checkpoint, self.stream_sources(flow) or ())

    def resume(self, flow: GraphFlow, checkpoint: str, progress: CheckpointProgress | None = None) -> tuple[str, ...]:
        """Return the starts that continue at the end of a checkpoint, with source names if there are several sources.

        Args:
            flow: the flow.
            checkpoint: the path of its checkpoint.
            progress: an earlier progress to use instead of the last one.

        Returns:
            () if a start is unknown, such as for a source that has another position in the query now.
        """
        manifest = GenerationStore(self.storage).manifest(flow.spec.target, flow.spec.name)
        current = manifest.in_state(GenerationState.CURRENT)
        if current is not None and misplaced_source(self.graph, self.store, flow, current) is not None:
            return ()
        named = self.starts.named_sources(flow)
        starts = flow_resume(self.storage, checkpoint, tuple(named.values()), progress)
        if starts is None or len(named) != len(flow_sources(self.graph, flow)):
            return ()
        if len(named) == 1:
            return tuple(starts.values())
        return tuple(f"{name}:{starts[source]}" for name, source in named.items())

    def is_drained(self, flow: GraphFlow, checkpoint: str) -> bool:
        """Whether a flow has read all current data of its sources; False if unknown."""
        if flow.spec.from_snapshots:
            return self._is_compared(flow, checkpoint)
        sources = self.stream_sources(flow)
        return sources is not None and is_drained(self.storage, checkpoint, sources) is True

    def stream_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return all streaming sources of a flow, tables of the pipeline included; None if a path is unknown."""
        return stream_sources(
            self.graph,
            flow,
            self.starts.current(flow),
            lambda read: self.starts.path_of(read.dataset, read.path),
        )

    def compared_sources(self, flow: GraphFlow) -> tuple[SourceReference, ...] | None:
        """Return the tables that a view or a snapshot flow reads; None for other reads or nondeterministic results."""
        if flow.fingerprint is None or not flow.reads:
            return None
        tables = []
        for read in flow.reads:
            dataset = self.graph.dataset(read.dataset) if read.dataset else None
            if dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW:
                continue
            path = self.starts.path_of(read.dataset, read.path)
            if path is None:
                return None
            tables.append(table_source(path))
        return tuple(dict.fromkeys(tables))

    def _is_compared(self, flow: GraphFlow, checkpoint: str) -> bool:
        """Whether the last applied snapshot equals the current source, and no later snapshot is claimed."""
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
            path = self.starts.path_of(read.dataset, read.path)
            if path is None:
                continue
            found = source_identity(self.storage, table_source(path))
            if found is None:
                return None
            parts.append(found)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def building_of(manifest: Manifest, rebuild: Rebuild | None) -> int | None:
    """Return the number of this rebuild's generation; None if the generation belongs to an earlier rebuild."""
    generation = manifest.in_state(GenerationState.BUILDING)
    if generation is None or rebuild is None or generation.fingerprint != rebuild.generation_mark:
        return None
    return generation.number
