"""Planning of a snapshot on PostgreSQL: upper bounds of chunks, by a walk over the key's index or by row addresses.

Used by the planner of a snapshot, in one process. A plan is not stored: it continues from the last bound of an offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psycopg2

from framework.foundation.conditions import describe
from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import (
    BATCH_CHUNKS,
    LARGEST_CHUNK_BYTES,
    Bound,
    ChunkKind,
    PlanBasis,
    SnapshotOffset,
    advance,
    default_chunk_bytes,
    plan_fault,
    refuse_other_table,
)
from framework.sources.databases.postgres.chunks.chunk_sql import (
    ALIAS,
    BEGIN,
    ReadLimits,
    filter_check_sql,
    lock_sql,
    next_bound_sql,
    relation_sql,
    search_path_sql,
    settings_sql,
)
from framework.sources.databases.postgres.chunks.histogram import SEEDED_ROWS, known_bounds
from framework.sources.databases.postgres.chunks.snapshot_faults import filter_fault, refuse_changed_partitions
from framework.sources.databases.postgres.faults import named_errors
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.continuity import Continuity
from framework.sources.databases.postgres.tables.table_storage import TableStorage, parse_storage, storage_sql
from framework.sources.databases.tables import KeyKind, SourceTable

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor

_LEAST_ROWS = 1000
_SAMPLED_BLOCKS = 100
_LAST_ROW_OF_BLOCK = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWarning:
    """A warning about a plan: a condition of the catalogue that is not an error."""

    condition: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEstimate:
    """Rows and bytes of a table, estimated from statistics or a sample.

    Args:
        rows: without a row filter.
        bytes: on disk, without indexes.
    """

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    bounds: tuple[Bound, ...]
    rows: int
    finished: bool


class BoundaryWalker:
    """Plans the chunks of one table.

    A table with a key is planned by key: the next upper bound is the key n rows after the last bound in the index. For
    a large table it is a key close to that, from the histogram of the last ANALYZE.
    Each row whose key does not change is in exactly one chunk, regardless of concurrent inserts, updates and deletes.

    A table without a key is planned by row address (TID). An UPDATE gives a row another address, so a row that is
    updated during the snapshot may be read twice or not at all. This is correct only because changes since the start of
    the snapshot are also read from the log: never use TID chunks without a log. A partitioned table is planned by the
    same addresses in all of its partitions. If the storage changes (VACUUM FULL, CLUSTER, TRUNCATE, a rewriting ALTER
    TABLE, a partition attached or detached), addresses lose their meaning and the plan is invalid. Where addresses
    can't be ranges (PostgreSQL 13, foreign tables), the table is one chunk, and `warnings` says so.

    Args:
        session: on the source; each call is one short transaction on it.
        table: the table, with its key.
        source_identity: identity of the server that the connection leads to.
        generation: number of the snapshot of this table.
        row_filter: SQL condition; bounds ignore it, chunks apply it.
        chunk_bytes: target of a chunk on disk; by the size of the table if omitted.
        least_rows: fewest rows of a chunk by key, however wide.
        limits: of a statement.
        relation: the oid that the table must have; 0 for any.
        membership: the id of its membership of the publication, for the plan.
        position: the position of its slot, for the plan.
        seeded_rows: fewest rows of a table whose histogram is used.
    """

    def __init__(
        self,
        session: Session,
        table: SourceTable,
        *,
        source_identity: str,
        generation: int = 0,
        row_filter: str | None = None,
        chunk_bytes: int | None = None,
        least_rows: int = _LEAST_ROWS,
        limits: ReadLimits = ReadLimits(),  # noqa: B008 - frozen
        relation: int = 0,
        membership: int = 0,
        position: int = 0,
        seeded_rows: int = SEEDED_ROWS,
    ) -> None:
        self._session = session
        self._table = table
        self._source_identity = source_identity
        self._generation = generation
        self._row_filter = row_filter
        self._chunk_bytes = chunk_bytes
        self._least_rows = least_rows
        self._limits = limits
        self._relation = relation
        self._seeded_rows = seeded_rows
        self._membership, self._position = membership, position

    def plan(self, offset: SnapshotOffset | None, *, most_chunks: int | None = None) -> SnapshotOffset:
        """Return the offset after the next chunks, at least one; the same offset if it is finished.

        Args:
            offset: the last planned offset, from this or any earlier process; None to begin.
            most_chunks: longest batch; the last batch may have one more, of NULL keys. By their
                size if omitted.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID if storage or key changed since the plan, SNAPSHOT_SOURCE_CHANGED,
                SNAPSHOT_TABLE_REPLACED, SNAPSHOT_ROW_FILTER_INVALID, or a condition of `named_errors`, such as
                DATABASE_TABLE_MISSING.
        """
        if offset is not None and offset.finished:
            return offset
        self.check_row_filter()
        with self._transaction() as cursor:
            storage = self._storage(cursor)
            refuse_other_table(self._table.name, self._relation, storage.relation)
            basis = self._basis(storage)
            if offset is not None:
                self._check_basis(offset.basis, basis)
                self._check_partitions(cursor, offset.basis, storage)
                # A plan by key continues unchanged after a rewrite, and with new partitions.
                known = Continuity.of(offset.basis.continuity)
                now = replace(known, links=storage.partitions).to_text()
                basis = replace(offset.basis, continuity=now)
            table_rows = self._rows(cursor, storage)
            after = offset.upper_bounds[-1] if offset else None
            chunk_bytes = self._chunk_bytes or default_chunk_bytes(storage.bytes)
            most = most_chunks or max(BATCH_CHUNKS * LARGEST_CHUNK_BYTES // chunk_bytes, 1)
            if basis.kind == ChunkKind.KEY:
                step = self._rows_per_chunk(table_rows, storage.bytes, chunk_bytes)
                found = self._walk(cursor, storage, basis, after, most=most, rows=table_rows, step=step)
            elif basis.kind == ChunkKind.TID:
                found = _tid_bounds(storage, after, chunk_bytes, most, table_rows)
            else:
                found = _Found(bounds=(), rows=0, finished=True)
        left = max(table_rows - (offset.rows_planned if offset else 0) - found.rows, 0)
        rows = found.rows + (left if found.finished else 0)
        return advance(basis, offset, bounds=found.bounds, rows=rows, finished=found.finished)

    def confirm(self, offset: SnapshotOffset) -> None:
        """Check the basis of an earlier plan in the same way as before planning the next chunks.

        Raises:
            SourceError: as `plan`.
        """
        self.check_row_filter()
        with self._transaction() as cursor:
            storage = self._storage(cursor)
            refuse_other_table(self._table.name, self._relation, storage.relation)
            self._check_basis(offset.basis, self._basis(storage))
            self._check_partitions(cursor, offset.basis, storage)

    def check_table(self) -> None:
        """Check that the table is the expected one.

        Raises:
            SourceError: SNAPSHOT_TABLE_REPLACED, or a condition of `named_errors`.
        """
        with self._transaction() as cursor:
            refuse_other_table(self._table.name, self._relation, self._storage(cursor).relation)

    def estimate(self) -> TableEstimate:
        """Return the size of the table, for percentages and remaining times."""
        with self._transaction() as cursor:
            storage = self._storage(cursor)
            return TableEstimate(rows=self._rows(cursor, storage), bytes=storage.bytes)

    def warnings(self) -> tuple[PlanWarning, ...]:
        """Return the warnings about the plan of this table."""
        with self._transaction() as cursor:
            storage = self._storage(cursor)
        if self._basis(storage).kind != ChunkKind.WHOLE:
            return ()
        reason = (
            f"it has no key, and PostgreSQL {storage.server_version // 10000} has no ranges of row addresses"
            if all(leaf.heap for leaf in storage.leaves)
            else "it has no key, and it is not stored as an ordinary table"
        )
        what, remedy = describe("SNAPSHOT_IN_ONE_CHUNK", {"table": self._table.name, "reason": reason})
        return (PlanWarning(condition="SNAPSHOT_IN_ONE_CHUNK", what=what, remedy=remedy),)

    def check_row_filter(self) -> None:
        """Check the row filter without reading rows.

        Raises:
            SourceError: SNAPSHOT_ROW_FILTER_INVALID, with PostgreSQL's message.
        """
        if self._row_filter is None:
            return
        with self._transaction() as cursor:
            relation = relation_sql(self._table.name, partitioned=self._storage(cursor).partitioned)
            try:
                for statement in filter_check_sql(relation, self._row_filter):
                    cursor.execute(statement)
            except psycopg2.Error as error:
                raise filter_fault(self._table.name, self._row_filter, str(error)) from error

    def _basis(self, storage: TableStorage) -> PlanBasis:
        by_key = bool(storage.key) and self._table.key_kind != KeyKind.NONE and storage.key_indexed
        unbounded = ChunkKind.TID if storage.has_tid_ranges else ChunkKind.WHOLE
        return PlanBasis(
            kind=ChunkKind.KEY if by_key else unbounded,
            source_identity=self._source_identity,
            storage_id=storage.storage_id,
            key=storage.key if by_key else (),
            generation=self._generation,
            continuity=Continuity(table=storage.relation, member=self._membership, links=storage.partitions).to_text(),
            position=self._position,
            columns=tuple((column.name, column.identity.number) for column in self._table.columns),
            stamps=tuple((column.name, column.identity.stamp) for column in self._table.columns),
            horizon=storage.horizon,
        )

    def _check_partitions(self, cursor: Cursor, planned: PlanBasis, storage: TableStorage) -> None:
        def query(text: str) -> list[tuple[Any, ...]]:
            cursor.execute(text)
            return list(cursor.fetchall())

        refuse_changed_partitions(self._table.name, planned, storage, query)

    def _check_basis(self, planned: PlanBasis, now: PlanBasis) -> None:
        table = self._table.name
        if planned.source_identity != now.source_identity:
            raise SourceError(
                "SNAPSHOT_SOURCE_CHANGED", table=table, planned=planned.source_identity, found=now.source_identity
            )
        refuse_other_table(table, *(Continuity.of(each.continuity).table for each in (planned, now)))
        if planned.generation != now.generation:
            raise plan_fault(table, f"they are of generation {planned.generation}, not {now.generation}")
        if planned.kind != now.kind or planned.key != now.key:
            raise plan_fault(table, "its key, or the type or collation of a key column, has changed")
        if planned.kind == ChunkKind.TID and planned.storage_id != now.storage_id:
            raise plan_fault(table, "PostgreSQL has rewritten its rows to new addresses")

    def _walk(
        self,
        cursor: Cursor,
        storage: TableStorage,
        basis: PlanBasis,
        after: Bound | None,
        *,
        most: int,
        rows: int,
        step: int,
    ) -> _Found:
        cursor.execute(search_path_sql(column.operator_schema for column in basis.key))
        relation = relation_sql(self._table.name, partitioned=storage.partitioned)
        bounds: list[Bound] = []
        if rows >= self._seeded_rows and not storage.partitioned:
            bounds = known_bounds(cursor, self._table.name, basis, after, rows=rows, step=step, most=most)
        while len(bounds) < most:
            cursor.execute(next_bound_sql(relation, basis.key, bounds[-1] if bounds else after, step))
            found = cursor.fetchone()
            if found is None:
                break
            bounds.append(Bound(tuple(found)))
        return _Found(bounds=tuple(bounds), rows=step * len(bounds), finished=len(bounds) < most)

    def _rows_per_chunk(self, rows: int, size: int, chunk_bytes: int) -> int:
        if rows <= 0 or size <= 0:
            return self._least_rows
        return max(self._least_rows, round(chunk_bytes * rows / size))

    def _storage(self, cursor: Cursor) -> TableStorage:
        key = self._table.key if self._table.key_kind != KeyKind.NONE else ()
        cursor.execute(storage_sql(self._table.name, key, sizes=True))
        row = cursor.fetchone()
        storage = parse_storage(row[0]) if row else None
        if storage is None:
            raise plan_fault(self._table.name, "the table no longer exists")
        if len(storage.key) != len(key):
            raise plan_fault(self._table.name, "a key column no longer exists")
        return storage

    def _rows(self, cursor: Cursor, storage: TableStorage) -> int:
        known = storage.estimated_rows
        if known is not None or storage.blocks == 0:
            return known or 0
        relation = relation_sql(self._table.name, partitioned=storage.partitioned)
        percent = min(100.0, 100.0 * _SAMPLED_BLOCKS / storage.blocks)
        # SYSTEM reads only the sampled blocks; their number is random, so it is counted too.
        cursor.execute(
            f"SELECT count(*), count(DISTINCT ({ALIAS}.tableoid, (({ALIAS}.ctid::text)::point)[0])) "
            f"FROM {relation} AS {ALIAS} TABLESAMPLE SYSTEM ({percent!r})"
        )
        row = cursor.fetchone()
        return round(int(row[0]) * storage.blocks / int(row[1])) if row and row[1] else 0

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        """Open a short transaction that locks the table against rewrites."""
        with named_errors(self._session.connection, table=self._table.name), self._session.raw.cursor() as cursor:
            cursor.execute(BEGIN)
            try:
                cursor.execute(settings_sql(self._limits, bounded=True))
                cursor.execute(lock_sql(self._table.name))
                yield cursor
            finally:
                if not self._session.raw.closed:
                    cursor.execute("ROLLBACK")


def _tid_bounds(storage: TableStorage, after: Bound | None, chunk_bytes: int, most: int, rows: int) -> _Found:
    """Return the next bounds by address; in a partitioned table a chunk is the same block range in each partition."""
    if storage.blocks == 0:
        return _Found(bounds=(), rows=0, finished=True)
    per_chunk = max(1, chunk_bytes * storage.blocks // max(storage.bytes, 1))
    longest = max(leaf.blocks for leaf in storage.leaves)
    first = 0 if after is None else int(after.values[0].strip("()").split(",")[0]) + 1
    bounds: list[Bound] = []
    covered = 0
    while len(bounds) < most:
        active = sum(leaf.blocks > first for leaf in storage.leaves)
        end = first + max(1, per_chunk // max(active, 1))
        if end >= longest:
            break
        covered += sum(min(leaf.blocks, end) - min(leaf.blocks, first) for leaf in storage.leaves)
        bounds.append(Bound((f"({end - 1},{_LAST_ROW_OF_BLOCK})",)))
        first = end
    planned = round(rows * covered / storage.blocks)
    return _Found(bounds=tuple(bounds), rows=planned, finished=len(bounds) < most)
