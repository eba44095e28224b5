"""The request for a snapshot of a PostgreSQL table: its columns, the plans of its chunks, and their readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.chunks import PlanBasis, SnapshotOffset
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.chunks.boundaries import BoundaryWalker
from framework.sources.databases.postgres.chunks.chunk_reader import ChunkReader
from framework.sources.databases.postgres.chunks.snapshot_faults import refuse_rewritten_columns
from framework.sources.databases.postgres.log.position import ensure_position
from framework.sources.databases.postgres.session import OpenConnections, Session
from framework.sources.databases.postgres.tables.catalog import read_identity, read_table
from framework.sources.databases.postgres.tables.membership import read_membership, refuse_filtered
from framework.sources.databases.postgres.values.types import ColumnType, check_text_columns, column_types

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
            relation=options.number("identity", 0, least=0) if options.optional("identity") else 0,
            slot_reader=options.text("reader", ""),
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
        """Refuse columns whose values may have been recomputed since the plan.

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

        Before the first chunk, the table is added to the log, so every change that a chunk misses is in the log.
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
                # A table that leaves the publication after this and is added again has another membership.
                members = read_membership(session, self.slot, self.publication)
                refuse_filtered(members, self.publication, [self.table])
                membership = members.tables.get(self.table, 0)
        with Session(self.connection) as session:
            return self._walker(session, membership, position).plan(start, most_chunks=most_chunks)

    def confirm(self, planned: SnapshotOffset) -> None:
        """Check that an earlier plan can be continued now.

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
