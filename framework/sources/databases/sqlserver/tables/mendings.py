"""The statements that change a table of SQL Server so that it can be copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework.sources.databases.mendings import Mending
from framework.sources.databases.sqlserver.names import bracket, literal, quoted
from framework.sources.databases.tables import TableName


def mending_sql(
    mending: Mending, table: TableName, columns: Sequence[str], types: Mapping[str, str] | None = None
) -> str:
    """Return the statement that makes a change.

    Args:
        mending: the change.
        table: the table.
        columns: the affected columns.
        types: the types of columns, which T-SQL repeats; `…` stands for an unknown one.
    """
    known = types or {}
    if mending is Mending.FILL_KEY:
        return "; ".join(
            f"ALTER TABLE {quoted(table)} ALTER COLUMN {bracket(name)} {known.get(name, '…')} NOT NULL"
            for name in columns
        )
    if mending is Mending.RENAME_COLUMN:
        old = literal(f"{quoted(table)}.{bracket(columns[0])}")
        return f"EXEC sp_rename {old}, {literal(f'{columns[0]}_2')}, N'COLUMN'"
    return f"ALTER TABLE {quoted(table)} ADD row_id bigint IDENTITY NOT NULL PRIMARY KEY"
