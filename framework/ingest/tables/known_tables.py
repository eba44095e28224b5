"""Facts that earlier updates recorded about the tables of an ingestion, from its state and its checkpoints."""

from __future__ import annotations

from framework.checkpoints.generations import GenerationState, GenerationStore
from framework.checkpoints.offsets import read_offsets, read_progress
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.ingest.confirmation import is_rebuild_open, pending_request
from framework.ingest.copy_state import CopyState
from framework.ingest.names import snapshot_flow_name
from framework.ingest.progress import planned_basis
from framework.ingest.state import GatewayState, GatewayStore, copy_elsewhere
from framework.sources.databases.chunks import PlanBasis
from framework.sources.databases.source_session import KnownTable
from framework.sources.databases.tables import TableName


def known_table(
    storage: Storage, gateway: str, changes: QualifiedName, table: TableName, target: QualifiedName, *, key: str
) -> KnownTable | None:
    """Return the recorded facts about the table of a copy; None if an operator requested a new snapshot of all rows.

    Such a snapshot publishes the table again before it reads a chunk. A snapshot of some rows ends only a gap of the
    rows that its condition selects.

    Args:
        storage: the pipeline's storage.
        gateway: the name of the ingestion.
        changes: the table of its changes.
        table: the source table.
        target: the copy.
        key: the key of the copy in states and requests.
    """
    pending = pending_request(storage, gateway, key)
    if pending is not None and pending.where is None:
        return None
    state = GatewayStore(storage).read(gateway)
    found = None if state is None else state.table(key)
    least = 0 if found is None or found.current is None else found.current.checkpoint
    copy = recorded_copy(storage, state, gateway, target)
    is_other = copy is not None and (copy.definition.gateway, copy.definition.source) != (gateway, str(table))
    # If the copy has the rows of another table or ingestion, its batches are no evidence for this table.
    planned = None if is_other else _planned(storage, target, snapshot_flow_name(target), least)
    staged = _planned(storage, changes, changes)
    if found is None or (planned is None and staged is None):
        # Neither its rows nor the log were read: any table of this name is accepted.
        return KnownTable(is_begun=planned is not None)
    basis = planned_basis(planned or ())
    return KnownTable(
        is_begun=planned is not None,
        continuity=found.continuity,
        planned="" if basis is None else basis.continuity,
        accepted="" if pending is None else pending.accepted,
        is_missed=found.is_missed,
        position=next(iter(staged or ()), ""),
    )


def is_copied(storage: Storage, target: QualifiedName) -> bool:
    """Whether a dataset is the copy of a table that an ingestion had in its last update."""
    return any(target == each.target for state in GatewayStore(storage).read_all() for each in state.gateway.tables)


def recorded_copy(
    storage: Storage, state: GatewayState | None, gateway: str, target: QualifiedName
) -> CopyState | None:
    """Return how the rows of a copy were made, by this ingestion or by another one; None for a new copy."""
    own = None if state is None else state.copy(target)
    return own or copy_elsewhere(GatewayStore(storage), target, gateway)


def recorded_reader(storage: Storage, gateway: str) -> str:
    """Return the storage that reads the log of an ingestion, see `ensure_position`; empty before the first update."""
    state = GatewayStore(storage).read(gateway)
    return "" if state is None else state.reader


def begun_snapshots(storage: Storage, state: GatewayState) -> tuple[PlanBasis, ...]:
    """Return the snapshots that began before the log was read: it must begin where the first of them has begun.

    Snapshots of a copy that came from another ingestion are left out: their positions belong to another log.
    """
    changes = state.gateway.changes
    is_rebuilt = GenerationStore(storage).manifest(changes, changes).in_state(GenerationState.BUILDING) is not None
    if is_rebuilt or _planned(storage, changes, changes) is not None:
        return ()
    copies = ((each, state.copy(each.target)) for each in state.gateway.tables)
    own = (each for each, copy in copies if copy is not None and not is_rebuild_open(storage, copy))
    begun = (planned_basis(_planned(storage, each.target, each.snapshot_flow) or ()) for each in own)
    return tuple(basis for basis in begun if basis is not None and basis.position)


def _planned(storage: Storage, target: QualifiedName, flow: QualifiedName, least: int = 0) -> tuple[str, ...] | None:
    """Return the offsets of the last planned micro-batch of a flow; None before the first one.

    Checkpoint generations below `least` belong to an earlier snapshot.
    """
    generations = GenerationStore(storage)
    current = generations.current(target, flow)
    if current is None or current.number < least:
        return None
    path = generations.path(target, flow, current.number)
    batch = read_progress(storage, path).last_offset_batch
    return None if batch is None else read_offsets(storage, path, batch)
