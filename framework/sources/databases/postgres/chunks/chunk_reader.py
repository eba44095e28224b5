"""Reads a chunk from PostgreSQL: binary COPY to Arrow by ADBC, and from there into a Parquet file.

Used by the task that reads a chunk. Each chunk has a connection and a short transaction of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from adbc_driver_manager import Error as ArrowError

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.foundation.xxhash64 import UnhashableError
from framework.sources.databases.chunks import Chunk, ChunkKind, PlanBasis, column_fault, plan_fault, refuse_other_table
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.chunks.chunk_sql import (
    ALIAS,
    BEGIN,
    ReadLimits,
    condition_sql,
    filter_check_sql,
    lock_sql,
    relation_sql,
    search_path_sql,
    settings_sql,
)
from framework.sources.databases.postgres.chunks.snapshot_faults import (
    filter_fault,
    refuse_changed_partitions,
    refuse_rewritten_columns,
)
from framework.sources.databases.postgres.faults import named_errors
from framework.sources.databases.postgres.session import FLUSH_LOG, arrow_connection
from framework.sources.databases.postgres.tables.continuity import Continuity
from framework.sources.databases.postgres.tables.partitions import Query
from framework.sources.databases.postgres.tables.table_storage import TableStorage, parse_storage, storage_sql
from framework.sources.databases.postgres.values.types import ColumnType, column_type
from framework.sources.databases.tables import SourceColumn, TableName, quote_identifier
from framework.sources.staging.files import StagedFile, write_staged_file

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection as ArrowConnection
    from adbc_driver_manager.dbapi import Cursor as ArrowCursor
    from pyarrow.fs import FileSystem

    from framework.foundation.added_columns import AddedColumn

DEFAULT_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_SIZE_OPTION = "adbc.postgresql.batch_size_hint_bytes"
_TIMED_OUT = "57014"


class ChunkReader:
    """Reads chunks of one plan.

    Before each chunk, the basis of the plan and the columns are checked under the same lock as the read. So a rewritten
    table or a retyped key raises an error instead of reading another range of rows, and a retyped column raises an
    error instead of a cast. A column that was recreated, or altered by a rewrite, never mixes old and new values.

    Args:
        connection: to the source.
        table: the table.
        columns: the columns to read, in the order of the output; at least one.
        basis: of the plan whose chunks are read.
        row_filter: SQL condition over the table's columns.
        text_columns: names of the columns that are read as text.
        limits: of a statement.
        batch_bytes: target size of a record batch.
    """

    def __init__(
        self,
        connection: Connection,
        table: TableName,
        columns: Sequence[ColumnType],
        basis: PlanBasis,
        *,
        row_filter: str | None = None,
        text_columns: Collection[str] = (),
        limits: ReadLimits = ReadLimits(),  # noqa: B008 - frozen
        batch_bytes: int = DEFAULT_BATCH_BYTES,
    ) -> None:
        self._connection = connection
        self._table = table
        self._columns = tuple(columns)
        self._basis = basis
        self._row_filter = row_filter
        self._text_columns = frozenset(text_columns)
        self._limits = limits
        self._batch_bytes = batch_bytes

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches and of the file."""
        return pa.schema([(column.name, column.arrow_type) for column in self._columns])

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Read a chunk; memory is bounded by a few batches, however large the chunk is.

        The transaction ends when the iterator is exhausted or closed.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID if storage, key or columns changed since the plan,
                SNAPSHOT_TABLE_REPLACED, SNAPSHOT_COLUMN_CHANGED if a column has another Spark type than in `columns`,
                SNAPSHOT_ROW_FILTER_INVALID, SNAPSHOT_CHUNK_TIMEOUT, or a condition of `named_errors`, such as
                DATABASE_TABLE_MISSING or DATABASE_COLUMN_MISSING.
        """
        schema = self.schema
        with self._transaction(chunk) as cursor:
            storage = self._locked_storage(cursor)
            columns = self._columns_of(storage)
            cursor.execute(search_path_sql(column.operator_schema for column in self._basis.key))
            cursor.execute(self._select(relation_sql(self._table, partitioned=storage.partitioned), columns, chunk))
            # The public reader raises an OSError without SQLSTATE for an error in the middle of a COPY.
            rows = cursor._results  # noqa: SLF001 - see above
            assert rows is not None
            for batch in rows.reader:
                arrays = [column.from_arrow(array) for column, array in zip(columns, batch.columns, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            # The log has the later changes of these rows, unless a server crash loses the rows themselves.
            if self._basis.position:
                for statement in (FLUSH_LOG, "COMMIT"):
                    cursor.execute(statement)

    def write_parquet(
        self,
        chunk: Chunk,
        folder: str,
        filesystem: FileSystem,
        *,
        prefix: str = "snapshot",
        added: AddedColumn | None = None,
    ) -> StagedFile:
        """Read a chunk into a new file of an existing folder.

        Each call writes a file of its own; the module `staging.files` explains why no row is visible twice.

        Args:
            chunk: what to read.
            folder: the folder, as a path in the file system.
            filesystem: the file system of the folder.
            prefix: the beginning of the file's name.
            added: a column that is added to the rows. If its hash can't be computed for a value, the chunk is read
                again, and its file lacks the column.

        Raises:
            SourceError: as `batches`.
        """
        name = f"{prefix}-{self._basis.generation:04}-{chunk.number:08}"
        with suppress(UnhashableError), closing(self._closable(chunk)) as batches:
            return write_staged_file(batches, self.schema, folder, name, filesystem, added=added)
        with closing(self._closable(chunk)) as batches:
            return write_staged_file(batches, self.schema, folder, name, filesystem)

    def _closable(self, chunk: Chunk) -> Generator[pa.RecordBatch]:
        yield from self.batches(chunk)

    def _columns_of(self, storage: TableStorage) -> list[ColumnType]:
        """Return how the columns are read by their present types; a missing column fails in the SELECT."""
        types = storage.types
        columns = []
        for planned in self._columns:
            name = planned.name
            now = SourceColumn(name=name, type_name=types[name], nullable=True) if name in types else None
            column = planned if now is None else column_type(self._table, now, as_text=name in self._text_columns)
            if column.spark_type != planned.spark_type:
                raise column_fault(self._table, name, found=column.spark_type, expected=planned.spark_type)
            columns.append(column)
        return columns

    def _check_chosen(self, storage: TableStorage, query: Query) -> None:
        """Check the columns that are read and the columns that select the rows of a chunk: key and filter columns."""
        begun, key = dict(self._basis.columns), {column.name for column in self._basis.key}
        chosen = key | {column.name for column in self._columns}
        stamps = {}
        for name, number in storage.numbers.items():
            if name not in chosen and self._row_filter is None:
                continue
            if number != begun.get(name, number):
                raise plan_fault(self._table, f"the column {name} is another one than that of the chunks before")
            stamps[name] = storage.stamps[name]
        refuse_rewritten_columns(
            self._table,
            self._basis,
            stamps,
            storage_id=storage.storage_id,
            partitioned=storage.partitioned,
            query=query,
        )

    def _select(self, relation: str, columns: Sequence[ColumnType], chunk: Chunk) -> str:
        selected = ", ".join(
            f"{column.select_expression(f'{ALIAS}.{quote_identifier(column.name)}')} AS {quote_identifier(column.name)}"
            for column in columns
        )
        condition = condition_sql(chunk, self._basis.key, self._row_filter)
        return f"SELECT {selected} FROM {relation} AS {ALIAS} WHERE {condition}"

    @contextmanager
    def _transaction(self, chunk: Chunk) -> Iterator[ArrowCursor]:
        """Open a transaction on a new connection; close the connection afterwards, even in the middle of a COPY."""
        bounded = chunk.kind in (ChunkKind.KEY, ChunkKind.TID)
        with arrow_connection(self._connection) as opened, named_errors(self._connection, table=self._table):
            cursor = opened.cursor(adbc_stmt_kwargs={_BATCH_SIZE_OPTION: str(self._batch_bytes)})
            try:
                for statement in (BEGIN, settings_sql(self._limits, bounded=bounded), lock_sql(self._table)):
                    cursor.execute(statement)
                yield cursor
            except ArrowError as error:
                fault = self._fault(opened, chunk, error)
                if fault is not None:
                    raise fault from None
                raise
            finally:
                cursor.close()

    def _locked_storage(self, cursor: ArrowCursor) -> TableStorage:
        """Compare the table with the basis of the plan, and return it as it stays until the transaction ends."""
        basis = self._basis
        names = [column.name for column in basis.key]
        cursor.execute(storage_sql(self._table, names, types=True))
        row = cursor.fetchone()
        storage = parse_storage(row[0]) if row else None
        if storage is None:
            raise plan_fault(self._table, "the table no longer exists")

        def query(text: str) -> list[tuple[Any, ...]]:
            cursor.execute(text)
            return list(cursor.fetchall())

        self._check_storage(storage)
        refuse_changed_partitions(self._table, basis, storage, query)
        self._check_chosen(storage, query)
        return storage

    def _check_storage(self, storage: TableStorage) -> None:
        basis = self._basis
        refuse_other_table(self._table, Continuity.of(basis.continuity).table, storage.relation)
        if basis.kind == ChunkKind.TID and storage.storage_id != basis.storage_id:
            raise plan_fault(self._table, "PostgreSQL has rewritten its rows to new addresses")
        if storage.key != basis.key:
            raise plan_fault(self._table, "its key, or the type or collation of a key column, has changed")

    def _fault(self, opened: ArrowConnection, chunk: Chunk, error: ArrowError) -> SourceError | None:
        """Return the error if it is specific to the statement of a chunk; None for an error of any statement."""
        state = (error.sqlstate or "").strip("\0")
        message = self._connection.hide(str(error))
        if state == _TIMED_OUT:
            return SourceError(
                "SNAPSHOT_CHUNK_TIMEOUT",
                table=self._table,
                number=chunk.number,
                message=one_line(message),
                seconds=self._limits.statement_seconds,
            )
        if self._row_filter is None or state[:2] not in ("22", "42"):
            return None
        # Our own expressions raise no data errors, so an error of class 22 comes from the filter.
        if state[:2] == "22" or self._filter_fails(opened):
            return filter_fault(self._table, self._row_filter, message)
        return None

    def _filter_fails(self, opened: ArrowConnection) -> bool:
        """Whether the filter fails by itself, so that the cause is not a missing column or table."""
        relation = relation_sql(self._table, partitioned=True)
        with opened.cursor() as cursor:
            cursor.execute("ROLLBACK")
            try:
                cursor.execute(BEGIN)
                for statement in filter_check_sql(relation, str(self._row_filter)):
                    cursor.execute(statement)
            except ArrowError as error:
                return (error.sqlstate or "")[:2] == "42" and not (error.sqlstate or "").startswith("42P01")
        return False
