"""The options of the stream of changes that say what identifies the tables, partitions and rows of a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.ingest.copies import Copy
from framework.ingest.state import GatewayState, TableState
from framework.sources.databases.tables import quote_identifier

if TYPE_CHECKING:
    from framework.sources.databases.postgres.partitions import Partitions


def log_relations(state: GatewayState, copies: Sequence[Copy]) -> dict[str, str]:
    """Return the options with the tables of a gateway, their keys, and their partitions as they were compared last.

    Args:
        state: the gateway.
        copies: the copies of this update.
    """
    declared = [each for each in state.tables if each.relation and each.is_declared]
    compared = {_name(each): _partitions(each.partitions) for each in declared if each.partitions}
    options: dict[str, list[tuple[str, str, object]]] = {
        # A table that was renamed may be a copy of its new name, while the copy of the old name has failed.
        "relations": [
            *((*_name(each), each.relation) for each in declared),
            *((copy.table.schema, copy.table.table, copy.relation) for copy in copies if copy.relation),
        ],
        "partitions": [(*name, oid) for name, found in compared.items() for oid in found.files],
        "emptyPartitions": [(*name, oid) for name, found in compared.items() for oid in found.empty],
        "partitionsSince": [(*name, found.oldest) for name, found in compared.items()],
        # A table whose key or replica identity is another one at present has changes that a copy can't apply.
        "keys": [(*table, column) for table, keys in _keys(state, copies).items() for column in keys],
    }
    return {
        option: ",".join(".".join(quote_identifier(str(part)) for part in each) for each in listed)
        for option, listed in options.items()
    }


def _keys(state: GatewayState, copies: Sequence[Copy]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The keys of the copies by their source tables, as they were recorded: those that their rows have."""
    keys = {(copy.table.schema, copy.table.table): copy.keys for copy in copies}
    for each in state.tables:
        recorded = state.copy(each.table.target)
        if each.is_declared and recorded is not None and recorded.definition.source == each.table.source:
            keys[_name(each)] = recorded.definition.keys
    return keys


def _name(state: TableState) -> tuple[str, str]:
    return state.table.source_schema, state.table.source_table


def _partitions(text: str) -> Partitions:
    from framework.sources.databases.postgres.partitions import Partitions

    return Partitions.from_json(text)
