"""Reads a chunk from MySQL or MariaDB as Arrow, and from there into a Parquet file.

Used by the task that reads a chunk. Each chunk is one statement, and so one consistent read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pymysql

from framework.foundation.errors import SourceError
from framework.foundation.xxhash64 import UnhashableError
from framework.sources.databases.chunks import Chunk, ChunkKind, PlanBasis, column_fault
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.chunks.boundaries import (
    refuse_changed_table,
    refuse_other_server,
    time_limit_sql,
)
from framework.sources.databases.mysql.chunks.chunk_sql import condition_sql, relation_sql
from framework.sources.databases.mysql.chunks.row_readers import (
    ReaderError,
    UnreadableValueError,
    has_fast_reader,
    read_fast,
    read_slowly,
)
from framework.sources.databases.mysql.faults import named_error, number_of, quoted
from framework.sources.databases.mysql.position import read_identity
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.tables.catalog import CatalogTable, describe_table
from framework.sources.databases.mysql.values.types import ColumnType, column_type
from framework.sources.databases.tables import TableName
from framework.sources.staging.files import StagedFile, write_staged_file

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from framework.foundation.added_columns import AddedColumn

_TIMED_OUT = (1969, 3024)
_STATEMENT_SECONDS = 600


class ChunkReader:
    """Reads chunks of one plan.

    The table is compared with the plan before the statement of a chunk and after it: no statement changes a table while
    it is read, so the rows are those of the planned table. If it is another one afterwards, no row is used.

    Args:
        connection: to the source.
        table: the table.
        columns: the columns to read, in the order of the output; at least one.
        basis: of the plan whose chunks are read.
        row_filter: SQL condition over the table's columns.
        text_columns: names of the columns that are read as text.
        is_fast: whether connectorx may be used.
        lock_seconds: longest wait for a lock of the table.
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
        is_fast: bool = True,
        lock_seconds: int = 60,
    ) -> None:
        self._connection = connection
        self._table = table
        self._columns = tuple(columns)
        self._basis = basis
        self._row_filter = row_filter
        self._text_columns = frozenset(text_columns)
        self._is_fast = is_fast
        self._lock_limit = f"SET SESSION lock_wait_timeout = {lock_seconds}"

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches and of the file."""
        return pa.schema([(column.name, column.arrow_type) for column in self._columns])

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Read a chunk; memory is bounded by a few batches, however large the chunk is.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID if key or columns changed since the plan, SNAPSHOT_TABLE_REPLACED,
                SNAPSHOT_COLUMN_CHANGED if a column has another Spark type than in `columns`, SNAPSHOT_CHUNK_TIMEOUT,
                DATABASE_VALUE_NOT_REPRESENTABLE, or a condition of `named_errors`.
        """
        with Session(self._connection) as session:
            self._refuse_other_server(session)
            table = describe_table(session, self._table)
            self._refuse_changed(table)
            columns = self._columns_of(table)
            bounded = chunk.kind == ChunkKind.KEY
            limits = [time_limit_sql(session, _STATEMENT_SECONDS if bounded else 0), self._lock_limit]
            try:
                if self._is_fast and has_fast_reader(self._connection, bounded=bounded):
                    yield from self._read_fast(table, columns, chunk, limits)
                else:
                    yield from self._read_slowly(session, table, columns, chunk, limits)
            except (UnicodeDecodeError, UnreadableValueError):
                self._refuse_text(table, columns, chunk)
                raise
            except (pymysql.Error, ReaderError) as error:
                raise self._fault(session, chunk, error) from None
            # The reader may be slow, so that the first connection is closed by now.
            with Session(self._connection) as later:
                self._refuse_other_server(later)
                self._refuse_changed(describe_table(later, self._table))

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
        with suppress(UnhashableError):
            return write_staged_file(self.batches(chunk), self.schema, folder, name, filesystem, added=added)
        return write_staged_file(self.batches(chunk), self.schema, folder, name, filesystem)

    def _read_slowly(
        self,
        session: Session,
        table: CatalogTable,
        columns: Sequence[ColumnType],
        chunk: Chunk,
        limits: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        for limit in limits:
            session.execute(limit)
        texts = [column.as_moment_text().widened() for column in columns]
        yield from self._converted(texts, read_slowly(session, self._select(table, texts, chunk)))

    def _read_fast(
        self, table: CatalogTable, columns: Sequence[ColumnType], chunk: Chunk, limits: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        def read(chosen: Sequence[ColumnType]) -> Iterator[pa.RecordBatch]:
            query = self._select(table, chosen, chunk)
            bounded = chunk.kind == ChunkKind.KEY
            return self._converted(chosen, read_fast(self._connection, query, limits, bounded=bounded))

        try:
            yield from read(columns)
        except UnreadableValueError as error:
            # A date that does not exist: read as text, it has an error with the value.
            for _ in read([column.as_moment_text() for column in columns]):
                pass
            # The value was corrected meanwhile.
            raise ReaderError(str(error)) from None

    def _converted(self, columns: Sequence[ColumnType], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for batch in batches:
            arrays = [column.from_arrow(array) for column, array in zip(columns, batch.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _select(self, table: CatalogTable, columns: Sequence[ColumnType], chunk: Chunk) -> str:
        selected = ", ".join(
            f"{column.select_expression(quoted(column.name))} AS c{place}" for place, column in enumerate(columns)
        )
        index = table.index.name if table.index is not None and chunk.kind == ChunkKind.KEY else None
        condition = condition_sql(chunk, self._basis.key, self._row_filter)
        return f"SELECT {selected} FROM {relation_sql(self._table, index)} WHERE {condition}"

    def _refuse_other_server(self, session: Session) -> None:
        if self._basis.position:  # else nothing reads the log, and each chunk counts for itself
            refuse_other_server(self._table, self._basis, read_identity(session))

    def _refuse_changed(self, table: CatalogTable) -> None:
        read = {column.name for column in self._columns} | {column.name for column in self._basis.key}
        if self._row_filter is not None:
            read |= {name for name, _ in self._basis.stamps}
        refuse_changed_table(table, self._basis, read)

    def _columns_of(self, table: CatalogTable) -> list[ColumnType]:
        """Return how the columns are read by their present types; a missing column fails in the SELECT."""
        present = {column.name: column for column in table.source.columns}
        columns = []
        for planned in self._columns:
            name = planned.name
            column = planned
            if name in present:
                column = column_type(self._table, present[name], as_text=name in self._text_columns)
            if column.spark_type != planned.spark_type:
                raise column_fault(self._table, name, found=column.spark_type, expected=planned.spark_type)
            columns.append(column)
        return columns

    def _refuse_text(self, table: CatalogTable, columns: Sequence[ColumnType], chunk: Chunk) -> None:
        """Raise the error of a text that is none in Unicode: MariaDB stores halves of surrogate pairs."""
        for column in columns:
            text = column.as_moment_text().widened()
            with Session(self._connection) as session, suppress(pymysql.Error):
                try:
                    for _ in read_slowly(session, self._select(table, [text], chunk)):
                        pass
                except UnicodeDecodeError as error:
                    column.refuse(str(error.object)[2:-1])

    def _fault(self, session: Session, chunk: Chunk, error: Exception) -> SourceError:
        if number_of(error) in _TIMED_OUT:
            return SourceError(
                "SNAPSHOT_CHUNK_TIMEOUT",
                table=self._table,
                number=chunk.number,
                message=self._connection.hide(str(error.args[-1])),
                seconds=_STATEMENT_SECONDS,
            )
        return named_error(error, self._connection, table=self._table, account=session.account)
