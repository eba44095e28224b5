"""Values that the log left out because an update did not change them, read from the table by key.

Why the final result is correct. An update of a row in transaction T left out a large value. The row is read again when
T is visible, at a later state S of the source.

- The row has the value from T: it is written unchanged.
- The row has another value: a change after T, but not after S, wrote it. That change follows in the log with its own
  value (a changed value is never left out), so the final row is correct. Until then this column is ahead.
- The row no longer exists: a delete or a key update after T removed it. That change follows in the log, so the row is
  written as deleted now.
- The column was dropped or has another type: the row is unreadable, and its table has had other columns since.
- The row was deleted and inserted again: the delete and the insert, with all values, follow in the log.

If the row were read before T is visible, the read could return an older value that no later change corrects. The log is
ahead of visibility: a commit is decoded as soon as its record is flushed, and becomes visible afterwards.

A history keeps every state, so a value that is ahead would stay wrong. A history takes the value only if T itself wrote
the found row (`xmin`); otherwise the change is unreadable. A subtransaction of T has an id of its own and is refused,
too: it looks like a later transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import psycopg2
from psycopg2 import errors

from framework.foundation.clock import Clock
from framework.foundation.errors import SourceError
from framework.sources.databases.postgres.chunks.chunk_sql import base_value_sql, operator_sql, search_path_sql
from framework.sources.databases.postgres.faults import named_errors
from framework.sources.databases.postgres.log.changes import PendingRow
from framework.sources.databases.postgres.log.pgoutput import OMITTED, Relation, Row, Value
from framework.sources.databases.postgres.session import FLUSH_LOG, Session
from framework.sources.databases.tables import TableName, quote_identifier

_POLL_SECONDS = 0.01
_ATTEMPTS = 5
_MOST_ROWS = 256
_FIRST_ROWS = 32
_QUERY_BYTES = 8 << 20
_OF_THE_TABLE = frozenset({"DATABASE_PERMISSION", "DATABASE_ROWS_HIDDEN", "DATABASE_QUERY_FAILED"})

_INVISIBLE = """
SELECT count(*) FROM unnest(%s::text[]) AS given(xid)
WHERE NOT pg_visible_in_snapshot(given.xid::xid8, pg_current_snapshot())
"""
_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, a.atttypid, base.name, base.operators
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
CROSS JOIN LATERAL (
    WITH RECURSIVE bases(type) AS (
        SELECT a.atttypid
        UNION ALL
        SELECT t.typbasetype FROM bases AS b JOIN pg_type AS t ON t.oid = b.type WHERE t.typtype = 'd')
    SELECT quote_ident(tn.nspname) || '.' || quote_ident(t.typname), nullif(tn.nspname, 'pg_catalog')
    FROM bases AS b JOIN pg_type AS t ON t.oid = b.type AND t.typtype <> 'd'
    JOIN pg_namespace AS tn ON tn.oid = t.typnamespace
) AS base(name, operators)
WHERE c.oid = %s
"""


Completed = Row | SourceError | None
"""A completed row, the reason why it can't be read, or None if it no longer exists."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The present table, with the columns that are the same as in the log.

    Args:
        schema: its schema.
        name: its name.
        types: the type of each column below any domain, in SQL without modifiers.
        operators: the schema of the operators of each column's type; None if it is the database's own.
    """

    schema: str
    name: str
    types: dict[str, str]
    operators: dict[str, str | None]


