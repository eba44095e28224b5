"""T-SQL of chunks: conditions between two bounds of a key, and the walk to the next bound.

A comparison of several columns is expanded with its first column alone in front, because T-SQL has no row values and an
index is only searched by such a condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.sources.databases.chunks import Bound, Chunk, ChunkKind, KeyColumn
from framework.sources.databases.sqlserver.names import bracket, quoted
from framework.sources.databases.sqlserver.values.types import text_expression, value_expression
from framework.sources.databases.tables import TableName

Condition = tuple[str, list[str]]
"""T-SQL with `?`, and their values."""

# Locks, also if the database has READ_COMMITTED_SNAPSHOT: a chunk must see each commit that the capture job has read.
_HINT = "WITH (READCOMMITTEDLOCK)"


def chunk_condition(chunk: Chunk, key: Sequence[KeyColumn], row_filter: str | None) -> Condition:
    """Return the condition of the rows of a chunk."""
    parts: list[Condition] = []
    nullable = [column for column in key if column.nullable]
    if chunk.kind is ChunkKind.NULL_KEY:
        parts.append((" OR ".join(f"{bracket(column.name)} IS NULL" for column in nullable), []))
    elif chunk.kind is ChunkKind.KEY:
        parts += [(f"{bracket(column.name)} IS NOT NULL", []) for column in nullable]
        parts += [_beyond(key, chunk.lower, ">")] if chunk.lower else []
        parts += [_beyond(key, chunk.upper, "<")] if chunk.upper else []
    if row_filter is not None:
        parts.append((f"\n{row_filter}\n", []))  # the filter may end in a comment
    if not parts:
        return "1 = 1", []
    return " AND ".join(f"({text})" for text, _ in parts), [value for _, values in parts for value in values]


def chunk_select(table: TableName, columns: str, condition: str) -> str:
    """Return the query of a chunk."""
    return f"SELECT {columns} FROM {quoted(table)} {_HINT} WHERE {condition}"


def walk_sql(table: TableName, key: Sequence[KeyColumn], after: Bound | None, rows: int) -> Condition:
    """Return the query of the key of the last of the next rows after a bound; it has no row if there are fewer."""
    where: list[Condition] = [(f"{bracket(column.name)} IS NOT NULL", []) for column in key if column.nullable]
    where += [_beyond(key, after, ">")] if after is not None else []
    condition = " AND ".join(f"({text})" for text, _ in where) or "1 = 1"
    selected = ", ".join(text_expression(column.type_name, bracket(column.name)) for column in key)
    order = ", ".join(bracket(column.name) for column in key)
    query = (
        f"SELECT {selected} FROM {quoted(table)} {_HINT} WHERE {condition} ORDER BY {order} "
        f"OFFSET {rows - 1} ROWS FETCH NEXT 1 ROWS ONLY"
    )
    return query, [value for _, values in where for value in values]


def filter_check_sql(table: TableName, row_filter: str) -> str:
    """Return a query that fails if a filter is wrong, and reads no row."""
    return f"SELECT TOP (0) 1 FROM {quoted(table)} WHERE (\n{row_filter}\n)"


def _beyond(key: Sequence[KeyColumn], bound: Bound, sign: str) -> Condition:
    """Return the condition of keys after a bound (`>`), or up to it (`<`)."""
    column, value = key[0], bound.values[0]
    name, expression = bracket(column.name), value_expression(column.type_name, column.collation)
    if len(key) == 1:
        return f"{name} {'>' if sign == '>' else '<='} {expression}", [value]
    rest, values = _beyond(key[1:], Bound(bound.values[1:]), sign)
    text = f"{name} {sign}= {expression} AND ({name} {sign} {expression} OR ({rest}))"
    return text, [value, value, *values]
