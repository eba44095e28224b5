"""Readers of `postgres_snapshot`: the rows of a PostgreSQL table as a stream that ends, read in chunks.

The offset in the flow's checkpoint says which chunks are planned, with their bounds. So a stream that is killed goes on
at the chunks of its last micro-batch, and nothing else remembers progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.chunks import (
    BEGINNING,
    Chunk,
    PlanBasis,
    SnapshotOffset,
    chunks_between,
    read_offset,
)
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.boundaries import BATCH_CHUNKS, BoundaryWalker
from framework.sources.databases.postgres.catalog import read_identity, read_table
from framework.sources.databases.postgres.chunk_reader import ChunkReader
from framework.sources.databases.postgres.membership import read_membership, refuse_filtered
from framework.sources.databases.postgres.position import ensure_position
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.snapshot_faults import column_fault, refuse_rewritten_columns
from framework.sources.databases.postgres.types import ColumnType, check_text_columns, column_types

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from framework.sources.databases.connections import Connection
    from framework.sources.databases.tables import SourceTable, TableName

OPTIONS = (
    "connection", "connectionsFolder", "table", "columns", "textColumns", "rowFilter", "chunkBytes",
    "maxChunksPerTrigger", "generation", "slot", "publication", "relation",
    "reader",
)  # fmt: skip
_ALL_CHUNKS = 1_000_000


@dataclass(frozen=True)
class SnapshotRequest:
    """What the options of a snapshot ask for."""

    connection: Connection
    table: TableName
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]
    row_filter: str | None
    chunk_bytes: int | None
    chunks_per_trigger: int | None
    generation: int
    slot: str | None
    publication: str | None
    relation: int
    slot_reader: str

    @classmethod
    def of(cls, options: Options) -> SnapshotRequest:
        """Read the options.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        return cls(
            connection=options.connection(),
            table=options.table("table"),
            columns=options.names("columns"),
            text_columns=options.names("textColumns"),
            row_filter=options.optional("rowFilter"),
            chunk_bytes=options.size("chunkBytes", 1) if options.optional("chunkBytes") else None,
            chunks_per_trigger=options.number("maxChunksPerTrigger", 1)
            if options.optional("maxChunksPerTrigger")
            else None,
            generation=options.number("generation", 0, least=0),
            slot=options.optional("slot"),
            publication=options.optional("publication") or options.optional("slot"),
            relation=options.number("relation", 0, least=0),
            slot_reader=options.text("reader", ""),
        )

    def schema(self) -> str:
        """Return the columns with their Spark types, as DDL."""
        return ", ".join(f"`{each.name.replace('`', '``')}` {each.spark_type}" for each in self.describe()[1])

    def describe(self, names: Sequence[str] = ()) -> tuple[SourceTable, tuple[ColumnType, ...]]:
        """Return the table, and its columns with these names; those of the options if no name is given.

        Raises:
            SourceError: the database can't be read.
            UserError: DATABASE_COLUMN_UNKNOWN, DATABASE_TEXT_COLUMN_UNKNOWN.
        """
        with Session(self.connection) as session:
            table = read_table(session, self.table)
        check_text_columns(table, self.text_columns)
        types = {each.name: each for each in column_types(table, self.text_columns)}
        wanted = tuple(names) or self.columns or tuple(types)
        for name in wanted:
            if name not in types:
                raise UserError(
                    "DATABASE_COLUMN_UNKNOWN", table=table.name, column=name, hint=nearest_hint(name, list(types))
                )
        return table, tuple(types[name] for name in wanted)

    def refuse_rewritten(self, table: SourceTable, columns: Sequence[ColumnType], basis: PlanBasis) -> None:
        """Refuse columns whose values may be computed anew since the plan.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID, or the database can't be read.
        """

        def query(text: str) -> list[tuple[Any, ...]]:
            with Session(self.connection) as session:
                return session.rows(text, table=table.name)

        stamps = {each.name: table.column(each.name).identity.stamp for each in columns}
        refuse_rewritten_columns(
            table.name, basis, stamps, storage_id=table.storage_id, partitioned=table.is_partitioned, query=query
        )

    def plan(self, start: SnapshotOffset | None, most_chunks: int | None) -> SnapshotOffset:
        """Return the offset after the next chunks.

        Before the first one, the log has the table's changes: a change that a chunk misses is in the log.
        """
        membership = position = 0
        if start is None and self.slot is not None and self.publication is not None:
            if self.relation:  # another table of this name must not get into the publication
                with Session(self.connection) as session:
                    self._walker(session).check_table()
            with Session(self.connection, read_only=False) as session:
                position = ensure_position(
                    session, self.slot, self.publication, (self.table,), reader=self.slot_reader
                ).lsn
                # A table that leaves the publication after this has another one when it comes back.
                members = read_membership(session, self.slot, self.publication)
                refuse_filtered(members, self.publication, [self.table])
                membership = members.tables.get(self.table, 0)
        with Session(self.connection) as session:
            return self._walker(session, membership, position).plan(start, most_chunks=most_chunks)

    def confirm(self, planned: SnapshotOffset) -> None:
        """Check that a plan that was made earlier is what a plan may build on now.

        Raises:
            SourceError: as `plan`.
        """
        with Session(self.connection) as session:
            self._walker(session).confirm(planned)

    def _walker(self, session: Session, membership: int = 0, position: int = 0) -> BoundaryWalker:
        return BoundaryWalker(
            session,
            read_table(session, self.table),
            source_identity=str(read_identity(session)),
            generation=self.generation,
            row_filter=self.row_filter,
            chunk_bytes=self.chunk_bytes,
            relation=self.relation,
            membership=membership,
            position=position,
        )

    def reader(self, part: ChunkPartition) -> ChunkReader:
        """Return a reader of the plan's chunks."""
        return ChunkReader(
            self.connection, self.table, part.columns, part.plan.basis, row_filter=self.row_filter,
            text_columns=self.text_columns,
        )  # fmt: skip


