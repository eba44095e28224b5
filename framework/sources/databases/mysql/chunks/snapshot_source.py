"""The request for a snapshot of a table of MySQL or MariaDB: its columns, its plans, and the readers of its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.chunks import PlanBasis, SnapshotOffset
from framework.sources.databases.mysql.chunks.boundaries import BoundaryWalker
from framework.sources.databases.mysql.chunks.chunk_reader import ChunkReader
from framework.sources.databases.mysql.position import read_identity, safe_position
from framework.sources.databases.mysql.session import OpenConnections, Session
from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.mysql.tables.catalog import read_table
from framework.sources.databases.mysql.values.types import ColumnType, check_text_columns, column_types
from framework.sources.databases.options import Options

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.streams.snapshot_stream import ChunkPartition
    from framework.sources.databases.tables import SourceTable, TableName


@dataclass(frozen=True)
class SnapshotRequest:
    """The request for a snapshot, as its options describe it."""

    connection: Connection
    table: TableName
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]
    row_filter: str | None
    chunk_bytes: int | None
    chunks_per_trigger: int | None
    generation: int
    log: str | None
    identity: str

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
            log=options.optional("slot"),
            identity=options.text("identity", ""),
        )

    def schema(self) -> str:
        """Return the columns with their Spark types, as DDL."""
        return ", ".join(f"`{each.name.replace('`', '``')}` {each.spark_type}" for each in self.describe()[1])

    def describe(self, names: Sequence[str] = ()) -> tuple[SourceTable, tuple[ColumnType, ...]]:
        """Return the table and its columns with these names; without names, the columns that the options list.

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
        """Do nothing: the reader of a chunk refuses every column that was altered."""

    def plan(self, start: SnapshotOffset | None, most_chunks: int | None) -> SnapshotOffset:
        """Return the offset after the next chunks.

        The position is read before the first chunk, so every change that a chunk misses is in the log.
        """
        with Session(self.connection) as session:
            position = safe_position(session) if start is None and self.log is not None else None
            return self._walker(session, position).plan(start, most_chunks=most_chunks)

    def confirm(self, planned: SnapshotOffset) -> None:
        """Check that an earlier plan can be continued now.

        Raises:
            SourceError: as `plan`.
        """
        with Session(self.connection) as session:
            self._walker(session).confirm(planned)

    def _walker(self, session: Session, position: StoredPosition | None = None) -> BoundaryWalker:
        return BoundaryWalker(
            session,
            self.table,
            source_identity=read_identity(session),
            generation=self.generation,
            row_filter=self.row_filter,
            chunk_bytes=self.chunk_bytes,
            identity=self.identity,
            position=position,
        )

    def reader(self, part: ChunkPartition) -> ChunkReader:
        """Return a reader of the plan's chunks."""
        return ChunkReader(
            self.connection,
            self.table,
            part.columns,
            part.plan.basis,
            row_filter=self.row_filter,
            text_columns=self.text_columns,
        )

    def connections(self) -> OpenConnections:
        """Return the object that can end the connections that threads open."""
        return OpenConnections()
