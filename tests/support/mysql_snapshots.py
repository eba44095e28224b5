"""A table of MySQL or MariaDB that is planned and read in chunks, with new sessions as after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from framework.sources.databases.chunks import Chunk, SnapshotOffset, chunks_between
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.chunks.boundaries import BoundaryWalker
from framework.sources.databases.mysql.chunks.chunk_reader import ChunkReader
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.tables.catalog import CatalogTable, describe_table
from framework.sources.databases.mysql.values.types import column_types
from framework.sources.databases.tables import TableName
from tests.support.mysql_servers import MysqlServer

_MOST_BATCHES = 500


@dataclass(frozen=True)
class SnapshotWorld:
    """A database and one of its tables.

    Args:
        server: the server.
        uri: of the database.
        table: the name of the table.
        options: of the walker.
    """

    server: MysqlServer
    uri: str
    table: str = "t"
    options: dict[str, Any] = field(default_factory=lambda: {"chunk_bytes": 1, "least_rows": 13})

    @property
    def database(self) -> str:
        """The database."""
        return urlsplit(self.uri).path.lstrip("/")

    @property
    def name(self) -> TableName:
        """The name of the table."""
        return TableName(schema=self.database, table=self.table)

    @property
    def connection(self) -> Connection:
        """The connection of the sources."""
        return Connection(name="test", uri=self.uri)

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own, without checks of the values."""
        with self.server.connect(self.database, charset="utf8mb4") as opened, opened.cursor() as cursor:
            cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query, with all values as texts of the server."""
        with self.server.connect(self.database, charset="utf8mb4") as opened, opened.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            opened.decoders = {}
            cursor.execute(query)
            return list(cursor.fetchall())

    def describe(self) -> CatalogTable:
        """The table in the catalog."""
        with Session(self.connection) as session:
            return describe_table(session, self.name)

    def plan(self, offset: SnapshotOffset | None, most: int | None = 3) -> SnapshotOffset:
        """Plan one batch."""
        with Session(self.connection) as session:
            walker = BoundaryWalker(session, self.name, source_identity="one", **self.options)
            return walker.plan(offset, most_chunks=most)

    def plans(self) -> Iterator[tuple[SnapshotOffset | None, SnapshotOffset]]:
        """Plan all batches; yield the offsets before and after each."""
        offset: SnapshotOffset | None = None
        for _ in range(_MOST_BATCHES):
            planned = self.plan(offset)
            yield offset, SnapshotOffset.from_json(planned.to_json())
            if planned.finished:
                return
            offset = planned

    def reader(self, plan: SnapshotOffset, *, text_columns: Sequence[str] = (), **options: Any) -> ChunkReader:
        """A reader of all columns."""
        types = column_types(self.describe().source, text_columns)
        return ChunkReader(self.connection, self.name, types, plan.basis, text_columns=text_columns, **options)

    def read(self, plan: SnapshotOffset, chunk: Chunk, **options: Any) -> list[dict[str, Any]]:
        """The rows of a chunk."""
        return [row for batch in self.reader(plan, **options).batches(chunk) for row in batch.to_pylist()]

    def snapshot(self, **options: Any) -> list[list[dict[str, Any]]]:
        """Read the whole table; the rows of each chunk."""
        return [self.read(end, chunk, **options) for start, end in self.plans() for chunk in chunks_between(start, end)]
