"""Encoders of the values in the log, by the oid of the type in the relation message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from framework.sources.databases.postgres.log.changes import Fragment
from framework.sources.databases.postgres.log.pgoutput import RelationColumn
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.values.types import column_type
from framework.sources.databases.tables import SourceColumn, TableName

# A domain is resolved to its base type, an array to its element type, as in `catalog`.
_TYPE_NAME = """
    WITH RECURSIVE resolved AS (
        SELECT %s::bigint::oid AS type, %s::int AS modifier, 0 AS dims, 0 AS depth
        UNION ALL
        SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
               CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE r.modifier END,
               r.dims + CASE t.typtype WHEN 'd' THEN 0 ELSE 1 END,
               r.depth + 1
        FROM resolved AS r
        JOIN pg_type AS t ON t.oid = r.type
        WHERE t.typtype = 'd' OR t.typoutput = 'pg_catalog.array_out'::regproc
    )
    SELECT CASE t.typnamespace
               WHEN 'pg_catalog'::regnamespace THEN regexp_replace(format_type(t.oid, f.modifier), '^pg_catalog\\.', '')
               ELSE quote_ident(n.nspname) || '.' || quote_ident(t.typname)
           END || repeat('[]', f.dims)
    FROM resolved AS f
    JOIN pg_type AS t ON t.oid = f.type
    JOIN pg_namespace AS n ON n.oid = t.typnamespace
    ORDER BY f.depth DESC
    LIMIT 1
"""


class LogTypes:
    """A `FragmentFactory` with the types of the database.

    Args:
        session: returns the session for queries.
        text_columns: columns by table that are read as text (option `textColumns`).
    """

    def __init__(
        self, session: Callable[[], Session], text_columns: Mapping[TableName, Collection[str]] | None = None
    ) -> None:
        self._session = session
        self._text_columns = text_columns or {}
        self._names: dict[tuple[int, int], str] = {}

    def __call__(self, table: TableName, column: RelationColumn) -> Fragment:
        """Return the encoder of a column; a type that was dropped since is encoded as text, like any unknown type."""
        key = (column.type_oid, column.type_modifier)
        if key not in self._names:
            found = self._session().rows(_TYPE_NAME, key)
            self._names[key] = found[0][0] if found else "unknown"
        source = SourceColumn(name=column.name, type_name=self._names[key], nullable=True)
        as_text = column.name in self._text_columns.get(table, ())
        return column_type(table, source, as_text=as_text).json_fragment
