"""PostgreSQL, for the benchmarks of databases."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2

from bench.snapshot_chunks import EVEN, fill, place_chunks, plan_tasks, run_bare
from framework.demo.postgres_server import PostgresServer

_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB"}
_TIMEOUT_SECONDS = 900
_CHUNK_BYTES = 64 * 2**20


@contextmanager
def open_postgres() -> Iterator[PostgresSource]:
    """Start a server for the block."""
    with PostgresServer(_SETTINGS) as server:
        yield PostgresSource(server)


class PostgresSource:
    """A server of PostgreSQL.

    Args:
        server: it runs.
    """

    name, letters = "PostgreSQL", "17"
    driver = "org.postgresql:postgresql:42.7.7"
    bare, receiver = "two bare ADBC processes that write Parquet", "pg_recvlogical to /dev/null"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.uri = server.uri()

    @property
    def dlt_uri(self) -> str:
        """The connection as SQLAlchemy takes it."""
        return self.uri.replace("postgresql://", "postgresql+psycopg2://")

    def table(self, name: str) -> str:
        """The table with its schema."""
        return f"public.{name}"

    def fill(self, name: str, rows: int) -> None:
        """Create a table of so many rows."""
        fill(self.uri, name, EVEN, rows)

    def insert(self, first: int, last: int) -> None:
        """Copy the first row of `events`."""
        columns = "customer, amount, price, quantity, created, updated, day, active, code, city, note"
        self._query(
            f"INSERT INTO events SELECT i, {columns} FROM events, generate_series({first}::bigint, {last}) AS i "
            "WHERE id = 1"
        )

    def write_timed(self, first: int, inserted: int, updated: int) -> None:
        """Insert rows with the time, and update some of them."""
        now = "(clock_timestamp() AT TIME ZONE 'UTC')"
        self._query(
            "BEGIN; INSERT INTO events (id, note, updated) SELECT i, 'timed', "
            f"{now} FROM generate_series({first}::bigint, {first + inserted - 1}) AS i; "
            f"UPDATE events SET updated = {now} WHERE id BETWEEN {first} AND {first + updated - 1}; COMMIT"
        )

    def jdbc_options(self) -> Mapping[str, str]:
        """The options of Spark's JDBC reader."""
        address = self.uri.partition("@")[2]
        return {"url": f"jdbc:postgresql://{address}", "user": "postgres", "driver": "org.postgresql.Driver"}

    def bare_reader(self, pool: ProcessPoolExecutor) -> Callable[[Path], object]:
        """Two processes that read chunks by ADBC."""
        _, tasks = plan_tasks(self.uri, "even")
        return lambda folder: list(pool.map(run_bare, place_chunks(tasks, folder)))

    def plan_seconds(self, name: str) -> float:
        """The seconds of planning the chunks of a table."""
        return plan_tasks(self.uri, name, chunk_bytes=_CHUNK_BYTES)[0]

    def chunk_bytes(self, name: str, chunks: int) -> tuple[int, int]:
        """The size of chunks with which a table has about so many, and how many it has."""
        size = int(str(self._query(f"SELECT pg_table_size('{name}')")[0][0])) // chunks
        return size, len(plan_tasks(self.uri, name, size)[1])

    def rows_read(self) -> int:
        """The rows that the server has read by an index; each row of a chunk is one."""
        time.sleep(2)  # a connection that was lost reports its counts when the server notices
        statement = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_user_tables WHERE relname = 'even'"
        return int(str(self._query(statement)[0][0]))

    def begin_receiver(self) -> None:
        """Create a slot of its own, for the publication of Sluice's."""
        self._query("SELECT pg_create_logical_replication_slot('bench_theirs', 'pgoutput')")

    def receive(self) -> None:
        """Let `pg_recvlogical` receive the log up to here."""
        end = str(self._query("SELECT pg_current_wal_insert_lsn()::text")[0][0])
        arguments = [
            "--slot", "bench_theirs", "--start", "--endpos", end, "--no-loop", "-o", "proto_version=1", "-o",
            "publication_names=bench_ours", "-f", "/dev/null", "-d",
        ]  # fmt: skip
        with self._heartbeat():
            subprocess.run(
                self._server.command("pg_recvlogical", arguments), check=True, timeout=_TIMEOUT_SECONDS,
                stdin=subprocess.DEVNULL, capture_output=True, cwd="/",
            )  # fmt: skip

    def end_receiver(self) -> None:
        """Drop the slot."""
        self._query("SELECT pg_drop_replication_slot('bench_theirs')")

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Write to the log, so that the receiver sees a position behind its end and stops."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(0.05):
                self._query("SELECT pg_logical_emit_message(true, 'bench', '')")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _query(self, statement: str) -> list[tuple[object, ...]]:
        with closing(psycopg2.connect(self.uri)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
