"""Statements that change a table of MySQL so that it can be copied."""

from __future__ import annotations

from collections.abc import Sequence

from framework.sources.databases.mendings import Mending
from framework.sources.databases.mysql.faults import quoted, table_sql
from framework.sources.databases.tables import TableName


def mending_sql(mending: Mending, table: TableName, columns: Sequence[str]) -> str:
    """Return the statement that makes a change."""
    names = [quoted(name) for name in columns]
    match mending:
        case Mending.ADD_KEY:
            change = "ADD COLUMN row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY"
        case Mending.FILL_KEY:
            change = ", ".join(f"MODIFY COLUMN {name} … NOT NULL" for name in names)
        case Mending.LOG_OTHER_KEY:
            change = f"ADD PRIMARY KEY ({', '.join(names)})"
        case Mending.STORE_NUMBERS:
            change = ", ".join(f"MODIFY COLUMN {name} BIGINT" for name in names)
        case _:
            change = f"RENAME COLUMN {names[0]} TO {quoted(f'{columns[0]}_2')}"
    return f"ALTER TABLE {table_sql(table)} {change}"