class OmittedValues:
    """Completes rows of the log.

    Args:
        session: returns the session for queries.
        clock: for waiting.
        wait_seconds: how long a transaction may take from its commit record to visibility (synchronous replication
            makes it wait for the standby).
        histories: tables whose copies keep every state of a row.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        clock: Clock,
        wait_seconds: float = 60.0,
        histories: Collection[TableName] = (),
    ) -> None:
        self._session = session
        self._histories = frozenset(histories)
        self._clock = clock
        self._wait_seconds = wait_seconds
        self.rows_per_query = _FIRST_ROWS
        """How many rows to read at once; follows the size of the values."""

    def complete(self, pending: Sequence[PendingRow]) -> list[Completed]:
        """Return the rows with the values that the log left out; None for a row that no longer exists.

        For a row whose values can't be read, its error is returned, because it affects only that table.

        Raises:
            SourceError: DATABASE_COMMIT_NOT_VISIBLE, DATABASE_UNREACHABLE.
        """
        self.wait_until_visible({row.xid for row in pending})
        found: dict[int, Completed] = {}
        for relation in {row.encoder.relation for row in pending}:
            members = [index for index, row in enumerate(pending) if row.encoder.relation == relation]
            for piece in _pieces(members, lambda: self.rows_per_query):
                rows = self._read_pieces([pending[index] for index in piece])
                found.update(zip(piece, rows, strict=True))
        if found:  # they may come from transactions that a server crash would lose
            self._session().rows(FLUSH_LOG)
        return [found[index] for index in range(len(pending))]

    def wait_until_visible(self, xids: Iterable[int]) -> None:
        """Wait until queries see these transactions of the log, given by the low 32 bits of their ids.

        Raises:
            SourceError: DATABASE_COMMIT_NOT_VISIBLE, DATABASE_UNREACHABLE.
        """
        deadline = self._clock.monotonic() + self._wait_seconds
        with self._session().raw.cursor() as cursor:
            cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
            newest = int(cursor.fetchone()[0])
            complete = [str(full_transaction_id(xid, newest)) for xid in xids]
            while True:
                # Not "below xmin": a transaction that stays open for hours would hold xmin back.
                cursor.execute(_INVISIBLE, [complete])
                if not cursor.fetchone()[0]:
                    return
                if self._clock.monotonic() > deadline:
                    raise SourceError("DATABASE_COMMIT_NOT_VISIBLE", seconds=self._wait_seconds)
                self._clock.sleep(_POLL_SECONDS)

    def _read_pieces(self, rows: Sequence[PendingRow]) -> Sequence[Completed]:
        """Return the completed rows of one relation; repeat the read if its schema changes meanwhile."""
        try:
            for _ in range(_ATTEMPTS):
                with named_errors(self._session().connection, table=rows[0].encoder.relation.table):
                    try:
                        return self._read_once(rows)
                    except (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName):
                        continue
        except SourceError as error:
            if error.condition not in _OF_THE_TABLE:
                raise
            return [error] * len(rows)
        return [_unknown(row) for row in rows]

    def _read_once(self, rows: Sequence[PendingRow]) -> list[Completed]:
        encoder = rows[0].encoder
        columns = encoder.relation.columns
        omitted = sorted({index for row in rows for index, value in enumerate(row.values) if value is OMITTED})
        with self._session().raw.cursor() as cursor:
            table = _current_table(cursor, encoder.relation)
            # If a column is missing or has another type, the table has a later version of the schema.
            wanted = [index for index in omitted if columns[index].name in table.types]
            key = [columns[index].name for index in encoder.key]
            if not wanted or not key or not set(key) <= set(table.types):
                return [_unknown(row) for row in rows]
            query = _query(table, key, [columns[index].name for index in wanted])
            cursor.execute(query, [[row.values[index] for row in rows] for index in encoder.key])
            found = {
                ordinal - 1: (int(xmin), dict(zip(wanted, values, strict=True)))
                for ordinal, xmin, *values in cursor.fetchall()
            }
        self._follow_size([values for _, values in found.values()])
        return [self._completed(row, *found.get(index, (None, {}))) for index, row in enumerate(rows)]

    def _completed(self, row: PendingRow, xmin: int | None, values: dict[int, str | None]) -> Completed:
        """Return the row, completed with the values of the found row, which transaction `xmin` wrote."""
        if xmin != row.xid and row.encoder.relation.table in self._histories:
            return _unknown(row)
        if xmin is None:
            return None
        return _filled(row, values)

    def _follow_size(self, found: Sequence[dict[int, str | None]]) -> None:
        size = sum(len(value or "") for values in found for value in values.values())
        if found:
            self.rows_per_query = max(1, min(_MOST_ROWS, _QUERY_BYTES * len(found) // (size + 1)))


def full_transaction_id(xid: int, newest: int) -> int:
    """Return the 64-bit id of a transaction from its low 32 bits.

    Args:
        xid: the low 32 bits.
        newest: a 64-bit id less than 2^31 transactions away, before or after.

    Examples:
        >>> full_transaction_id(0xFFFFFFFE, (1 << 32) + 5) == 0xFFFFFFFE
        True
        >>> full_transaction_id(7, (1 << 32) + 5) == (1 << 32) + 7
        True
    """
    distance = (xid - newest) & 0xFFFFFFFF
    return newest + (distance - (1 << 32) if distance >= 1 << 31 else distance)


def _pieces(members: list[int], size: Callable[[], int]) -> Iterator[list[int]]:
    start = 0
    while start < len(members):
        end = start + size()
        yield members[start:end]
        start = end


def _filled(row: PendingRow, found: dict[int, str | None]) -> Completed:
    if any(value is OMITTED and index not in found for index, value in enumerate(row.values)):
        return _unknown(row)
    filled: list[Value] = [found[index] if value is OMITTED else value for index, value in enumerate(row.values)]
    return filled


def _unknown(row: PendingRow) -> SourceError:
    """Return the error of a row with a value that no longer exists anywhere."""
    relation = row.encoder.relation
    left_out = [column.name for column, value in zip(relation.columns, row.values, strict=True) if value is OMITTED]
    return SourceError(
        "DATABASE_VALUE_NOT_LOGGED",
        table=relation.table,
        columns=", ".join(left_out),
        statement=f"ALTER TABLE {relation.table.quoted} REPLICA IDENTITY FULL",
    )


def _current_table(cursor: psycopg2.extensions.cursor, relation: Relation) -> _Table:
    """Return the table by its oid, because it may have been renamed; without columns if it was dropped."""
    cursor.execute(_COLUMNS, [relation.oid])
    rows = cursor.fetchall()
    if not rows:
        return _Table(relation.table.schema, relation.table.table, {}, {})
    same = {(column.name, column.type_oid) for column in relation.columns}
    present = [(name, type_name, schema) for _, _, name, oid, type_name, schema in rows if (name, oid) in same]
    types, operators = ({each[0]: each[part] for each in present} for part in (1, 2))
    return _Table(rows[0][0], rows[0][1], types, operators)


def _query(table: _Table, key: Sequence[str], wanted: Sequence[str]) -> str:
    """Return the query for the values of rows by key, as text; it has one text array parameter per key column.

    `format('%s', …)` calls the type's output function, as the log does; a cast to text gives another text for char(n),
    boolean and inet. The operators of the key's types are visible only in the transaction of the two statements.
    """
    path = search_path_sql([table.operators[column] for column in key])
    names = ", ".join(f"k{index}" for index in range(len(key)))
    outputs = ", ".join(
        f"CASE WHEN t.{column} IS DISTINCT FROM NULL THEN pg_catalog.format('%s', t.{column}) END AS v{index}"
        for index, column in enumerate(map(quote_identifier, wanted))
    )
    conditions = " AND ".join(
        f"{base_value_sql(f't.{quote_identifier(column)}', table.types[column])} "
        f"{operator_sql('=', [table.operators[column]])} wanted.k{index}::{table.types[column]}"
        for index, column in enumerate(key)
    )
    source = f"{quote_identifier(table.schema)}.{quote_identifier(table.name)}"
    found = f"SELECT t.xmin::text::bigint AS xmin, {outputs} FROM {source} AS t WHERE {conditions} LIMIT 1"
    rest = f"WITH ORDINALITY AS wanted({names}, n) CROSS JOIN LATERAL ({found}) AS found"
    arrays = ", ".join(["%s::text[]"] * len(key))
    # A name may contain a percent sign, which psycopg2 takes for a parameter.
    read = f"SELECT wanted.n, found.* FROM unnest({arrays}) "
    return path.replace("%", "%%") + "; " + read + rest.replace("%", "%%")
