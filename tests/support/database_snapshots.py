"""A PostgreSQL table that is planned and read in chunks, with a new session for each step as after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg2

from framework.sources.databases.chunks import Chunk, SnapshotOffset, chunks_between
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.chunks.boundaries import BoundaryWalker
from framework.sources.databases.postgres.chunks.chunk_reader import ChunkReader
from framework.sources.databases.postgres.chunks.chunk_sql import condition_sql, search_path_sql
from framework.sources.databases.postgres.session import USER_PATH, Session
from framework.sources.databases.postgres.tables.catalog import read_table
from framework.sources.databases.postgres.values.types import column_types
from framework.sources.databases.tables import SourceTable, TableName

MOST_BATCHES = 500


@dataclass(frozen=True)
class World:
    """A database and one of its tables.

    Args:
        uri: of the database.
        name: of the table.
        options: of the walker.
        identity: of the server.
    """

    uri: str
    name: TableName = field(default_factory=lambda: TableName(schema="public", table="t"))
    options: dict[str, Any] = field(default_factory=lambda: {"chunk_bytes": 4000, "least_rows": 10})
    identity: str = "one"

    @property
    def connection(self) -> Connection:
        """The connection of the sources."""
        return Connection(name="test", uri=self.uri)

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with self.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor in autocommit mode on a connection of its own, with what a session keeps of the role's path."""
        opened = psycopg2.connect(self.uri)
        opened.autocommit = True
        try:
            with opened.cursor() as cursor:
                cursor.execute(f"SET {USER_PATH} = 'public'")
                yield cursor
        finally:
            opened.close()

    def table(self) -> SourceTable:
        """The table as the catalog has it."""
        with Session(self.connection) as session:
            return read_table(session, self.name)

    @contextmanager
    def walker(self, **options: Any) -> Iterator[BoundaryWalker]:
        """A walker on a session of its own."""
        with self.walker_of(self.table(), **options) as walker:
            yield walker

    @contextmanager
    def walker_of(self, table: SourceTable, **options: Any) -> Iterator[BoundaryWalker]:
        """A walker of a table that may be another one by now."""
        with Session(self.connection) as session:
            yield BoundaryWalker(session, table, **{"source_identity": self.identity, **self.options, **options})

    def plan(self, offset: SnapshotOffset | None = None, most: int = MOST_BATCHES, **options: Any) -> SnapshotOffset:
        """The offset after the next chunks."""
        with self.walker(**options) as walker:
            return walker.plan(offset, most_chunks=most)

    def plan_all(self, **options: Any) -> tuple[SnapshotOffset, tuple[Chunk, ...]]:
        """The last offset and all chunks, planned at once."""
        offset = self.plan(**options)
        assert offset.finished
        return offset, chunks_between(None, offset)

    def reader(self, offset: SnapshotOffset, column: str | None = None, **options: Any) -> ChunkReader:
        """A reader of all columns, or of one."""
        types = [each for each in column_types(self.table()) if column in (None, each.name)]
        return ChunkReader(self.connection, self.name, types, offset.basis, **options)

    def read(self, offset: SnapshotOffset, chunk: Chunk, column: str = "label", **options: Any) -> list[Any]:
        """The values of one column in a chunk."""
        batches = self.reader(offset, column, **options).batches(chunk)
        return [value for batch in batches for value in batch.column(column).to_pylist()]

    def chunks_of_rows(self, offset: SnapshotOffset, chunks: Sequence[Chunk]) -> dict[Any, list[int]]:
        """For each label that is in the table now, the numbers of the chunks that have it, as PostgreSQL decides."""
        key = offset.basis.key
        parts = [f"CASE WHEN {condition_sql(chunk, key)} THEN {chunk.number} END" for chunk in chunks]
        with self.cursor() as cursor:
            cursor.execute(search_path_sql(column.operator_schema for column in key).removesuffix("true)") + "false)")
            cursor.execute(
                f"SELECT label, array_remove(ARRAY[{', '.join(parts)}], NULL) FROM {self.name.quoted} AS chunked"
            )
            return dict(cursor.fetchall())


def make_table(
    world: World, rows: int = 500, columns: str = "id integer PRIMARY KEY, label integer, payload text"
) -> None:
    """Table t with keys 1 to `rows`."""
    world.run(
        f"CREATE TABLE {world.name.quoted} ({columns})",
        f"INSERT INTO {world.name.quoted} SELECT i, i, repeat('x', 100) FROM generate_series(1, {rows}) i",
    )
