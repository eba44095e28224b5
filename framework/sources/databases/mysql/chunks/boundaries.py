"""Planning of a snapshot on MySQL and MariaDB: upper bounds of chunks, by a walk over the index of the key.

Used by the planner of a snapshot, in one process. A plan is not stored: it continues from the last bound of an offset.
"""

from __future__ import annotations

from collections.abc import Collection

import pymysql

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
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
from framework.sources.databases.mysql.chunks.chunk_sql import filter_check_sql, key_columns, next_bound_sql
from framework.sources.databases.mysql.faults import named_error, number_of
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.mysql.tables.catalog import CatalogTable, describe_table
from framework.sources.databases.tables import TableName

_LEAST_ROWS = 1000
_FILTER_FAULTS = (1054, 1064, 1149, 1241, 1305, 1318, 1582, 4078)
_STATEMENT_SECONDS = 600


class BoundaryWalker:
    """Plans the chunks of one table.

    The next upper bound is the key n rows after the last bound in the index of the key. Each row whose key does not
    change is in exactly one chunk, regardless of concurrent inserts, updates and deletes. A table without a key, and
    one whose key is on prefixes of texts, is one chunk.

    Args:
        session: on the source.
        table: the table.
        source_identity: identity of the server.
        generation: number of the snapshot of this table.
        row_filter: SQL condition; bounds ignore it, chunks apply it.
        chunk_bytes: target of a chunk on disk; by the size of the table if omitted.
        identity: what must identify the table; empty for any.
        position: the position of the log, for the plan; None if nothing reads the log.
        least_rows: fewest rows of a chunk, however wide.
    """

    def __init__(
        self,
        session: Session,
        table: TableName,
        *,
        source_identity: str,
        generation: int = 0,
        row_filter: str | None = None,
        chunk_bytes: int | None = None,
        identity: str = "",
        position: StoredPosition | None = None,
        least_rows: int = _LEAST_ROWS,
    ) -> None:
        self._session = session
        self._table = table
        self._source_identity = source_identity
        self._generation = generation
        self._row_filter = row_filter
        self._chunk_bytes = chunk_bytes
        self._identity = identity
        self._position = position
        self._least_rows = least_rows

    def plan(self, offset: SnapshotOffset | None, *, most_chunks: int | None = None) -> SnapshotOffset:
        """Return the offset after the next chunks, at least one; the same offset if it is finished.

        Args:
            offset: the last planned offset, from this or any earlier process; None to begin.
            most_chunks: longest batch; the last batch may have one more, of NULL keys. By their size if omitted.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID if the key changed since the plan, SNAPSHOT_SOURCE_CHANGED,
                SNAPSHOT_TABLE_REPLACED, SNAPSHOT_ROW_FILTER_INVALID, or a condition of `named_errors`.
        """
        if offset is not None and offset.finished:
            return offset
        table = self._checked(offset)
        basis = plan_basis(table, self._source_identity, self._generation, self._position)
        if offset is not None:
            basis = offset.basis
        size, rows = table.source.estimated_bytes, table.source.estimated_rows
        chunk_bytes = self._chunk_bytes or default_chunk_bytes(size)
        most = most_chunks or max(BATCH_CHUNKS * LARGEST_CHUNK_BYTES // chunk_bytes, 1)
        step = self._least_rows if min(rows, size) <= 0 else max(self._least_rows, round(chunk_bytes * rows / size))
        bounds = self._walk(table, basis, offset, most, step) if basis.kind == ChunkKind.KEY else ()
        is_finished = len(bounds) < most
        planned = step * len(bounds)
        left = max(rows - (offset.rows_planned if offset else 0) - planned, 0)
        return advance(basis, offset, bounds=bounds, rows=planned + (left if is_finished else 0), finished=is_finished)

    def confirm(self, offset: SnapshotOffset) -> None:
        """Check the basis of an earlier plan in the same way as before planning the next chunks.

        Raises:
            SourceError: as `plan`.
        """
        self._checked(offset)

    def check_row_filter(self) -> None:
        """Check the row filter without reading rows.

        Raises:
            SourceError: SNAPSHOT_ROW_FILTER_INVALID, with the message of the database.
        """
        if self._row_filter is None:
            return
        try:
            with self._session.raw.cursor() as cursor:
                for statement in filter_check_sql(self._table, self._row_filter):
                    cursor.execute(statement)
        except pymysql.Error as error:
            if number_of(error) in _FILTER_FAULTS:
                raise filter_fault(self._table, self._row_filter, str(error.args[-1])) from error
            account = self._session.account
            raise named_error(error, self._session.connection, table=self._table, account=account) from error

    def _checked(self, offset: SnapshotOffset | None) -> CatalogTable:
        table = describe_table(self._session, self._table)
        refuse_other_table(self._table, self._identity, table.source.identity)
        self.check_row_filter()
        if offset is not None:
            planned = offset.basis
            refuse_other_server(self._table, planned, self._source_identity)
            if planned.generation != self._generation:
                raise plan_fault(self._table, f"they are of generation {planned.generation}, not {self._generation}")
            refuse_changed_table(table, planned, ())
        return table

    def _walk(
        self, table: CatalogTable, basis: PlanBasis, offset: SnapshotOffset | None, most: int, step: int
    ) -> tuple[Bound, ...]:
        assert table.index is not None, "a plan by key has an index"
        bounds: list[Bound] = []
        after = offset.upper_bounds[-1] if offset else None
        self._session.execute(time_limit_sql(self._session, _STATEMENT_SECONDS))
        while len(bounds) < most:
            query = next_bound_sql(self._table, table.index.name, basis.key, after, step)
            found = self._session.rows(query, table=self._table)
            if not found:
                break
            after = Bound(tuple(map(_text, found[0])))
            bounds.append(after)
        return tuple(bounds)


def plan_basis(
    table: CatalogTable, source_identity: str, generation: int, position: StoredPosition | None
) -> PlanBasis:
    """Return the facts that a plan of a table depends on."""
    key = key_columns(table)
    source = table.source
    return PlanBasis(
        kind=ChunkKind.KEY if key else ChunkKind.WHOLE,
        source_identity=source_identity,
        storage_id=source.storage_id,
        key=key,
        generation=generation,
        continuity=source.identity,
        position=0 if position is None else position.order,
        horizon="" if position is None else position.to_json(),
        columns=tuple((column.name, column.identity.number) for column in source.columns),
        stamps=tuple((column.name, column.identity.stamp) for column in source.columns),
    )


def refuse_other_server(table: TableName, planned: PlanBasis, found: str) -> None:
    """Refuse a server that is not the one of a plan: it may lack transactions that other chunks show.

    Raises:
        SourceError: SNAPSHOT_SOURCE_CHANGED.
    """
    if planned.source_identity != found:
        raise SourceError("SNAPSHOT_SOURCE_CHANGED", table=table, planned=planned.source_identity, found=found)


def refuse_changed_table(table: CatalogTable, planned: PlanBasis, read: Collection[str]) -> None:
    """Refuse a table that is not the one of a plan.

    Args:
        table: the present table.
        planned: the basis of the plan.
        read: the columns that are read, whose definitions must be those of the plan.

    Raises:
        SourceError: SNAPSHOT_TABLE_REPLACED or SNAPSHOT_PLAN_INVALID.
    """
    name = table.source.name
    refuse_other_table(name, planned.continuity, table.source.identity)
    # The log says what was made again; without one, nothing else does.
    if not planned.position:
        refuse_other_table(name, planned.storage_id, table.source.storage_id)
    if planned.key != key_columns(table):
        raise plan_fault(name, "its key, or the type or collation of a key column, has changed")
    stamps, present = dict(planned.stamps), {column.name: column for column in table.source.columns}
    for column in sorted(read):
        if column in present and present[column].identity.stamp != stamps.get(column):
            raise plan_fault(name, f"the column {column} was altered since, which may have changed its values")


def filter_fault(table: TableName, row_filter: str, message: str) -> SourceError:
    """Return the error of a row filter that the database rejects, with its message."""
    return SourceError("SNAPSHOT_ROW_FILTER_INVALID", table=table, filter=row_filter, message=one_line(message))


def time_limit_sql(session: Session, seconds: int) -> str:
    """Return the statement that limits the time of each later statement; 0 removes the limit."""
    if session.server.is_mariadb:
        return f"SET SESSION max_statement_time = {seconds}"
    return f"SET SESSION max_execution_time = {seconds * 1000}"


def _text(value: object) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)
