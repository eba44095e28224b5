"""The options of the stream of changes that identify the tables and the rows of a gateway.

Changes are staged in the recorded form, regardless of what the pipeline code declares now: the changes of a held copy
are applied after the hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from framework.ingest.connections import gateway_dialect, source_name
from framework.ingest.state import GatewayState, TableState
from framework.ingest.tables.copies import Copy
from framework.sources.databases.tables import quote_identifier

if TYPE_CHECKING:
    from framework.declare.copy_definition import StagedForm


def log_relations(state: GatewayState, copies: Sequence[Copy]) -> dict[str, str]:
    """Return the options with the tables of a gateway, their keys, and the recorded facts about them.

    Args:
        state: the gateway.
        copies: the copies of this update.
    """
    declared = [each for each in state.tables if each.identity and each.is_declared]
    staged: dict[tuple[str, str], StagedForm] = {}
    for each in sorted(state.tables, key=lambda each: not each.is_missed):  # a missed table prescribes no form
        if each.is_declared and each.staged is not None:
            # A table that has a history, too, is staged for both copies as for the history.
            other = staged.get(_name(each), each.staged)
            staged[_name(each)] = replace(each.staged, is_history=other.is_history or each.staged.is_history)
    known = {source_name(each.table): each.continuity for each in declared if each.continuity}
    options: dict[str, Sequence[tuple[object, ...]]] = {
        # A table that was renamed may be a copy of its new name, while the copy of the old name has failed.
        "identities": [
            *((*_name(each), each.identity) for each in declared),
            *((copy.table.schema, copy.table.table, copy.identity) for copy in copies if copy.identity),
        ],
        **(gateway_dialect(state.gateway).continuity_options(known) if known else {}),
        # If the key or the replica identity of a table has changed, the copy can't apply its changes.
        "keys": [(*name, column) for name, form in staged.items() for column in form.keys],
        "textColumns": [(*name, column) for name, form in staged.items() for column in form.text_columns],
        "historyTables": [name for name, form in staged.items() if form.is_history],
    }
    return {
        option: ",".join(".".join(quote_identifier(str(part)) for part in each) for each in listed)
        for option, listed in options.items()
    }


def _name(state: TableState) -> tuple[str, str]:
    return state.table.source_schema, state.table.source_table
