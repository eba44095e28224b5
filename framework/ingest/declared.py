"""The tables of a gateway that the modules declare now, beside those that are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from framework.declare.copy_definition import StagedForm
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.ingest.state import GatewayState, SnapshotGeneration, TableState


def refreshed(
    state: GatewayState | None,
    gateway: IngestedGateway,
    *,
    next_checkpoint: Callable[[IngestedTable], int] = lambda _: 1,
) -> GatewayState:
    """Return the state with the tables that are declared now.

    Changes that an update stages without a table among the declared ones have none of its names, keys, partitions and
    columns. So have those of a table that is a copy of another name meanwhile. Those that are staged for another copy
    have another form, unless its key, text columns and SCD type are the same. The table is marked as missed.

    Args:
        state: the recorded state; None before the first update.
        gateway: the gateway with the tables of now.
        next_checkpoint: returns the number of the next checkpoint generation of a table's snapshot flow.
    """
    base = state or GatewayState(gateway=gateway)
    known = {} if state is None else {each.table.source: each for each in state.tables}
    copied = {each.relation for each in gateway.tables if each.relation}
    tables = []
    for table in _each_once(gateway.tables, known):
        before = known.pop(table.source, None)
        declared = replace(table, definition=None)
        if before is None:
            tables.append(TableState(table=declared, staged=_staged(base, table)))
            continue
        was_staged = before.staged or _recorded(base, before.table)
        staged = _staged(base, table) or was_staged
        if before.table.target != table.target:
            before = replace(before, generations=_in_another_copy(before.generations, next_checkpoint(table)))
        is_missed = before.is_missed or (not table.relation and before.relation in copied)
        is_missed = is_missed or (was_staged is not None and staged != was_staged)
        known_now = replace(before, table=declared, is_declared=True, is_missed=is_missed, staged=staged)
        tables.append(replace(known_now, named_partitions=table.named_partitions))
    left = (replace(each, is_declared=False, is_missed=True) for each in known.values())
    return replace(base, gateway=gateway, tables=(*tables, *left))


def _each_once(tables: Sequence[IngestedTable], known: Mapping[str, TableState]) -> tuple[IngestedTable, ...]:
    """Return the tables, one that is declared twice with the copy that it had, if it is one of both."""
    found: dict[str, IngestedTable] = {}
    for table in tables:
        before = known.get(table.source)
        if table.source not in found or (before is not None and before.table.target == table.target):
            found[table.source] = table
    return tuple(found.values())


def _staged(state: GatewayState, table: IngestedTable) -> StagedForm | None:
    """Return how changes are staged now: for the rows that the copy has, also if they have to be replaced.

    None for a table with a fault: its changes are staged as before.
    """
    if table.definition is None:
        return None
    return _recorded(state, table) or table.definition.staged


def _recorded(state: GatewayState, table: IngestedTable) -> StagedForm | None:
    """Return how changes are staged that the recorded rows of a copy follow; None if it has none of its table."""
    copy = state.copy(table.target)
    return copy.definition.staged if copy is not None and copy.definition.source == table.source else None


def _in_another_copy(generations: tuple[SnapshotGeneration, ...], checkpoint: int) -> tuple[SnapshotGeneration, ...]:
    """Return the generations of a table whose copy has another name: all rows are read into it.

    The other copy has no rows yet, or those of the time when it had the name before. So it begins a checkpoint of its
    own, and needs no empty table; the changes before a rebuild are still passed over.
    """
    whole = [
        replace(each, where=None, is_rebuild=False, skips_earlier=each.skips_earlier or each.is_rebuild)
        for each in generations
    ]
    if whole:
        whole[-1] = replace(whole[-1], checkpoint=checkpoint)
    return tuple(whole)
