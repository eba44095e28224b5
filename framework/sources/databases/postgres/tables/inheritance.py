"""Tables from which others inherit, by `INHERITS`: their copies have their own rows only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.sources.databases.tables import TableName

if TYPE_CHECKING:
    from framework.sources.databases.postgres.session import Session

_CHILDREN = """
    SELECT n.nspname, c.relname,
           array_agg(format('%%I.%%I', cn.nspname, child.relname) ORDER BY cn.nspname, child.relname)
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhparent
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_class AS child ON child.oid = i.inhrelid
    JOIN pg_namespace AS cn ON cn.oid = child.relnamespace
    WHERE c.relkind = 'r' AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    GROUP BY n.nspname, c.relname
"""


def read_children(session: Session, names: Sequence[TableName]) -> dict[TableName, tuple[str, ...]]:
    """Return the tables that inherit from tables, as SQL writes their names, by those that have any.

    Raises:
        SourceError: the server gives no answer.
    """
    rows = session.rows(_CHILDREN, [[name.schema for name in names], [name.table for name in names]])
    return {TableName(schema=schema, table=table): tuple(children) for schema, table, children in rows}
