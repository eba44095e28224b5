"""Reads a chunk of a SQL Server table by the driver's Arrow reader, and writes it into a Parquet file.

Used by the task that reads a chunk. Each chunk has a connection and a statement of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.foundation.xxhash64 import UnhashableError
from framework.sources.databases.chunks import Chunk, PlanBasis, column_fault, plan_fault
from framework.sources.databases.sqlserver.chunks.basis import plan_basis, refuse_other_plan
from framework.sources.databases.sqlserver.chunks.chunk_sql import chunk_condition, chunk_select, filter_check_sql
from framework.sources.databases.sqlserver.tables.catalog import read_table
from framework.sources.databases.sqlserver.values.types import ColumnType
from framework.sources.databases.tables import TableName
from framework.sources.staging.files import StagedFile, write_staged_file

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyarrow.fs import FileSystem

    from framework.foundation.added_columns import AddedColumn
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.sqlserver.session import Connect, Session

_OF_FILTER = frozenset({"DATABASE_QUERY_FAILED", "DATABASE_COLUMN_MISSING"})


@dataclass(frozen=True)
class ChunkReader:
    """Reads chunks of one plan.

    The table is compared with the plan before and after each chunk: T-SQL has no lock on a table's definition that a
    query could take alone, and a table that was altered in between is another one afterwards.

    Args:
        connect: opens a session.
        connection: to the source.
        table: the table.
        columns: the columns to read, in the order of the output; at least one.
        basis: of the plan whose chunks are read.
        row_filter: SQL condition over the table's columns.
    """

    connect: Connect
    connection: Connection
    table: TableName
    columns: Sequence[ColumnType]
    basis: PlanBasis
    row_filter: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches and of the file."""
        return pa.schema([(column.name, column.arrow_type) for column in self.columns])

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Read a chunk; memory is bounded by a few batches, however large the chunk is.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID, SNAPSHOT_TABLE_REPLACED, SNAPSHOT_COLUMN_CHANGED,
                SNAPSHOT_ROW_FILTER_INVALID, DATABASE_VALUE_NOT_REPRESENTABLE, or the database can't be read.
        """
        condition, values = chunk_condition(chunk, self.basis.key, self.row_filter)
        selected = ", ".join(column.select_expression() for column in self.columns)
        with self.connect(self.connection) as session:
            self._check(session)
            query = chunk_select(self.table, selected, condition)
            try:
                for batch in session.batches(query, values, table=self.table):
                    arrays = [each.from_arrow(array) for each, array in zip(self.columns, batch.columns, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            except SourceError as error:
                self._check(session)
                raise self._filter_fault(session, error) from None
            self._check(session)

    def write_parquet(
        self, chunk: Chunk, folder: str, filesystem: FileSystem, *, prefix: str = "", added: AddedColumn | None = None
    ) -> StagedFile:
        """Read a chunk into a new file of an existing folder, see `write_staged_file`.

        Raises:
            SourceError: as `batches`.
        """
        name = f"{prefix}-{self.basis.generation:04}-{chunk.number:08}"
        with suppress(UnhashableError), closing(self._closable(chunk)) as batches:
            return write_staged_file(batches, self.schema, folder, name, filesystem, added=added)
        with closing(self._closable(chunk)) as batches:
            return write_staged_file(batches, self.schema, folder, name, filesystem)

    def _closable(self, chunk: Chunk) -> Generator[pa.RecordBatch, Any, None]:
        yield from self.batches(chunk)

    def _check(self, session: Session) -> None:
        """Compare the table with the plan, and its columns with those of the query."""
        table = read_table(session, self.table)
        now = plan_basis(session, table, generation=self.basis.generation, continuity="", position=0)
        refuse_other_plan(self.table, self.basis, now)
        stamps, planned = dict(now.stamps), dict(self.basis.stamps)
        types = {each.name: each.type_name for each in table.columns}
        for column in self.columns:
            if types.get(column.name) != column.type_name:
                found = types.get(column.name, "no column")
                raise column_fault(self.table, column.name, found=found, expected=column.type_name)
            if stamps[column.name] != planned.get(column.name, stamps[column.name]):
                raise plan_fault(self.table, f"the column {column.name} was altered")

    def _filter_fault(self, session: Session, error: SourceError) -> SourceError:
        """Return the error as one of the row filter if the filter fails by itself."""
        if self.row_filter is None or error.condition not in _OF_FILTER:
            return error
        try:
            session.rows(filter_check_sql(self.table, self.row_filter))
        except SourceError as fault:
            return filter_fault(self.table, self.row_filter, fault)
        return error


def filter_fault(table: TableName, row_filter: str, error: SourceError) -> SourceError:
    """Return the error of a row filter that the server rejects."""
    message = one_line(str(error.fields.get("cause", error)))
    return SourceError("SNAPSHOT_ROW_FILTER_INVALID", table=table, filter=row_filter, message=message)
