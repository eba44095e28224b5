"""Readers of `database_snapshot`: the rows of a table as a stream that ends, read in chunks; the same for all dialects.

The offset in the flow's checkpoint records which chunks are planned, with their bounds. So a killed stream continues
with the chunks of its last micro-batch, and progress is stored nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from framework.sources.databases.chunks import (
    BATCH_CHUNKS,
    BEGINNING,
    Chunk,
    PlanBasis,
    SnapshotOffset,
    chunks_between,
    column_fault,
    read_offset,
)

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.fs import FileSystem

    from framework.foundation.added_columns import AddedColumn
    from framework.sources.databases.tables import SourceTable, TableName
    from framework.sources.staging.files import StagedFile

_ALL_CHUNKS = 1_000_000


class ChunkReader(Protocol):
    """Reads chunks of one plan; before each chunk, the basis of the plan is compared with the table."""

    def batches(self, chunk: Chunk) -> Iterator[RecordBatch]:
        """Read a chunk, with bounded memory.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID, SNAPSHOT_TABLE_REPLACED, SNAPSHOT_COLUMN_CHANGED, or the database can't
                be read.
        """
        ...

    def write_parquet(
        self, chunk: Chunk, folder: str, filesystem: FileSystem, *, prefix: str = "", added: AddedColumn | None = None
    ) -> StagedFile:
        """Read a chunk into a new file of an existing folder, see `write_staged_file`.

        Raises:
            SourceError: as `batches`.
        """
        ...


class OpenConnections(Protocol):
    """The connections that threads open inside `entered`, so that another thread can end all of them."""

    def entered(self) -> AbstractContextManager[None]:
        """Add the connections that this thread opens in the block."""
        ...

    def end(self) -> None:
        """Cancel running statements and close all connections, present and future; return at once."""
        ...


class SnapshotRequest(Protocol):
    """The request for a snapshot, as its options describe it; tasks get a copy of it."""

    @property
    def table(self) -> TableName:
        """The table."""
        ...

    @property
    def chunks_per_trigger(self) -> int | None:
        """The most chunks of a micro-batch; None to derive it from their size."""
        ...

    def schema(self) -> str:
        """Return the columns with their Spark types, as DDL."""
        ...

    def describe(self, names: Sequence[str] = ()) -> tuple[SourceTable, tuple[Any, ...]]:
        """Return the table, and its columns with these names, which have a `name` and a `spark_type`.

        Raises:
            SluiceError: the database can't be read, or has no such column.
        """
        ...

    def refuse_rewritten(self, table: SourceTable, columns: Sequence[Any], basis: PlanBasis) -> None:
        """Refuse columns whose values may have been recomputed since the plan.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID, or the database can't be read.
        """
        ...

    def plan(self, start: SnapshotOffset | None, most_chunks: int | None) -> SnapshotOffset:
        """Return the offset after the next chunks; before the first chunk, make sure that the log has the table.

        Raises:
            SluiceError: the plan can't be continued, or the database can't be read.
        """
        ...

    def confirm(self, planned: SnapshotOffset) -> None:
        """Check that an earlier plan can be continued now.

        Raises:
            SluiceError: as `plan`.
        """
        ...

    def reader(self, part: ChunkPartition) -> ChunkReader:
        """Return a reader of the chunks of a plan."""
        ...

    def connections(self) -> OpenConnections:
        """Return the object that can end the connections that threads open."""
        ...


class ChunkPartition(InputPartition):
    """A chunk for one task."""

    def __init__(self, plan: SnapshotOffset, chunk: Chunk, columns: tuple[Any, ...]) -> None:
        super().__init__(chunk.number)
        self.plan = plan
        self.chunk = chunk
        self.columns = columns


class SnapshotStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans chunks from offset to offset; each is read by a task.

    Args:
        request: what to read.
        columns: names of the columns of the stream, in their order.
        analysed: the Spark types with which the query was analysed, by column; the types of the table if omitted.
    """

    def __init__(
        self, request: SnapshotRequest, columns: tuple[str, ...], analysed: Mapping[str, str] | None = None
    ) -> None:
        self._request = request
        self._columns = columns
        self._analysed = analysed

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing: a snapshot ends by itself."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the most chunks of a micro-batch, as a limit of files: Spark has no read limit in chunks."""
        return ReadMaxFiles(self._request.chunks_per_trigger or BATCH_CHUNKS)

    def initialOffset(self) -> dict[str, Any]:
        """Return the beginning, which does not depend on the table."""
        return _as_dict(BEGINNING)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the offset after the next chunks; `start` itself at the end of the snapshot."""
        previous = _as_offset(start)
        if previous is not None and previous.finished:
            return start
        most = _ALL_CHUNKS if isinstance(limit, ReadAllAvailable) else self._request.chunks_per_trigger
        return _as_dict(self._request.plan(previous, most).to_json())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the chunks between two offsets, exactly as they were planned.

        Raises:
            SourceError: SNAPSHOT_COLUMN_CHANGED if a column has another type than in the analysed query, or
                SNAPSHOT_PLAN_INVALID if a column was altered by a rewrite of the rows since the plan.
        """
        planned = _as_offset(end)
        chunks = chunks_between(_as_offset(start), planned)
        if planned is None or not chunks:
            return ()
        # Checked for each batch, so that its tasks fail only if a type changes during the batch: see `ChunkReader`.
        table, described = self._request.describe(self._columns)
        self._request.refuse_rewritten(table, described, planned.basis)
        types = self._checked(described)
        return [ChunkPartition(planned, chunk, types) for chunk in chunks]

    def _checked(self, types: tuple[Any, ...]) -> tuple[Any, ...]:
        for column in types:
            found = column.spark_type.lower()
            expected = found if self._analysed is None else self._analysed[column.name]
            if found != expected:
                raise column_fault(self._request.table, column.name, found=found, expected=expected)
        return types

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a chunk."""
        assert isinstance(partition, ChunkPartition)
        return self._request.reader(partition).batches(partition.chunk)


class SnapshotBatchReader(DataSourceReader):
    """Reads the whole table, for `spark.read`; its chunks are read at different times, as in a stream.

    Args:
        request: what to read.
        columns: names of the columns, in their order.
    """

    def __init__(self, request: SnapshotRequest, columns: tuple[str, ...]) -> None:
        self._request = request
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return all chunks."""
        planned = self._request.plan(None, _ALL_CHUNKS)
        types = self._request.describe(self._columns)[1]
        return [ChunkPartition(planned, chunk, types) for chunk in chunks_between(None, planned)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a chunk."""
        assert isinstance(partition, ChunkPartition)
        return self._request.reader(partition).batches(partition.chunk)


def _as_offset(value: Mapping[str, Any]) -> SnapshotOffset | None:
    return read_offset(json.dumps(value))


def _as_dict(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
