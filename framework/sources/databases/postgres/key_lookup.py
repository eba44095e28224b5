"""Looks up keys in a PostgreSQL table."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import sql

from framework.sources.databases.postgres.session import Session
from framework.sources.databases.tables import SourceTable


def missing_keys(
    session: Session, table: SourceTable, columns: Sequence[str], keys: Sequence[Sequence[str]]
) -> list[int]:
    """Return the indexes of the keys that the table does not have, ascending.

    Args:
        session: any session of the database.
        table: the table.
        columns: the names of the key's columns.
        keys: the values of each key, as PostgreSQL's text.

    Raises:
        SourceError: the table can't be read.
    """
    if not keys:
        return []
    names = [sql.Identifier(f"key_{index}") for index in range(len(columns))]
    given = sql.SQL(", ").join(sql.SQL("%s::text[]") for _ in columns)
    # The cast is on the given side, so that the index of the key serves.
    same = sql.SQL(" AND ").join(
        sql.SQL("present.{} = given.{}::{}").format(
            sql.Identifier(column), name, sql.SQL(table.column(column).type_name.replace("%", "%%"))
        )
        for column, name in zip(columns, names, strict=True)
    )
    query = sql.SQL(
        "SELECT given.number FROM unnest({}) WITH ORDINALITY AS given({}, number) "
        "WHERE NOT EXISTS (SELECT FROM {} {} AS present WHERE {}) ORDER BY 1"
    ).format(
        given,
        sql.SQL(", ").join(names),
        sql.SQL("" if table.is_partitioned else "ONLY"),
        sql.SQL(table.name.quoted.replace("%", "%%")),
        same,
    )
    values = [[key[index] for key in keys] for index in range(len(columns))]
    return [row[0] - 1 for row in session.rows(query, values, table=table.name)]
