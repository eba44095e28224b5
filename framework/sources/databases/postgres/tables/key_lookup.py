"""Looks up keys in a PostgreSQL table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from framework.sources.databases.chunks import KeyColumn
from framework.sources.databases.postgres.chunks.chunk_sql import (
    base_value_sql,
    operator_sql,
    relation_sql,
    search_path_sql,
)
from framework.sources.databases.postgres.session import FLUSH_LOG, Session
from framework.sources.databases.postgres.tables.table_storage import parse_storage, storage_sql
from framework.sources.databases.tables import SourceTable, quote_identifier


def missing_keys(
    session: Session,
    table: SourceTable,
    columns: Sequence[str],
    keys: Sequence[Sequence[str]],
    as_text: Collection[str] = (),
) -> list[int]:
    """Return the indexes of the keys that the table does not have, ascending.

    A key that the copy stores as text differs if its text differs (`1.0` and `1.00`), although PostgreSQL compares the
    two as equal.

    Args:
        session: any session of the database.
        table: the table.
        columns: the names of the key's columns.
        keys: the values of each key, as PostgreSQL's text.
        as_text: the columns that the copy stores as text.

    Raises:
        SourceError: the table can't be read.
    """
    if not keys:
        return []
    storage = parse_storage(session.rows(storage_sql(table.name, columns), table=table.name)[0][0])
    known = {} if storage is None else {column.name: column for column in storage.key}
    # If the table or a column is missing, the lookup fails with a named error.
    found = [known.get(name) or KeyColumn(name=name, type_name="text") for name in columns]
    conditions = [
        condition
        for index, column in enumerate(found)
        for condition in _conditions(column, f"given.key_{index}", as_text=column.name in as_text)
    ]
    names = ", ".join(f"key_{index}" for index in range(len(columns)))
    lookup = (
        f"WITH ORDINALITY AS given({names}, number) WHERE NOT EXISTS ("
        f"SELECT FROM {relation_sql(table.name, partitioned=table.is_partitioned)} AS present "
        f"WHERE {' AND '.join(conditions)}) ORDER BY 1"
    )
    # Both statements are one transaction. A name may contain a percent sign, which psycopg2 takes for a parameter.
    path = search_path_sql(column.operator_schema for column in found).replace("%", "%%")
    lookup = lookup.replace("%", "%%")
    arrays = ", ".join(["%s::text[]"] * len(columns))
    values = [[key[index] for key in keys] for index in range(len(columns))]
    query = f"{path}; SELECT given.number FROM unnest({arrays}) {lookup}"
    missing = [row[0] - 1 for row in session.rows(query, values, table=table.name)]
    session.rows(FLUSH_LOG)  # a crash of the server may restore a deleted row, and no change would remove it
    return missing


def _conditions(column: KeyColumn, text: str, *, as_text: bool) -> list[str]:
    """Return the conditions under which a row's column has the value of a text.

    The comparison is the same as in the index of the key, with the cast on the given text, so that the index is used.
    """
    present, given = f"present.{quote_identifier(column.name)}", f"{text}::{column.type_name}"
    collation = f" COLLATE {column.collation}" if column.collation else ""
    value = base_value_sql(present, column.type_name)
    same = [f"{value}{collation} {operator_sql('=', [column.operator_schema])} {given}"]
    if as_text:
        same.append(f'pg_catalog.concat({present}) COLLATE "C" = pg_catalog.concat({given}) COLLATE "C"')
    return same
