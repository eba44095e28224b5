"""Bounds of chunks from the histogram of ANALYZE for a key, instead of a walk over the whole index.

Used by the planner. Any ascending bounds give exact chunks, so statistics only affect how even the chunks are. They are
used while few rows have changed since ANALYZE, and if they are fine enough for chunks of the target size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg2

from framework.sources.databases.chunks import Bound, ChunkKind
from framework.sources.databases.postgres.chunks.chunk_sql import known_bounds_sql, quote_literal

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor

    from framework.sources.databases.chunks import PlanBasis
    from framework.sources.databases.tables import TableName

SEEDED_ROWS = 500_000
"""The fewest rows of a table whose histogram is used; for smaller tables the walk is as fast."""

_TYPES = frozenset(
    f"pg_catalog.{name}"
    for name in ("int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz", "uuid", "text", "varchar")
)
_MOST_CHANGED = 0.1
_LARGEST_BUCKET = 1.3
"""The largest usable bucket, as a number of chunks."""

_HISTOGRAM = """
SELECT histogram_bounds::text::{kind}[] AS bounds
FROM pg_catalog.pg_stats s
JOIN pg_catalog.pg_stat_all_tables t ON t.schemaname = s.schemaname AND t.relname = s.tablename
WHERE s.schemaname = {schema} AND s.tablename = {table} AND s.attname = {column} AND NOT s.inherited
    AND coalesce(t.last_analyze, t.last_autoanalyze) IS NOT NULL
    AND t.n_mod_since_analyze <= {changed} * t.n_live_tup
"""


def known_bounds(
    cursor: Cursor, table: TableName, basis: PlanBasis, after: Bound | None, *, rows: int, step: int, most: int
) -> list[Bound]:
    """Return the next bounds from the histogram; none without a usable histogram.

    Args:
        cursor: a cursor in the transaction of a plan, with the search path of the key.
        table: an ordinary table.
        basis: of the plan.
        after: the last bound.
        rows: estimate of the rows of the table.
        step: rows of a chunk.
        most: the most bounds.
    """
    if basis.kind != ChunkKind.KEY or len(basis.key) != 1 or basis.key[0].type_name not in _TYPES:
        return []
    column = basis.key[0]
    histogram = _HISTOGRAM.format(
        kind=column.type_name,
        schema=quote_literal(table.schema),
        table=quote_literal(table.table),
        column=quote_literal(column.name),
        changed=_MOST_CHANGED,
    )
    found = _rows_if_readable(cursor, known_bounds_sql(histogram, column, after))
    if not found:
        return []
    bounds = [Bound((text,)) for text, _ in found]
    buckets = int(found[0][1]) - 1
    return pick_bounds(bounds, is_first=after is None, rows_per_bucket=rows / max(buckets, 1), step=step, most=most)


def _rows_if_readable(cursor: Cursor, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement; none if the user may not read the statistics, or the server lacks them.

    Hardened servers revoke PUBLIC's right to statistics, and a plan can be made without them.
    """
    cursor.execute("SAVEPOINT statistics")
    try:
        cursor.execute(statement)
        return list(cursor.fetchall())
    except psycopg2.ProgrammingError:
        cursor.execute("ROLLBACK TO SAVEPOINT statistics")
        return []


def pick_bounds(
    bounds: Sequence[Bound], *, is_first: bool, rows_per_bucket: float, step: int, most: int
) -> list[Bound]:
    """Return the bucket bounds that are nearest to multiples of a chunk's rows; none if buckets are too large.

    Rows after the last bucket, and a last part of less than half a chunk, are left to the walk.

    Args:
        bounds: ascending; a bucket ends at each.
        is_first: whether the first bound is the least key, so that no bucket ends there.
        rows_per_bucket: the rows of a bucket.
        step: the rows of a chunk.
        most: the most bounds.

    Examples:
        >>> keys = [Bound((str(key),)) for key in range(0, 101, 10)]
        >>> picked = pick_bounds(keys, is_first=True, rows_per_bucket=10, step=25, most=8)
        >>> [bound.values[0] for bound in picked]
        ['20', '50', '80']
    """
    if rows_per_bucket > _LARGEST_BUCKET * step:
        return []
    first = 0 if is_first else 1
    last = (len(bounds) - 1 + first) * rows_per_bucket
    picked: list[Bound] = []
    previous = 0
    while len(picked) < most:
        ended = max(round(step * (len(picked) + 1) / rows_per_bucket), previous + 1)
        if last - ended * rows_per_bucket < step / 2 or ended - first >= len(bounds):
            break
        picked.append(bounds[ended - first])
        previous = ended
    return picked
