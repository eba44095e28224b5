"""SQL of chunks on PostgreSQL: quoting, the condition of a chunk, the walk to the next bound.

The planner (psycopg2) and the reader (ADBC, where COPY takes no parameters) build their statements from the same texts,
so both compare keys by the same operators and collations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from framework.sources.databases.chunks import Bound, Chunk, ChunkKind, KeyColumn
from framework.sources.databases.postgres.session import USER_PATH
from framework.sources.databases.postgres.values.object_names import NAMED_OBJECT_TYPES
from framework.sources.databases.tables import TableName, quote_identifier

BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED READ ONLY"

ALIAS = "chunked"
"""Alias of the table. ORDER BY must use it: a bare name means the *output* column, which is the text of the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Time limits of the statements of a snapshot.

    A chunk holds the lock ACCESS SHARE while it is read. An ALTER TABLE that waits for this lock blocks all later
    queries of the table. So the statement of a chunk ends after `statement_seconds` at the latest, whether the server
    or the staging storage is slow; a chunk of the default size takes about a second. Waiting for a lock delays only the
    snapshot, and a chunk that timed out is read again. Chunks without bounds (WHOLE, NULL_KEY) can't be made smaller
    and have no limit.

    Args:
        lock_seconds: longest wait for the lock of the table.
        statement_seconds: longest time of a statement.
    """

    lock_seconds: int = 60
    statement_seconds: int = 600


def settings_sql(limits: ReadLimits, *, bounded: bool) -> str:
    """Return the statement with the additional settings of chunks, for the rest of a transaction.

    With sequential scans and sorts disabled, the server walks the index of the key even if statistics are missing or
    wrong; it still scans if there is no other way.

    Args:
        limits: of the statements.
        bounded: whether the statement timeout applies.
    """
    settings = {
        "enable_seqscan": "off",
        "enable_sort": "off",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "lock_timeout": f"{limits.lock_seconds}s",
        "statement_timeout": f"{limits.statement_seconds}s" if bounded else "0",
    }
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


def search_path_sql(operator_schemas: Iterable[str | None] = ()) -> str:
    """Return the statement that sets the search path to a key's operators and the role's path, for a transaction.

    If citext were not in the path, `>` would silently be the operator of text, while ORDER BY still uses citext: the
    plan would skip rows. The role's path is needed for functions in a row filter, and for the text of values: names of
    tables outside of the path are qualified in it. It comes after pg_catalog.

    Args:
        operator_schemas: the schema of the operators of each column's type; None if it is the database's own.
    """
    schemas = sorted({*filter(None, operator_schemas)})
    appended = "".join(f", {quote_literal(quote_identifier(schema))}" for schema in schemas)
    given = f"nullif(current_setting('{USER_PATH}', true), '')"
    return f"SELECT set_config('search_path', pg_catalog.concat_ws(', ', 'pg_catalog', {given}{appended}), true)"


def operator_sql(operator: str, operator_schemas: Iterable[str | None]) -> str:
    """Return the operator that compares values of these types in the same way as the indexes of keys.

    An operator in the role's path for exactly these types would take precedence over the operator in pg_catalog: there
    varchar uses the operator of text, and a domain that of its base type. The operators of a type outside of pg_catalog
    may be in either schema.

    Args:
        operator: the operator.
        operator_schemas: of the types of the columns, as for `search_path_sql`.

    Examples:
        >>> operator_sql(">", [None]), operator_sql(">", [None, "ext"])
        ('OPERATOR(pg_catalog.>)', '>')
    """
    return operator if any(operator_schemas) else f"OPERATOR(pg_catalog.{operator})"


def base_value_sql(column: str, type_name: str) -> str:
    """Return a column's value, cast from a domain to its base type, so that operators can compare it.

    The operators of enums do not accept domains over them. A cast to the column's own type does nothing, and a cast of
    a domain to its base type changes no value, so the index of the key is still used.

    Args:
        column: the column, in SQL.
        type_name: the type without modifiers and below any domain, in SQL.
    """
    return f"{column}::{type_name}"


def lock_sql(name: TableName) -> str:
    """Return a statement that reads nothing, but locks the table against rewrites until the transaction ends.

    It fails if the table is missing or the role may not read it.
    """
    return f"SELECT 1 FROM {name.quoted} LIMIT 0"


def quote_literal(text: str) -> str:
    r"""Return a text as an SQL literal; the algorithm of libpq's PQescapeLiteral, for client encoding UTF8.

    It does not depend on `standard_conforming_strings`: a text with a backslash becomes an E'' literal.

    Raises:
        ValueError: the text has a NUL, which PostgreSQL can't store.

    Examples:
        >>> print(quote_literal("it's"), quote_literal("a\\b"))
        'it''s' E'a\\b'
    """
    if "\0" in text:
        raise ValueError(text)
    quoted = "'" + text.replace("'", "''") + "'"
    # The space keeps E from joining a preceding name.
    return " E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


def relation_sql(name: TableName, *, partitioned: bool) -> str:
    """Return the table in FROM.

    Without ONLY, the rows of child tables would be included, although the log has the children as separate tables.
    """
    return name.quoted if partitioned else f"ONLY {name.quoted}"


def condition_sql(chunk: Chunk, key: Sequence[KeyColumn], row_filter: str | None = None) -> str:
    """Return the WHERE condition of a chunk, with the row filter if there is one."""
    parts = [*_range_parts(chunk, key), *_filter_parts(row_filter)]
    return " AND ".join(parts) or "true"


def next_bound_sql(relation: str, key: Sequence[KeyColumn], after: Bound | None, rows: int) -> str:
    """Return the statement that finds the key of the row `rows` rows after a bound, by walking the key's index.

    The output is the text of each key column, by the output functions of the types; for an object it is the oid.
    """
    columns = ", ".join(map(_bound, key))
    lower = Chunk(number=1, kind=ChunkKind.KEY, lower=after)
    order = ", ".join(_ordered(column) for column in key)
    return (
        f"SELECT {columns} FROM {relation} AS {ALIAS} WHERE {condition_sql(lower, key)} "
        f"ORDER BY {order} OFFSET {rows - 1} LIMIT 1"
    )


def known_bounds_sql(histogram: str, key: KeyColumn, after: Bound | None) -> str:
    """Return the statement that finds the bounds of a histogram after a bound, ascending, and their total number.

    Args:
        histogram: a query for the array `bounds` of values of the key.
        key: the only column of the key.
        after: the last bound.
    """
    lower = condition_sql(Chunk(number=1, kind=ChunkKind.KEY, lower=after), [key])
    values = f"SELECT unnest(bounds) AS {quote_identifier(key.name)}, cardinality(bounds) AS total FROM ({histogram}) h"
    # The same comparison as in chunks: the collation of the histogram may differ from it.
    return (
        f"SELECT {_bound(key)}, pg_catalog.max({ALIAS}.total) OVER () "
        f"FROM ({values}) AS {ALIAS} WHERE {lower} ORDER BY {_ordered(key)}"
    )


def filter_check_sql(relation: str, row_filter: str) -> tuple[str, ...]:
    """Return the statements of a transaction that read nothing and fail unless the filter is a single condition.

    A text such as `true) OR (true` is valid between parentheses but would escape the chunk's bounds; no text escapes
    both parentheses and brackets.
    """
    table = f"FROM {relation} AS {ALIAS}"
    return (
        search_path_sql(),
        f"SELECT 1 {table} WHERE ({row_filter}\n) LIMIT 0",
        f"SELECT ARRAY[{row_filter}\n] {table} LIMIT 0",
    )


def _range_parts(chunk: Chunk, key: Sequence[KeyColumn]) -> list[str]:
    if chunk.kind == ChunkKind.WHOLE:
        return []
    if chunk.kind == ChunkKind.TID:
        return [
            f"{ALIAS}.ctid {operator} {quote_literal(bound.values[0])}::pg_catalog.tid"
            for operator, bound in ((">", chunk.lower), ("<=", chunk.upper))
            if bound is not None
        ]
    nullable = [_column(column.name) for column in key if column.nullable]
    if chunk.kind == ChunkKind.NULL_KEY:
        return ["(" + " OR ".join(f"{column} IS NULL" for column in nullable) + ")"]
    # (5, NULL) > (3, 1) is true in SQL, so a range alone would read rows of the NULL_KEY chunk again.
    present = [f"{column} IS NOT NULL" for column in nullable]
    return [*_key_range(chunk.lower, chunk.upper, key), *present]


def _key_range(lower: Bound | None, upper: Bound | None, key: Sequence[KeyColumn]) -> list[str]:
    schemas = [column.operator_schema for column in key]
    parts = [
        f"{_row([_comparable(column) for column in key])} {operator} {_row(_values(bound, key))}"
        for operator, bound in ((operator_sql(">", schemas), lower), (operator_sql("<=", schemas), upper))
        if bound is not None
    ]
    if len(key) > 1 and lower is not None and upper is not None:
        # Implied by the two conditions above. PostgreSQL estimates two row comparisons as independent, which gives a
        # quarter of the table in its middle, and would scan most of it for each chunk. It estimates a range of one
        # column well.
        first = _comparable(key[0])
        parts.append(f"{first} {operator_sql('>=', schemas[:1])} {_values(lower, key)[0]}")
        parts.append(f"{first} {operator_sql('<=', schemas[:1])} {_values(upper, key)[0]}")
    return parts


def _filter_parts(row_filter: str | None) -> list[str]:
    # The line break ends a comment at the end of the filter.
    return [f"({row_filter}\n)"] if row_filter else []


def _column(name: str) -> str:
    return f"{ALIAS}.{quote_identifier(name)}"


def _bound(column: KeyColumn) -> str:
    """Return the text of a key column, from which a chunk gets the same value."""
    # A renamed or dropped object would leave a name of another object, or of none.
    schema, _, name = column.type_name.rpartition(".")
    cast = "::pg_catalog.oid" if schema == "pg_catalog" and name in NAMED_OBJECT_TYPES else ""
    # concat calls the output function of the type; a cast to text may give another text, or be user-defined.
    return f"pg_catalog.concat({_column(column.name)}{cast})"


def _comparable(column: KeyColumn) -> str:
    return f"{base_value_sql(_column(column.name), column.type_name)}{_collate(column)}"


def _ordered(column: KeyColumn) -> str:
    # ORDER BY accepts domains, and PostgreSQL uses an index for it only if the column is not cast.
    return f"{_column(column.name)}{_collate(column)}"


def _collate(column: KeyColumn) -> str:
    return f" COLLATE {column.collation}" if column.collation else ""


def _values(bound: Bound, key: Sequence[KeyColumn]) -> list[str]:
    return [f"{quote_literal(value)}::{column.type_name}" for value, column in zip(bound.values, key, strict=True)]


def _row(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({', '.join(values)})"
