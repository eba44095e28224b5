"""Looks up keys of a copy in the source table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from framework.sources.databases.sqlserver.names import bracket, quoted
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.tables.catalog import read_collations
from framework.sources.databases.sqlserver.values.types import value_expression
from framework.sources.databases.tables import SourceTable

_KEYS_OF_STATEMENT = 200


def missing_keys(
    session: Session,
    table: SourceTable,
    columns: Sequence[str],
    keys: Sequence[Sequence[str]],
    as_text: Collection[str],
) -> list[int]:
    """Return the indexes of the keys that a table does not have, ascending.

    Raises:
        SourceError: the database can't be read.
    """
    del as_text  # the text of a value is the same for both
    collations = read_collations(session, table.name)
    condition = " AND ".join(
        f"{bracket(name)} = {value_expression(table.column(name).type_name, collations.get(name))}" for name in columns
    )
    branch = f"SELECT ? AS place WHERE EXISTS (SELECT 1 FROM {quoted(table.name)} WHERE {condition})"
    found: set[int] = set()
    for first in range(0, len(keys), _KEYS_OF_STATEMENT):
        part = range(first, min(first + _KEYS_OF_STATEMENT, len(keys)))
        values: list[str | int | bytes] = []
        for place in part:
            values += [place, *keys[place]]
        query = " UNION ALL ".join([branch] * len(part))
        found |= {place for (place,) in session.rows(query, values, table=table.name)}
    return [place for place in range(len(keys)) if place not in found]
