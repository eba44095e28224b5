"""The tables of a gateway that the modules declare now, beside those that are recorded."""

from __future__ import annotations

from dataclasses import replace

from framework.declare.specs import IngestedGateway
from framework.ingest.state import GatewayState, TableState


def refreshed(state: GatewayState | None, gateway: IngestedGateway) -> GatewayState:
    """Return the state with the tables that are declared now.

    A copy of another name has no rows yet, so a snapshot of some rows becomes one of all rows.
    """
    known = {} if state is None else {each.table.source: each for each in state.tables}
    tables = []
    for table in gateway.tables:
        before = known.pop(table.source, None)
        declared = replace(table, definition=None)
        if before is None:
            tables.append(TableState(table=declared))
            continue
        generations = before.generations
        if before.table.target != table.target:
            generations = tuple(replace(each, where=None) for each in generations)
        tables.append(replace(before, table=declared, generations=generations, is_declared=True))
    left = (replace(each, is_declared=False) for each in known.values())
    base = state or GatewayState(gateway=gateway)
    return replace(base, gateway=gateway, tables=(*tables, *left))
