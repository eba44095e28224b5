"""Tables that an ingestion copies twice: as their present rows and as their history, from one stream of changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from framework.declare.specs import TableConfiguration
from framework.foundation.names import QualifiedName
from framework.ingest.state import GatewayState
from framework.sources.databases.tables import TableName

DeclaredCopy = tuple[TableName, QualifiedName, TableConfiguration]


def alike_tables(declared: Sequence[DeclaredCopy]) -> frozenset[TableName]:
    """Return the tables whose several copies are not a pair of one copy of present rows and one of the history.

    Changes of a pair are staged once, so both copies must read the same columns as text.
    """
    copies: dict[TableName, list[tuple[QualifiedName, TableConfiguration]]] = defaultdict(list)
    for table, target, configuration in declared:
        copies[table].append((target, configuration))
    return frozenset(table for table, found in copies.items() if len(found) > 1 and not _is_pair(found))


def _is_pair(copies: Sequence[tuple[QualifiedName, TableConfiguration]]) -> bool:
    texts = {frozenset(each.text_columns) for _, each in copies}
    types = [each.scd_type for _, each in copies]
    return sorted(types) == [1, 2] and len({target for target, _ in copies}) == len(copies) and len(texts) == 1


def recorded_names(state: GatewayState | None, table: TableName) -> dict[QualifiedName, str]:
    """Return the recorded `copy_name` of each copy of a source table."""
    tables = () if state is None else (each.table for each in state.tables)
    return {each.target: each.copy_name for each in tables if each.source == str(table)}


def copy_names(
    declared: Sequence[DeclaredCopy], recorded: Callable[[TableName], Mapping[QualifiedName, str]]
) -> dict[tuple[TableName, QualifiedName], str]:
    """Return the `copy_name` of each copy: the recorded name; the first new copy gets the name of the source.

    A copy keeps its name when another copy joins or leaves, so that the two never exchange their states.

    Args:
        declared: the copies.
        recorded: returns the recorded names of the copies of a table.
    """
    alike, names = alike_tables(declared), dict[tuple[TableName, QualifiedName], str]()
    for table in dict.fromkeys(table for table, *_ in declared):
        targets = list(dict.fromkeys(target for each, target, _ in declared if each == table))
        known = recorded(table)
        new = [target for target in targets if target not in known]
        is_taken = any(known.get(target) == "" for target in targets)
        named = {} if table in alike else {target: str(target) for target in (new if is_taken else new[1:])}
        names |= {(table, target): known.get(target, named.get(target, "")) for target in targets}
    return names
