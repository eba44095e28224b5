"""The statements that change a table of PostgreSQL so that it can be copied, and columns that can't be in its key."""

from __future__ import annotations

from collections.abc import Sequence

from framework.sources.databases.mendings import Mending
from framework.sources.databases.postgres.values.object_names import NAMED_OBJECT_TYPES
from framework.sources.databases.tables import SourceTable, TableName, quote_identifier


def mending_sql(mending: Mending, table: TableName, columns: Sequence[str]) -> str:
    """Return the statement that makes a change."""
    names = [quote_identifier(name) for name in columns]
    match mending:
        case Mending.ADD_KEY:
            change = "ADD COLUMN row_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        case Mending.FILL_KEY:
            change = ", ".join(f"ALTER COLUMN {name} SET NOT NULL" for name in names)
        case Mending.LOG_OTHER_KEY:
            change = "REPLICA IDENTITY USING INDEX …"
        case Mending.STORE_NUMBERS:
            change = ", ".join(f"ALTER COLUMN {name} TYPE oid" for name in names)
        case _:
            change = f"RENAME COLUMN {names[0]} TO {quote_identifier(f'{columns[0]}_2')}"
    return f"ALTER TABLE {table.quoted} {change}"


def unstable_columns(table: SourceTable) -> tuple[str, ...]:
    """Return the columns whose text is the present name of an object."""
    return tuple(column.name for column in table.columns if column.type_name in NAMED_OBJECT_TYPES)
