"""SQL of chunks on MySQL and MariaDB: bounds as literals, the condition of a chunk, the walk to the next bound.

Keys are compared by the column's own collation, and never as row values: for these, both servers scan the whole index.
A bound of a text is the bytes that are stored, so no conversion between character sets can change it.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.sources.databases.chunks import Bound, Chunk, ChunkKind, KeyColumn
from framework.sources.databases.mysql.faults import quoted, table_sql
from framework.sources.databases.mysql.tables.catalog import CatalogTable
from framework.sources.databases.mysql.values.type_names import is_enumeration
from framework.sources.databases.tables import TableName

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_TEXTS = ("char", "varchar", "text")
_BYTES = ("binary", "varbinary", "blob")
_FLOATS = ("float", "double")


def key_columns(table: CatalogTable) -> tuple[KeyColumn, ...]:
    """Return the columns of the key with what decides their order; () if chunks can't be ranges of it."""
    if table.index is None or not table.index.is_ordered:
        return ()
    columns = []
    for name in table.source.key:
        column = table.source.column(name)
        charset, collation = table.collations.get(name, ("", ""))
        is_text = _base(column.type_name) in _TEXTS
        columns.append(
            KeyColumn(
                name=name,
                type_name=column.type_name,
                collation=f"{charset}.{collation}" if is_text else None,
                nullable=column.nullable,
            )
        )
    return tuple(columns)


def condition_sql(chunk: Chunk, key: Sequence[KeyColumn], row_filter: str | None = None) -> str:
    """Return the WHERE condition of a chunk, with the row filter if there is one."""
    # The line break ends a comment at the end of the filter.
    parts = [*_range_parts(chunk, key), *([f"({row_filter}\n)"] if row_filter else [])]
    return " AND ".join(parts) or "TRUE"


def next_bound_sql(table: TableName, index: str, key: Sequence[KeyColumn], after: Bound | None, rows: int) -> str:
    """Return the statement that finds the key of the row `rows` rows after a bound, by walking the key's index."""
    columns = ", ".join(map(_bound, key))
    lower = Chunk(number=1, kind=ChunkKind.KEY, lower=after)
    order = ", ".join(quoted(column.name) for column in key)
    return (
        f"SELECT {columns} FROM {relation_sql(table, index)} WHERE {condition_sql(lower, key)} "
        f"ORDER BY {order} LIMIT {rows - 1}, 1"
    )


def relation_sql(table: TableName, index: str | None) -> str:
    """Return the table in FROM, read by an index."""
    return f"{table_sql(table)} FORCE INDEX ({quoted(index)})" if index else table_sql(table)


def filter_check_sql(table: TableName, row_filter: str) -> tuple[str, ...]:
    """Return statements that read nothing and fail unless the filter is a single condition.

    A text such as `true) OR (true` is valid between parentheses but would escape the chunk's bounds.
    """
    # As an argument of a function, it must be one expression, and it can't close the brackets around it in both.
    return (
        f"SELECT 1 FROM {table_sql(table)} WHERE ({row_filter}\n) LIMIT 0",
        f"SELECT NULLIF({row_filter}\n, 1) FROM {table_sql(table)} LIMIT 0",
    )


def literal(value: str, column: KeyColumn) -> str:
    """Return the text of a bound as SQL of exactly the value."""
    base = _base(column.type_name)
    if base in _TEXTS and column.collation is not None:
        charset, _, collation = column.collation.partition(".")
        return f"(_{charset} X'{value}' COLLATE {collation})"
    if base in _BYTES:
        return f"X'{value}'"
    if base in _FLOATS:
        return value if "e" in value.lower() else f"{value}e0"
    if base in (*_INTEGERS, "decimal", "bit") or is_enumeration(column.type_name):
        return value
    return f"'{value}'"


def is_text_type(type_name: str) -> bool:
    """Whether values of the type are compared by a collation."""
    return _base(type_name) in _TEXTS


def _range_parts(chunk: Chunk, key: Sequence[KeyColumn]) -> list[str]:
    if chunk.kind == ChunkKind.WHOLE:
        return []
    nullable = [quoted(column.name) for column in key if column.nullable]
    if chunk.kind == ChunkKind.NULL_KEY:
        return ["(" + " OR ".join(f"{column} IS NULL" for column in nullable) + ")"]
    parts = []
    if chunk.lower is not None:
        parts.append(_beyond(key, chunk.lower, ">", ends_with=">"))
    if chunk.upper is not None:
        parts.append(_beyond(key, chunk.upper, "<", ends_with="<="))
    return [*parts, *(f"{column} IS NOT NULL" for column in nullable)]


def _beyond(key: Sequence[KeyColumn], bound: Bound, operator: str, *, ends_with: str) -> str:
    """Return the expanded comparison of a key with a bound: `a > x OR (a = x AND b > y)`.

    With `a >= x AND (a > x OR b > y)` instead, the server reads all rows with the first value of the bound.
    """
    column, value = quoted(key[0].name), literal(bound.values[0], key[0])
    if len(key) == 1:
        return f"{column} {ends_with} {value}"
    rest = _beyond(key[1:], Bound(bound.values[1:]), operator, ends_with=ends_with)
    return f"({column} {operator} {value} OR ({column} = {value} AND {rest}))"


def _bound(column: KeyColumn) -> str:
    """Return the expression of the text of a key column, from which `literal` makes the same value."""
    name, base = quoted(column.name), _base(column.type_name)
    if base in _TEXTS or base in _BYTES:
        return f"HEX({name})"
    if base in _FLOATS:
        return f"CAST({name} + 0e0 AS CHAR)"
    if base == "bit" or is_enumeration(column.type_name):
        return f"CAST({name} + 0 AS CHAR)"
    return f"CAST({name} AS CHAR)"


def _base(type_name: str) -> str:
    return type_name.partition("(")[0].partition(" ")[0]
