"""Snapshots of a ledger for `database_snapshot`: a walk over the primary key, and chunks between two of its values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSystem

from framework.foundation.added_columns import AddedColumn
from framework.foundation.errors import SourceError
from framework.foundation.xxhash64 import UnhashableError
from framework.sources.databases.chunks import (
    Bound,
    Chunk,
    ChunkKind,
    KeyColumn,
    PlanBasis,
    SnapshotOffset,
    advance,
    plan_fault,
    refuse_other_table,
)
from framework.sources.databases.connections import Connection
from framework.sources.databases.options import Options
from framework.sources.databases.source_session import LogName
from framework.sources.databases.streams.snapshot_stream import ChunkPartition
from framework.sources.databases.tables import SourceTable, TableName
from framework.sources.staging.files import StagedFile, write_staged_file
from tests.support.ledger.source import LedgerSource, continuity

_TYPES = {
    "INTEGER": ("BIGINT", pa.int64()),
    "TEXT": ("STRING", pa.string()),
    "REAL": ("DOUBLE", pa.float64()),
    "BOOLEAN": ("BOOLEAN", pa.bool_()),
}
_ROWS_OF_CHUNK, _CHUNKS_OF_BATCH = 1000, 8


@dataclass(frozen=True)
class LedgerColumn:
    """A column with its Spark and Arrow types."""

    name: str
    spark_type: str
    arrow_type: pa.DataType


def columns_of(table: SourceTable) -> tuple[LedgerColumn, ...]:
    """Return the columns of a table."""
    return tuple(LedgerColumn(each.name, *_TYPES[each.type_name]) for each in table.columns)


class NoConnections:
    """A ledger has no connection that waits."""

    def entered(self) -> nullcontext[None]:
        """Add nothing."""
        return nullcontext()

    def end(self) -> None:
        """End nothing."""


@dataclass(frozen=True)
class LedgerSnapshot:
    """What the options of a snapshot ask for."""

    connection: Connection
    table: TableName
    columns: tuple[str, ...]
    row_filter: str | None
    chunk_rows: int
    chunks_per_trigger: int
    generation: int
    name: str | None
    identity: str

    @classmethod
    def of(cls, options: Options) -> LedgerSnapshot:
        """Read the options; a chunk has a row for each byte of `chunkBytes`."""
        return cls(
            connection=options.connection(),
            table=options.table("table"),
            columns=options.names("columns"),
            row_filter=options.optional("rowFilter"),
            chunk_rows=options.size("chunkBytes", _ROWS_OF_CHUNK),
            chunks_per_trigger=options.number("maxChunksPerTrigger", _CHUNKS_OF_BATCH),
            generation=options.number("generation", 0, least=0),
            name=options.optional("slot"),
            identity=options.text("identity", ""),
        )

    def schema(self) -> str:
        """Return the columns as DDL."""
        return ", ".join(f"`{each.name}` {each.spark_type}" for each in self.describe()[1])

    def describe(self, names: Sequence[str] = ()) -> tuple[SourceTable, tuple[LedgerColumn, ...]]:
        """Return the table and its columns."""
        with LedgerSource(self.connection) as source:
            table = source.read_table(self.table)
        wanted = tuple(names) or self.columns
        return table, tuple(each for each in columns_of(table) if not wanted or each.name in wanted)

    def refuse_rewritten(self, table: SourceTable, columns: Sequence[Any], basis: PlanBasis) -> None:
        """No column is altered in SQLite."""

    def plan(self, start: SnapshotOffset | None, most_chunks: int | None) -> SnapshotOffset:
        """Return the offset after the next chunks; the table is followed before the first one."""
        most = most_chunks or _CHUNKS_OF_BATCH
        with LedgerSource(self.connection) as source:
            table, known, position = source.read_table(self.table), continuity(source.read_table(self.table), 0), 0
            refuse_other_table(self.table, self.identity, table.identity)
            if start is None and self.name is not None:
                log = LogName(position=self.name, tables=self.name)
                position = source.ensure_position(log, [self.table]).order
                known = source.logged_tables(log).continuity(table)
            basis = self._basis(source, table, known, position)
            if start is not None:
                self._check(source, start, basis)
                basis = start.basis
            bounds = self._walk(source, table, start, most)
        finished = len(bounds) < most
        return advance(basis, start, bounds=bounds, rows=self.chunk_rows * len(bounds), finished=finished)

    def confirm(self, planned: SnapshotOffset) -> None:
        """Check a plan that was made earlier."""
        with LedgerSource(self.connection) as source:
            self._check(source, planned, self._basis(source, source.read_table(self.table), "", 0))

    def reader(self, part: ChunkPartition) -> LedgerChunks:
        """Return a reader of chunks."""
        return LedgerChunks(self, part.columns, part.plan.basis)

    def connections(self) -> NoConnections:
        """Return nothing to end."""
        return NoConnections()

    def _basis(self, source: LedgerSource, table: SourceTable, known: str, position: int) -> PlanBasis:
        return PlanBasis(
            kind=ChunkKind.KEY,
            source_identity=source.ledger.identity,
            storage_id="",
            key=tuple(KeyColumn(name=name, type_name="INTEGER") for name in table.key),
            generation=self.generation,
            continuity=known,
            position=position,
            columns=tuple((each.name, each.identity.number) for each in table.columns),
        )

    def _check(self, source: LedgerSource, planned: SnapshotOffset, now: PlanBasis) -> None:
        before = planned.basis
        if before.source_identity != now.source_identity:
            raise SourceError(
                "SNAPSHOT_SOURCE_CHANGED", table=self.table, planned=before.source_identity, found=now.source_identity
            )
        refuse_other_table(self.table, _page(before), source.read_table(self.table).identity)
        if (before.key, before.generation, before.columns) != (now.key, now.generation, now.columns):
            raise plan_fault(self.table, "its columns, its key or its generation have changed")

    def _walk(
        self, source: LedgerSource, table: SourceTable, start: SnapshotOffset | None, most: int
    ) -> tuple[Bound, ...]:
        (key,) = table.key
        bounds, after = list[Bound](), start.upper_bounds[-1].values[0] if start else None
        while len(bounds) < most:
            where = "1" if after is None else f'"{key}" > {int(after)}'
            rows = f'SELECT "{key}" FROM "{table.name.table}" WHERE {where} ORDER BY 1'
            found = source.ledger.one(f"{rows} LIMIT 1 OFFSET {self.chunk_rows - 1}")
            if found is None:
                break
            after = str(found)
            bounds.append(Bound((after,)))
        return tuple(bounds)


@dataclass(frozen=True)
class LedgerChunks:
    """Reads the chunks of one plan."""

    request: LedgerSnapshot
    columns: Sequence[LedgerColumn]
    basis: PlanBasis

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Read a chunk in one statement, after a look whether the table is the planned one."""
        (key,) = (column.name for column in self.basis.key)
        parts = ["1"] if self.request.row_filter is None else [f"({self.request.row_filter})"]
        parts += [f'"{key}" > {int(chunk.lower.values[0])}'] if chunk.lower else []
        parts += [f'"{key}" <= {int(chunk.upper.values[0])}'] if chunk.upper else []
        names = ", ".join(f'"{each.name}"' for each in self.columns)
        with LedgerSource(self.request.connection) as source:
            refuse_other_table(self.request.table, _page(self.basis), source.read_table(self.request.table).identity)
            query = f'SELECT {names} FROM "{self.request.table.table}" WHERE {" AND ".join(parts)}'
            rows = source.ledger.rows(query)
        arrays = [
            pa.array([None if row[place] is None else _value(row[place], each) for row in rows], each.arrow_type)
            for place, each in enumerate(self.columns)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def write_parquet(
        self, chunk: Chunk, folder: str, filesystem: FileSystem, *, prefix: str = "", added: AddedColumn | None = None
    ) -> StagedFile:
        """Read a chunk into a new file."""
        name = f"{prefix}-{self.basis.generation:04}-{chunk.number:08}"
        with suppress(UnhashableError):
            return write_staged_file(self.batches(chunk), self._schema, folder, name, filesystem, added=added)
        return write_staged_file(self.batches(chunk), self._schema, folder, name, filesystem)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([(each.name, each.arrow_type) for each in self.columns])


def _page(basis: PlanBasis) -> str:
    return basis.continuity.partition("/")[0]


def _value(value: Any, column: LedgerColumn) -> Any:
    return bool(value) if column.spark_type == "BOOLEAN" else value
