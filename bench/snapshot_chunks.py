"""Snapshots of PostgreSQL in chunks: against two bare ADBC processes, the share of planning, and skewed keys.

`python -m bench.snapshot_chunks [pairs] [rows]`; no Spark. Both sides read the same chunks in two processes, in turns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median

import psycopg2
import pyarrow.parquet as pq
from adbc_driver_postgresql import dbapi
from pyarrow.fs import LocalFileSystem

from bench.measure import Measure, pair_ratio, scratch_folder
from bench.results import render_line
from framework.demo.postgres_server import PostgresServer
from framework.sources.databases.chunks import Chunk, PlanBasis, chunks_between
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.chunks.boundaries import BoundaryWalker
from framework.sources.databases.postgres.chunks.chunk_reader import ChunkReader
from framework.sources.databases.postgres.chunks.chunk_sql import condition_sql
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import read_table
from framework.sources.databases.postgres.values.types import column_types
from framework.sources.databases.tables import SourceTable, TableName

ROWS = 2_000_000
GOAL_SHARE, GOAL_PLANNING_PERCENT, GOAL_SKEW = 0.7, 2.0, 1.5
_PROCESSES = 2
CHUNKS = 20
_COLUMNS = (
    "id bigint PRIMARY KEY, customer integer, amount numeric(12,2), price double precision, quantity smallint, "
    "created timestamptz, updated timestamp, day date, active boolean, code varchar(20), city text, note text"
)
_VALUES = (
    "i % 100000, (i % 1000000) / 100.0, i / 3.0, i % 100, timestamptz '2020-01-01' + i * interval '1 second', "
    "timestamp '2020-01-01' + i * interval '1 minute', date '2020-01-01' + (i % 1000)::integer, i % 2 = 0, "
    "'code-' || i % 5000, 'city number ' || i % 300, md5(i::text) || md5((i + 1)::text)"
)
EVEN = "i"
_SKEWED = "CASE WHEN i % 2 = 0 THEN i / 2 ELSE 1000000 + i * {step} END"


@dataclass(frozen=True, slots=True)
class Task:
    """A chunk to read in another process."""

    uri: str
    table: SourceTable
    basis: PlanBasis
    chunk: Chunk
    folder: str


def measure(pairs: int, rows: int = ROWS) -> list[Measure]:
    """Rows per second against the bare processes, planning, and skew."""
    with PostgresServer({"shared_buffers": "256MB", "max_wal_size": "4GB"}) as server, reader_pool() as pool:
        uri = server.uri()
        fill(uri, "even", EVEN, rows)
        fill(uri, "skewed", _SKEWED.format(step=10**15 // rows), rows)
        planning, tasks = plan_tasks(uri, "even")
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(pairs):
            bare.append(seconds_of_chunks(pool, run_bare, tasks)[0])
            ours.append(seconds_of_chunks(pool, _read, tasks)[0])
        _, skewed = plan_tasks(uri, "skewed")
        # The first pass warms the server's cache; the last chunk is a remainder.
        seconds_of_chunks(pool, _read, skewed)
        times = [
            min(pair) for pair in zip(*(seconds_of_chunks(pool, _read, skewed)[1][:-1] for _ in range(2)), strict=True)
        ]
    return [
        Measure(
            benchmark="chunks", what="rows/s of two readers / two bare ADBC processes that write Parquet", unit="x",
            goal=GOAL_SHARE, at_most=False, value=1 / pair_ratio(ours, bare),
            detail=f"{rows / median(ours):,.0f} / {rows / median(bare):,.0f} rows/s, {len(tasks)} chunks",
        ),
        Measure(
            benchmark="chunks", what="planning / reading", unit="%", goal=GOAL_PLANNING_PERCENT,
            value=100 * planning / median(ours), detail=f"{planning:.2f} s / {median(ours):.1f} s",
        ),
        Measure(
            benchmark="chunks", what="skewed keys: slowest chunk / mean", unit="x", goal=GOAL_SKEW,
            value=max(times) / mean(times), detail=f"{max(times):.2f} s / {mean(times):.2f} s, {len(times)} chunks",
        ),
    ]  # fmt: skip


def reader_pool() -> ProcessPoolExecutor:
    """Two processes that read chunks."""
    return ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn"))


def fill(uri: str, table: str, key: str, rows: int) -> None:
    """A table of so many rows, whose keys are an expression of `i`."""
    with psycopg2.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} ({_COLUMNS})")
        cursor.execute(f"INSERT INTO {table} SELECT {key}, {_VALUES} FROM generate_series(1::bigint, {rows}) i")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {table}")
    connection.close()


def plan_tasks(uri: str, name: str, chunk_bytes: int | None = None) -> tuple[float, list[Task]]:
    """The seconds of planning, and the chunks: `CHUNKS` of them, or by their size."""
    with Session(Connection(name="bench", uri=uri)) as session:
        table = read_table(session, TableName(schema="public", table=name))
        begun = time.monotonic()
        size = chunk_bytes or table.estimated_bytes // CHUNKS
        walker = BoundaryWalker(session, table, source_identity="bench", chunk_bytes=size)
        offset = walker.plan(None, most_chunks=1_000_000)
        seconds = time.monotonic() - begun
    folder = tempfile.gettempdir()
    return seconds, [Task(uri, table, offset.basis, chunk, folder) for chunk in chunks_between(None, offset)]


def place_chunks(tasks: Sequence[Task], folder: Path) -> list[Task]:
    """The chunks, to be written into a folder."""
    return [Task(task.uri, task.table, task.basis, task.chunk, str(folder)) for task in tasks]


def seconds_of_chunks(
    pool: ProcessPoolExecutor, read: Callable[[Task], tuple[float, int]], tasks: Sequence[Task]
) -> tuple[float, list[float]]:
    """The seconds of all chunks, and of each."""
    with scratch_folder() as folder:
        begun = time.monotonic()
        results = list(pool.map(read, place_chunks(tasks, folder)))
        seconds = time.monotonic() - begun
    return seconds, [result[0] for result in results]


def _read(task: Task) -> tuple[float, int]:
    begun = time.monotonic()
    connection = Connection(name="bench", uri=task.uri)
    reader = ChunkReader(connection, task.table.name, column_types(task.table), task.basis)
    staged = reader.write_parquet(task.chunk, task.folder, LocalFileSystem())
    return time.monotonic() - begun, staged.rows


def run_bare(task: Task) -> tuple[float, int]:
    """What the libraries do by themselves: numerics become text, nothing is checked, and there are no statistics."""
    begun = time.monotonic()
    rows = 0
    path = Path(task.folder) / f"{task.chunk.number}.parquet"
    statement = f"SELECT * FROM {task.table.name.quoted} AS chunked WHERE {condition_sql(task.chunk, task.basis.key)}"
    with dbapi.connect(task.uri) as opened, opened.cursor() as cursor:
        cursor.execute(statement)
        batches = cursor.fetch_record_batch()
        with pq.ParquetWriter(path, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
    return time.monotonic() - begun, rows


if __name__ == "__main__":
    for figure in measure(*map(int, sys.argv[1:3])) if sys.argv[1:] else measure(3):
        print(render_line(figure))
