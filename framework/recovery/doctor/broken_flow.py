"""A broken flow, with all data from which its ways out are computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from framework.checkpoints.damage import Damage, inspect_checkpoint
from framework.checkpoints.generations import Generation, GenerationStore, Manifest
from framework.checkpoints.manifest import GenerationState
from framework.checkpoints.offsets import CheckpointProgress, read_progress
from framework.checkpoints.roll_back import written_since
from framework.declare.specs import DatasetKind, IngestedGateway, IngestedTable
from framework.foundation.clock import milliseconds
from framework.foundation.errors import SluiceError
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.ingest.state import GatewayStore, Mode
from framework.plan.state import FlowState
from framework.record.events import EventType
from framework.record.reader import read_events
from framework.recovery.doctor.amounts import NONE, unknown
from framework.recovery.doctor.extent import Extent, committed_rows, measure, unknown_extent
from framework.run.flows.state.state_reader import StateReader
from framework.run.flows.state.trusted_positions import trusted_progress
from framework.sources.delta.history import CommitHistory, batches_in

_LAST_BATCHES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneCommits:
    """Commits of a flow whose rows were removed from its table by a manual RESTORE.

    Args:
        restore: the version of the latest RESTORE that undid commits of the flow.
        restored: the version that this RESTORE restored.
        time_ms: the last time at which `restored` was the newest version, in epoch milliseconds.
        batches: the ids of the undone batches of the current checkpoint, ascending.
        is_refreshed: whether the full refresh that created the current checkpoint was undone.
        replays: the number of undone replays of quarantined rows.
    """

    restore: int
    restored: int
    time_ms: int
    batches: tuple[int, ...] = ()
    is_refreshed: bool = False
    replays: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BrokenFlow:
    """A flow with a fault.

    Args:
        graph: the pipeline's graph.
        dataset: the flow's target.
        flow: the flow.
        states: reads the state of flows.
        state: the state of its checkpoint.
        condition: the condition of its fault; empty if it has none.
        cause: the first cause.
        remedy: the remedy in the error.
        damages: the damages of its checkpoint.
        undone: the commits that a manual RESTORE undid; None if this is not its fault.
    """

    graph: DataflowGraph
    dataset: GraphDataset
    flow: GraphFlow
    states: StateReader
    state: FlowState
    condition: str = ""
    cause: str = ""
    remedy: str = ""
    damages: tuple[Damage, ...] = ()
    undone: UndoneCommits | None = None

    @property
    def manifest(self) -> Manifest:
        """The generations of the flow's checkpoint."""
        return self._generations.manifest(self.dataset.name, self.flow.spec.name)

    @property
    def begun_ms(self) -> tuple[int, ...]:
        """When each generation began, of all flows that ever wrote to the target, in epoch milliseconds."""
        manifests = self._generations.list_of(self.dataset.name)
        return tuple(milliseconds(each.begun_at) for manifest in manifests for each in manifest.generations)

    @property
    def current(self) -> Generation | None:
        """The generation that the next update continues; None before the first."""
        return self.manifest.in_state(GenerationState.CURRENT)

    @property
    def checkpoint(self) -> str | None:
        """The path of the current checkpoint; None before the first."""
        return None if self.current is None else self.path_of(self.current)

    def path_of(self, generation: Generation) -> str:
        """Return the path of a generation's checkpoint."""
        return self._generations.path(self.dataset.name, self.flow.spec.name, generation.number)

    @property
    def has_checkpoint(self) -> bool:
        """Whether the flow has a checkpoint that can be reset."""
        kept = self.dataset.is_sink or self.dataset.kind is DatasetKind.STREAMING_TABLE
        return kept and self.flow.streaming and self.current is not None

    @property
    def is_idempotent(self) -> bool:
        """Whether reading rows again leaves the target unchanged."""
        return self.dataset.cdc is not None

    @property
    def progress(self) -> CheckpointProgress | None:
        """The trusted progress: up to the last batch whose end offsets are known; None if there is none."""
        if self.checkpoint is None:
            return None
        return trusted_progress(self.states.storage, self.checkpoint, self.damages, self.current_query)

    @property
    def current_query(self) -> str:
        """The query id of the current checkpoint, from the manifest; empty if it has none."""
        return "" if self.current is None else self.current.query

    @property
    def has_open_batch(self) -> bool:
        """Whether the target may have rows of a batch that the checkpoint has not committed.

        The log of a Delta table has the transaction of each batch, so the result is exact; other targets may have rows.
        """
        if self.checkpoint is None:
            return False
        stored, committed = read_progress(self.states.storage, self.checkpoint), self._last_trusted
        planned = stored.last_offset_batch
        if planned is None or planned <= committed:
            return self.state.deleted
        query = stored.query_id or self.current_query
        if self.dataset.kind is not DatasetKind.STREAMING_TABLE or not query:
            return True
        history = CommitHistory(self.states.storage, self.states.store.path(self.dataset.spec))
        return bool(history.versions) and history.may_have(query, committed)

    def rows_of_open_batches(self) -> int | None:
        """Return the number of rows in the target of batches after the position; None if unknown.

        Each append commit has the transaction of its batch, and the row counts of its files.
        """
        if self.checkpoint is None or self.dataset.kind is not DatasetKind.STREAMING_TABLE:
            return None
        query = read_progress(self.states.storage, self.checkpoint).query_id or self.current_query
        path, after = self.states.store.path(self.dataset.spec), self._last_trusted
        history = CommitHistory(self.states.storage, path)
        taken = {version: history.commit(version).batches.get(query, -1) for version in history.versions}
        versions = [version for version, batch in taken.items() if batch > after]
        is_whole = history.versions[:1] == [0] or any(0 <= batch <= after for batch in taken.values())
        if not query or not versions or not is_whole:
            return None
        commits = committed_rows(self.states.storage, path, versions[0])
        rows = [commits[version].added if version in commits else None for version in versions]
        return None if None in rows else sum(each or 0 for each in rows)

    @property
    def _last_trusted(self) -> int:
        """The last batch up to which the position can be trusted; -1 if there is none."""
        assert self.checkpoint is not None
        stored = read_progress(self.states.storage, self.checkpoint)
        batch = (self.progress or stored).last_commit_batch
        return -1 if batch is None else batch

    def extent(self) -> Extent:
        """Return the row counts of the flow's sources, as far as they are known."""
        return self.extent_of(self.flow, self.checkpoint, self.progress)

    def extent_of(self, flow: GraphFlow, checkpoint: str | None, progress: CheckpointProgress | None) -> Extent:
        """Return the row counts of the sources of a flow into the target, at the position of a checkpoint."""
        if self.dataset.kind is DatasetKind.MATERIALIZED_VIEW:
            return Extent(held=unknown(f"the rows that {flow.spec.name} reads"), read=NONE, gone=NONE)
        if not flow.streaming:  # a once flow over a batch, or snapshots
            return unknown_extent(f"what {flow.spec.name} wrote and its source no longer has")
        sources = self.states.stream_sources(flow)
        if checkpoint is None or sources is None:
            return unknown_extent("the flow has no position")
        try:
            return measure(self.states.storage, checkpoint, sources, progress)
        except SluiceError as error:  # a list of files in the checkpoint is damaged
            return unknown_extent(error.what)

    def extent_of_target(self) -> Extent:
        """Return the row counts of the sources of all flows into the target, which a full refresh reads."""
        flows = [each for each in self.graph.flows_into(self.dataset.name) if each is not self.flow]
        return reduce(Extent.plus, (self._extent_of_other(each) for each in flows), self.extent())

    def _extent_of_other(self, flow: GraphFlow) -> Extent:
        current = self._generations.current(self.dataset.name, flow.spec.name)
        path = None if current is None else self._generations.path(self.dataset.name, flow.spec.name, current.number)
        return self.extent_of(flow, path, None)

    def is_sound(self, generation: Generation) -> bool:
        """Whether a kept generation has a position and no damage."""
        path, storage = self.path_of(generation), self.states.storage
        return bool(read_progress(storage, path).sources) and not inspect_checkpoint(storage, path)

    def was_read_since(self, kept: Generation) -> bool:
        """Whether other generations may have written rows to the target after `kept` was current."""
        path = self.states.store.path(self.dataset.spec) if self.dataset.is_table else None
        storage = self.states.storage
        return bool(written_since(storage, self.manifest, kept, batches_in(storage, path)))

    def state_rows(self) -> int | None:
        """Return the rows in the flow's state after its last batch, from the event log; None if it is not recorded."""
        name = str(self.flow.spec.name)
        events = read_events(self.states.storage, type=EventType.STREAM_PROGRESS, last=_LAST_BATCHES)
        last = next((event for event in reversed(events) if event.origin.flow_name == name), None)
        if last is None:
            return None
        progress = last.details.get(str(EventType.STREAM_PROGRESS), {}).get("progress", {})
        rows = [operator.get("numRowsTotal") for operator in progress.get("state_operators", ())]
        return sum(rows) if rows and all(isinstance(each, int) for each in rows) else None

    def ingested(self) -> tuple[IngestedGateway, IngestedTable | None] | None:
        """Return the flow's gateway, and its table or None if it stages changes; None for other flows."""
        for state in GatewayStore(self.states.storage).read_all():
            gateway = state.gateway
            if self.flow.spec.name == gateway.changes:
                return gateway, None
            for table in gateway.tables:
                if self.flow.spec.name in (table.snapshot_flow, table.cdc_flow):
                    return gateway, table
        return None

    @property
    def is_skipped(self) -> bool:
        """Whether the flow has nothing to do because an operator skips its snapshot."""
        gateway, table = self.ingested() or (None, None)
        if gateway is None or table is None:
            return False
        return GatewayStore(self.states.storage).request(gateway.name, table.key).mode is Mode.SKIPPED

    @property
    def _generations(self) -> GenerationStore:
        return GenerationStore(self.states.storage)
