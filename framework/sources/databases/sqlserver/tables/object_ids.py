"""The object ids of tables."""

from __future__ import annotations

from collections.abc import Sequence

from framework.foundation.errors import SourceError
from framework.sources.databases.sqlserver.names import marks, quoted
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.tables import TableName

_IDS = (
    "SELECT s.name, t.name, t.object_id FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
    "WHERE s.name IN ({0})"
)


def find_object_ids(session: Session, names: Sequence[TableName]) -> dict[TableName, int]:
    """Return the object ids of the tables that exist.

    Raises:
        SourceError: the database can't be read.
    """
    schemas = sorted({name.schema for name in names})
    rows = session.rows(_IDS.format(marks(len(schemas))), schemas) if schemas else []
    found = {TableName(schema=schema, table=table): number for schema, table, number in rows}
    return {name: found[name] for name in names if name in found}


def read_object_ids(session: Session, names: Sequence[TableName]) -> dict[TableName, int]:
    """Return the object ids of tables.

    Raises:
        SourceError: DATABASE_TABLE_MISSING, or the database can't be read.
    """
    found = find_object_ids(session, names)
    for name in names:
        if name not in found:
            cause = f"Invalid object name {quoted(name)}."
            raise SourceError("DATABASE_TABLE_MISSING", table=name, address=session.connection.address, cause=cause)
    return found