class ChunkPartition(InputPartition):
    """A chunk for one task."""

    def __init__(self, plan: SnapshotOffset, chunk: Chunk, columns: tuple[ColumnType, ...]) -> None:
        super().__init__(chunk.number)
        self.plan = plan
        self.chunk = chunk
        self.columns = columns


class SnapshotStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans chunks from offset to offset; each is read by a task.

    Args:
        request: what to read.
        columns: names of the columns of the stream, in their order.
        analysed: the Spark types that the query was analysed with, by column; those of the table if omitted.
    """

    def __init__(
        self, request: SnapshotRequest, columns: tuple[str, ...], analysed: Mapping[str, str] | None = None
    ) -> None:
        self._request = request
        self._columns = columns
        self._analysed = analysed

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing: a snapshot ends by itself."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """As many chunks in a micro-batch as the options say; Spark has no limit of its own in chunks."""
        return ReadMaxFiles(self._request.chunks_per_trigger or BATCH_CHUNKS)

    def initialOffset(self) -> dict[str, Any]:
        """The beginning, whatever the table is."""
        return _as_dict(BEGINNING)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset after the next chunks; `start` itself at the end of the snapshot."""
        previous = _as_offset(start)
        if previous is not None and previous.finished:
            return start
        most = _ALL_CHUNKS if isinstance(limit, ReadAllAvailable) else self._request.chunks_per_trigger
        return _as_dict(self._request.plan(previous, most).to_json())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The chunks between two offsets, exactly as they were planned.

        Raises:
            SourceError: SNAPSHOT_COLUMN_CHANGED if the query was analysed with other types than the table has now, or
                SNAPSHOT_PLAN_INVALID if a column was altered by a rewrite of the rows since the plan.
        """
        planned = _as_offset(end)
        chunks = chunks_between(_as_offset(start), planned)
        if planned is None or not chunks:
            return ()
        # Asked for each batch, so that its tasks fail only by a type that changes now: see `ChunkReader`.
        table, described = self._request.describe(self._columns)
        self._request.refuse_rewritten(table, described, planned.basis)
        types = self._checked(described)
        return [ChunkPartition(planned, chunk, types) for chunk in chunks]

    def _checked(self, types: tuple[ColumnType, ...]) -> tuple[ColumnType, ...]:
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
        """All chunks."""
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
