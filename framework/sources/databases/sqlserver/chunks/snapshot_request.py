"""The request for a snapshot of a SQL Server table: its columns, the plans of its chunks, and their readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.chunks import (
    Bound,
    ChunkKind,
    PlanBasis,
    SnapshotOffset,
    advance,
    plan_fault,
    refuse_other_table,
)
from framework.sources.databases.options import Options
from framework.sources.databases.source_session import LogName
from framework.sources.databases.sqlserver.chunks.basis import plan_basis, refuse_other_plan
from framework.sources.databases.sqlserver.chunks.chunk_reader import ChunkReader
from framework.sources.databases.sqlserver.chunks.chunk_sql import walk_sql
from framework.sources.databases.sqlserver.log.position import ensure_position
from framework.sources.databases.sqlserver.logged_tables import SqlServerTables
from framework.sources.databases.sqlserver.tables.catalog import read_table
from framework.sources.databases.sqlserver.values.types import ColumnType, check_text_columns, column_types
from framework.sources.databases.tables import SourceTable, TableName

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.sqlserver.session import Connect, Session
    from framework.sources.databases.streams.snapshot_stream import ChunkPartition

_CHUNK_BYTES = 64 << 20
_LEAST_ROWS, _MOST_ROWS = 1000, 1_000_000
_CHUNKS_OF_BATCH = 8


class EndedSessions:
    """Ends the planning of a snapshot: a statement that runs is waited for, a new one fails."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Add the connections that this thread opens in the block."""
        yield

    def end(self) -> None:
        """Do nothing: the driver can't cancel a statement of another thread, and a walk is short."""


@dataclass(frozen=True)
class SnapshotRequest:
    """The request for a snapshot, as its options describe it."""

    connect: Connect
    connection: Connection
    table: TableName
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]
    row_filter: str | None
    chunk_bytes: int
    chunks_per_trigger: int | None
    generation: int
    name: str | None
    identity: str

    @classmethod
    def of(cls, options: Options, connect: Connect) -> SnapshotRequest:
        """Read the options.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        most = options.number("maxChunksPerTrigger", 1) if options.optional("maxChunksPerTrigger") else None
        return cls(
            connect=connect,
            connection=options.connection(),
            table=options.table("table"),
            columns=options.names("columns"),
            text_columns=options.names("textColumns"),
            row_filter=options.optional("rowFilter"),
            chunk_bytes=options.size("chunkBytes", _CHUNK_BYTES),
            chunks_per_trigger=most,
            generation=options.number("generation", 0, least=0),
            name=options.optional("slot"),
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
        with self.connect(self.connection) as session:
            table = read_table(session, self.table)
        check_text_columns(table, self.text_columns)
        types = {each.name: each for each in column_types(table, self.text_columns)}
        wanted = tuple(names) or self.columns or tuple(types)
        for name in wanted:
            if name not in types:
                hint = nearest_hint(name, list(types))
                raise UserError("DATABASE_COLUMN_UNKNOWN", table=table.name, column=name, hint=hint)
        return table, tuple(types[name] for name in wanted)

    def refuse_rewritten(self, table: SourceTable, columns: Sequence[ColumnType], basis: PlanBasis) -> None:
        """Refuse columns that were altered since the plan: their values may have been converted.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID.
        """
        planned = dict(basis.stamps)
        for each in columns:
            stamp = table.column(each.name).identity.stamp
            if stamp != planned.get(each.name, stamp):
                raise plan_fault(table.name, f"the column {each.name} was altered to {stamp}")

    def plan(self, start: SnapshotOffset | None, most_chunks: int | None) -> SnapshotOffset:
        """Return the offset after the next chunks; before the first chunk, make sure that the log has the table."""
        position, continuity = 0, ""
        with self.connect(self.connection) as session:
            table = read_table(session, self.table)
            refuse_other_table(self.table, self.identity, table.identity)
            if start is None and self.name is not None:
                log = LogName(position=self.name, tables=self.name)
                position = ensure_position(session, log, [self.table]).order
                table = read_table(session, self.table)  # the capture instance may lack a column
                continuity = SqlServerTables.read(session, log).continuity(table)
            basis = self._basis(session, table, continuity, position)
            if start is not None:
                refuse_other_plan(self.table, start.basis, basis)
                basis = start.basis
            rows = self._chunk_rows(table)
            most = most_chunks or self.chunks_per_trigger or _CHUNKS_OF_BATCH
            bounds = self._walk(session, basis, start, most, rows)
        finished = len(bounds) < most
        return advance(basis, start, bounds=bounds, rows=rows * len(bounds), finished=finished)

    def confirm(self, planned: SnapshotOffset) -> None:
        """Check that an earlier plan can be continued now.

        Raises:
            SourceError: SNAPSHOT_PLAN_INVALID, SNAPSHOT_TABLE_REPLACED, SNAPSHOT_SOURCE_CHANGED, or the database can't
                be read.
        """
        with self.connect(self.connection) as session:
            table = read_table(session, self.table)
            refuse_other_table(self.table, self.identity, table.identity)
            refuse_other_plan(self.table, planned.basis, self._basis(session, table, "", 0))

    def reader(self, part: ChunkPartition) -> ChunkReader:
        """Return a reader of the plan's chunks."""
        return ChunkReader(self.connect, self.connection, self.table, part.columns, part.plan.basis, self.row_filter)

    def connections(self) -> EndedSessions:
        """Return the object that ends planning."""
        return EndedSessions()

    def _basis(self, session: Session, table: SourceTable, continuity: str, position: int) -> PlanBasis:
        return plan_basis(session, table, generation=self.generation, continuity=continuity, position=position)

    def _chunk_rows(self, table: SourceTable) -> int:
        size = max(table.estimated_bytes // max(table.estimated_rows, 1), 1)
        return min(max(self.chunk_bytes // size, _LEAST_ROWS), _MOST_ROWS)

    def _walk(
        self, session: Session, basis: PlanBasis, start: SnapshotOffset | None, most: int, rows: int
    ) -> tuple[Bound, ...]:
        bounds: list[Bound] = []
        after = start.upper_bounds[-1] if start and start.upper_bounds else None
        while basis.kind is ChunkKind.KEY and len(bounds) < most:
            query, values = walk_sql(self.table, basis.key, after, rows)
            found = session.rows(query, values, table=self.table)
            if not found:
                break
            after = Bound(tuple(found[0]))
            bounds.append(after)
        return tuple(bounds)
