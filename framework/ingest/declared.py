"""The tables of a gateway that the modules declare now, beside those that are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
    columns. So have those of a table that is a copy of another name meanwhile. The table is marked as missed.

    Args:
        state: the recorded state; None before the first update.
        gateway: the gateway with the tables of now.
        next_checkpoint: returns the number of the next checkpoint generation of a table's snapshot flow.
    """
    known = {} if state is None else {each.table.source: each for each in state.tables}
    copied = {each.relation for each in gateway.tables if each.relation}
    tables = []
    for table in gateway.tables:
        before = known.pop(table.source, None)
        declared = replace(table, definition=None)
        if before is None:
            tables.append(TableState(table=declared))
            continue
        if before.table.target != table.target:
            before = replace(before, generations=_in_another_copy(before.generations, next_checkpoint(table)))
        is_missed = before.is_missed or (not table.relation and before.relation in copied)
        named = table.named_partitions
        tables.append(replace(before, table=declared, is_declared=True, is_missed=is_missed, named_partitions=named))
    left = (replace(each, is_declared=False, is_missed=True) for each in known.values())
    base = state or GatewayState(gateway=gateway)
    return replace(base, gateway=gateway, tables=(*tables, *left))


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
