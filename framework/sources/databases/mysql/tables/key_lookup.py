"""Looks up keys in a table of MySQL or MariaDB."""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Collection, Sequence

from framework.sources.databases.chunks import KeyColumn
from framework.sources.databases.mysql.chunks.chunk_sql import is_text_type, literal
from framework.sources.databases.mysql.faults import quoted, table_sql
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.values.type_names import is_enumeration
from framework.sources.databases.mysql.values.types import column_type
from framework.sources.databases.tables import SourceColumn, SourceTable

_KEYS_AT_ONCE = 200
_ZONE = re.compile(r"\+00$")


def missing_keys(
    session: Session,
    table: SourceTable,
    columns: Sequence[str],
    keys: Sequence[Sequence[str]],
    as_text: Collection[str] = (),
) -> list[int]:
    """Return the indexes of the keys that the table does not have, ascending.

    Texts must be the same, also where the collation of the key takes others as equal (`A` and `a`): for Spark they are
    different keys.

    Args:
        session: any session of the database.
        table: the table.
        columns: the names of the key's columns.
        keys: the values of each key, as text.
        as_text: the columns that the copy stores as text.

    Raises:
        SourceError: the table can't be read.
    """
    known = {column.name: column for column in table.columns}
    # If a column is missing, the lookup fails with a named error.
    found = [known.get(name) or SourceColumn(name=name, type_name="varchar", nullable=True) for name in columns]
    missing: list[int] = []
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        lookups = [
            f"SELECT {number} FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {table_sql(table.name)} WHERE {condition})"
            for number, condition in enumerate(
                (_condition(table, found, key, as_text) for key in keys[first : first + _KEYS_AT_ONCE]), first
            )
        ]
        missing += [int(row[0]) for row in session.rows(" UNION ALL ".join(lookups), table=table.name)]
    return sorted(missing)


def _condition(
    table: SourceTable, columns: Sequence[SourceColumn], key: Sequence[str], as_text: Collection[str]
) -> str:
    return " AND ".join(
        _equals(table, column, text, as_text=column.name in as_text) for column, text in zip(columns, key, strict=True)
    )


def _equals(table: SourceTable, column: SourceColumn, text: str, *, as_text: bool) -> str:
    """Return the condition under which a row has a value in a column."""
    name, kind = quoted(column.name), column_type(table.name, column)
    bytes_of_text = f"_utf8mb4 X'{text.encode().hex()}'"
    if kind.spark_type == "BINARY":
        data = b64decode(text) if as_text else bytes.fromhex(text.removeprefix("\\x"))
        return f"{name} = X'{data.hex()}'"
    if kind.spark_type == "BOOLEAN":
        return f"{name} = {int(text == 'true')}"
    if is_text_type(column.type_name) or is_enumeration(column.type_name):
        # The first one uses the index; the second one compares bytes.
        same = f"HEX(CAST({name} AS CHAR CHARACTER SET utf8mb4)) = HEX({bytes_of_text})"
        return f"{name} = {bytes_of_text} AND {same}"
    if kind.spark_type == "FLOAT":
        # As a DOUBLE, like the value of the column.
        single = struct.unpack("<f", struct.pack("<f", float(text)))[0]
        return f"{name} + 0e0 = {literal(repr(single), KeyColumn(name=column.name, type_name='double'))}"
    if as_text or kind.spark_type == "STRING":
        return f"CAST({name} AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin = {bytes_of_text}"
    return f"{name} = {literal(_ZONE.sub('', text), KeyColumn(name=column.name, type_name=column.type_name))}"
