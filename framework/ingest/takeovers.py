"""Snapshots of a database whose server may be replaced: which of them are right on its successor.

Positions of two servers can't be compared, and a successor may lack the last transactions of the one before. So a
snapshot is kept on another server only in one case: all its rows were read on the first one, and then its changes up to
a position after these rows, too. A successor without these changes is a gap of the log, so it has the rows. Any other
snapshot begins again.

The position is recorded by the first update after the end of the snapshot, before any flow runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_offsets, read_progress
from framework.foundation.files.storage_port import Storage
from framework.ingest.connections import gateway_facts
from framework.ingest.copy_state import ReadRows
from framework.ingest.progress import planned_basis
from framework.ingest.state import GatewayState, TableState
from framework.ingest.status import position_gap, stored_offset
from framework.sources.databases.facts import DialectFacts
from framework.sources.databases.position import Position, position_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """The current checkpoint of the snapshot of a table.

    Args:
        checkpoint: its number; 0 without one.
        log: the server on which its chunks were planned; empty before the first one, and if nothing reads the log.
        is_ended: whether no chunk of it is read any more.
    """

    checkpoint: int
    log: str
    is_ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeovers:
    """The snapshots of one gateway.

    Args:
        storage: the pipeline's storage.
        facts: of the dialect of its database.
    """

    storage: Storage
    facts: DialectFacts

    def are_open(self, state: GatewayState) -> bool:
        """Whether the rows or the position of a table count on one server only."""
        return any(self.servers(state, _found(state)))

    def proven(self, state: GatewayState) -> GatewayState:
        """Return the state in which the rows and positions are marked that the changes have passed.

        A later offset, of another server, would not show it.
        """
        if not self.facts.has_logs_of_servers:
            return state
        read = self._read(state)
        return replace(state, tables=tuple(_proven(state, each, read) for each in state.tables))

    def compared(self, state: GatewayState, end: Position) -> tuple[GatewayState, list[TableState]]:
        """Return the state with the snapshots that have ended, and the tables of other servers, to be read again.

        No table is read again while the log has a gap: its way out may lead back to that server.

        Args:
            state: the gateway, no flow of which runs.
            end: the end of the log.
        """
        state = replace(state, tables=tuple(self._recorded(each, end) for each in state.tables))
        found = [table for table, servers in self.servers(state, _found(state)) if servers != {end.log}]
        return state, [] if found and position_gap(self.storage, state) is not None else found

    def _recorded(self, table: TableState, end: Position) -> TableState:
        rows, found = table.read_rows, self._snapshot(table)
        if rows is not None and rows.checkpoint == found.checkpoint:
            return table
        is_ended = found.is_ended and found.log and found.log == end.log
        rows = ReadRows(checkpoint=found.checkpoint, log=found.log, position=end.order) if is_ended else None
        return replace(table, read_rows=rows)

    def servers(self, state: GatewayState, keys: Collection[str]) -> Iterator[tuple[TableState, set[str]]]:
        """Yield each open table among those of some keys, with the servers of its rows and of its position."""
        if not self.facts.has_logs_of_servers:
            return
        read = self._read(state)
        for table in state.tables:
            if not (table.is_declared and table.table.key in keys):
                continue
            servers, rows = set[str](), table.read_rows
            if table.current is not None and _is_open_position(state, table, read):
                servers.add(table.current.log)
            found = self._snapshot(table)
            is_known = rows is not None and rows.checkpoint == found.checkpoint
            if found.log and not (
                is_known and rows is not None and (rows.is_passed or _is_passed(rows.log, rows.position, read))
            ):
                servers.add(found.log)
            if servers:
                yield table, servers

    def _read(self, state: GatewayState) -> Position | None:
        stored = stored_offset(state, self.storage)
        return None if stored is None else position_of(stored)

    def _snapshot(self, table: TableState) -> _Snapshot:
        generations, flow = GenerationStore(self.storage), table.table.snapshot_flow
        current = generations.current(table.table.target, flow)
        if current is None:
            return _Snapshot(checkpoint=0, log="", is_ended=False)
        path = generations.path(table.table.target, flow, current.number)
        planned = read_progress(self.storage, path).last_offset_batch
        basis = None if planned is None else planned_basis(read_offsets(self.storage, path, planned))
        log = basis.source_identity if basis is not None and basis.position else ""
        return _Snapshot(checkpoint=current.number, log=log, is_ended=current.completed)


def open_servers(storage: Storage, state: GatewayState, keys: Collection[str]) -> tuple[str, ...]:
    """Return the servers that must not be replaced now: those whose tables are not proven right.

    Args:
        storage: the pipeline's storage.
        state: the gateway.
        keys: the tables that can be copied.
    """
    found = Takeovers(storage=storage, facts=gateway_facts(state.gateway)).servers(state, keys)
    return tuple(sorted({each for _, servers in found for each in servers}))


def _found(state: GatewayState) -> set[str]:
    """Return the keys of the tables that this update found, and that can be copied."""
    return {each.table.key for each in state.tables if each.table.identity}


def _proven(state: GatewayState, table: TableState, read: Position | None) -> TableState:
    begun, rows = table.current, table.read_rows
    if begun is not None and begun.log and not _is_open_position(state, table, read):
        table = replace(table, generations=(*table.generations[:-1], replace(begun, log="")))
    if rows is not None and _is_passed(rows.log, rows.position, read):
        table = replace(table, read_rows=replace(rows, is_passed=True))
    return table


def _is_open_position(state: GatewayState, table: TableState, read: Position | None) -> bool:
    """Whether the position of the newest generation counts on its own server only."""
    begun = table.current
    if begun is None or not begun.log or begun.log_generation != state.log_generation:
        return False
    return not _is_passed(begun.log, begun.position, read)


def _is_passed(log: str, position: int, read: Position | None) -> bool:
    """Whether the changes were read up to a position on its own server."""
    return read is not None and read.log == log and read.order >= position
