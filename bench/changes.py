"""Changes of PostgreSQL: against `pg_recvlogical`, from commit to visibility, and the memory of a large transaction.

`python -m bench changes [--rows N] [--pairs N]`. Both readers of a pair have a slot of their own that was created
before the same log was written: transactions of 1,000 inserts. `pg_recvlogical` writes it to /dev/null.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

import psycopg2
from pyspark.sql import functions as F

from bench.measure import Measure, pair_ratio, scratch_folder
from bench.reader_memory import PeakMemory
from bench.snapshot_chunks import EVEN, fill
from framework.demo.postgres_server import PostgresServer
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 500_000
RECEIVER_GOAL, LATENCY_GOAL, MEMORY_GOAL = 0.5, 5.0, 400.0
_TRANSACTION, _LARGE = 1_000, 1_000_000
_CHANGES_PER_SECOND, _TRANSACTIONS_PER_SECOND, _SECONDS = 500, 10, 60
_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "8GB"}
_TIMEOUT_SECONDS = 900
_STAGING = """
from framework import pipelines as dp

@dp.table(table_properties={"pipelines.autoOptimize.managed": "false"})
def log():
    reader = spark.readStream.format("postgres_changes").option("connection", "bench").option("slot", "bench_ours")
    return reader.option("connectionsFolder", spark.conf.get("bench.folder")).option("tables", "events").load()
"""
_TARGET = f"""{_STAGING}
from pyspark.sql import functions as F

dp.create_streaming_table("events", table_properties={{"pipelines.autoOptimize.managed": "false"}})

@dp.auto_cdc_flow(
    target="events", keys=["id"], sequence_by="struct(position, ordinal)", name="events_flow",
    apply_as_deletes="operation = 'DELETE'", except_column_list=["operation", "position", "ordinal"],
)
def changes():
    row = F.from_json("payload", "id BIGINT, updated TIMESTAMP_NTZ, note STRING").alias("row")
    rows = dp.read_stream("log").select("operation", "position", "ordinal", row)
    return rows.select("operation", "position", "ordinal", "row.*")
"""


def measure(pairs: int, rows: int = ROWS) -> list[Measure]:
    """(d), (e) and (f); one unmeasured pair warms the session."""
    found: list[Measure] = []
    with PostgresServer(_SETTINGS) as server, scratch_folder() as folder:
        fill(server.uri(), "events", EVEN, 1)
        (folder / "connections.yml").write_text(f"bench: {server.uri()}\n", "utf-8")
        spark = start_session(app_name="bench", master="local[2]", spark_conf={})
        try:
            bench = _Changes(spark, folder, server)
            found += [bench.against_receiver(pairs, rows), bench.latency(), bench.large_transaction(rows)]
        finally:
            stop_session(spark)
    return found


class _Changes:
    """Runs of two pipelines on one server.

    Args:
        spark: the session.
        folder: has the connection, and gets what is written.
        server: has the table `events`.
    """

    def __init__(self, spark: SparkSession, folder: Path, server: PostgresServer) -> None:
        self._spark = spark
        self._folder = folder
        self._server = server
        self._next_key = 2

    def against_receiver(self, pairs: int, rows: int) -> Measure:
        """(d) Rows per second into committed staging."""
        pipeline = self._pipeline("staging", _STAGING)
        pipeline.run()  # creates publication and slot
        self._query("SELECT pg_create_logical_replication_slot('bench_theirs', 'pgoutput')")
        times = []
        for _ in range(pairs + 1):
            self._insert(rows, _TRANSACTION)
            theirs = self._receive()
            begun = time.monotonic()
            result = pipeline.run()
            times.append((time.monotonic() - begun, theirs))
            assert [flow.rows_written for flow in result.flows] == [rows], result
        self._query("SELECT pg_drop_replication_slot('bench_theirs')")
        ours, receiver = ([pair[side] for pair in times[1:] or times] for side in (0, 1))
        return Measure(
            benchmark="d17", what="changes into committed staging, rows/s / pg_recvlogical to /dev/null", unit="x",
            goal=RECEIVER_GOAL, at_most=False, value=1 / pair_ratio(ours, receiver),
            detail=f"{rows / median(ours):,.0f} / {rows / median(receiver):,.0f} rows/s, {len(ours)} pairs",
        )  # fmt: skip

    def latency(self) -> Measure:
        """(e) Seconds from a commit at the source to the commit of the target that has it."""
        pipeline = self._pipeline("continuous", _TARGET, slot="bench_continuous")
        pipeline.run()
        update = pipeline.start()
        try:
            self._write_for(_SECONDS)
            time.sleep(LATENCY_GOAL * 4)
        finally:
            update.stop()
        table = Path(str(pipeline.storage.root)) / "tables" / "main" / "default" / "events"
        visible = _commit_times(table)
        # Compaction and MERGE write rows again: the first file that has a row counts, so all files are read.
        rows = self._spark.read.parquet(*(str(table / name) for name in visible)).where("note = 'timed'")
        file = F.element_at(F.split(F.col("_metadata.file_path"), "/"), -1)
        found = rows.select(
            "id", file.alias("file"), F.expr("unix_micros(cast(updated AS timestamp)) / 1e6").alias("at")
        )
        first: dict[tuple[int, float], float] = {}
        for row in found.collect():
            key = row["id"], row["at"]
            first[key] = min(first.get(key, visible[row.file]), visible[row.file])
        seconds = [at_target - at_source for (_, at_source), at_target in first.items()]
        p95 = quantiles(seconds, n=20)[-1]
        return Measure(
            benchmark="e17", what=f"median latency at {_CHANGES_PER_SECOND} changes/s", unit="s", goal=LATENCY_GOAL,
            value=median(seconds), detail=f"95 %: {p95:.1f} s, {len(seconds):,} changes",
        )  # fmt: skip

    def large_transaction(self, rows: int) -> Measure:
        """(f) The largest Python process while a transaction of a million rows is read."""
        count = max(rows * _LARGE // ROWS, 1)
        pipeline = self._pipeline("large", _STAGING, slot="bench_large")
        pipeline.run()
        self._insert(count, count)
        with PeakMemory() as peak:
            result = pipeline.run()
        assert [flow.rows_written for flow in result.flows] == [count], result
        return Measure(
            benchmark="f17c", what=f"largest Python process, a transaction of {count:,} rows", unit="MB",
            goal=MEMORY_GOAL, value=peak.megabytes, detail=f"{peak.processes} processes",
        )  # fmt: skip

    def _pipeline(self, name: str, module: str, slot: str = "bench_ours") -> Pipeline:
        place = self._folder / name
        place.mkdir()
        (place / "module.py").write_text(module.replace("bench_ours", slot), "utf-8")
        return Pipeline(
            name=f"bench_{name}", modules=[place / "module.py"], storage=str(place / "storage"),
            configuration={"bench.folder": str(self._folder)}, spark=self._spark,
        )  # fmt: skip

    def _insert(self, rows: int, transaction: int) -> None:
        """Copy the first row so many times, in transactions of so many rows."""
        columns = "customer, amount, price, quantity, created, updated, day, active, code, city, note"
        with self._cursor() as cursor:
            for first in range(self._next_key, self._next_key + rows, transaction):
                last = min(first + transaction, self._next_key + rows) - 1
                cursor.execute(
                    f"INSERT INTO events SELECT i, {columns} FROM events, generate_series(%s::bigint, %s) AS i "
                    "WHERE id = 1",
                    [first, last],
                )
        self._next_key += rows

    def _receive(self) -> float:
        """The time in which `pg_recvlogical` receives the log up to here."""
        end = str(self._query("SELECT pg_current_wal_insert_lsn()::text")[0][0])
        arguments = [
            "--slot", "bench_theirs", "--start", "--endpos", end, "--no-loop", "-o", "proto_version=1", "-o",
            "publication_names=bench_ours", "-f", "/dev/null", "-d",
        ]  # fmt: skip
        begun = time.monotonic()
        with self._heartbeat():
            subprocess.run(
                self._server.command("pg_recvlogical", arguments), check=True, timeout=_TIMEOUT_SECONDS,
                stdin=subprocess.DEVNULL, capture_output=True, cwd="/",
            )  # fmt: skip
        return time.monotonic() - begun

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

    def _write_for(self, seconds: float) -> None:
        """Write changes at a constant rate: four inserts and then an update of one of them, again and again."""
        number, begun = 0, time.monotonic()
        with self._cursor() as cursor:
            while (elapsed := time.monotonic() - begun) < seconds:
                if number >= elapsed * _TRANSACTIONS_PER_SECOND:
                    time.sleep(0.005)
                    continue
                number += 1
                changes = _CHANGES_PER_SECOND // _TRANSACTIONS_PER_SECOND
                first, inserted = self._next_key, changes * 4 // 5
                now = "(clock_timestamp() AT TIME ZONE 'UTC')"
                cursor.execute(
                    "BEGIN; INSERT INTO events (id, note, updated) SELECT i, 'timed', "
                    f"{now} FROM generate_series({first}::bigint, {first + inserted - 1}) AS i; "
                    f"UPDATE events SET updated = {now} WHERE id BETWEEN {first} AND {first + changes // 5 - 1}; COMMIT"
                )
                self._next_key += inserted

    @contextmanager
    def _cursor(self) -> Iterator[psycopg2.extensions.cursor]:
        with closing(psycopg2.connect(self._server.uri())) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                yield cursor

    def _query(self, statement: str) -> list[tuple[object, ...]]:
        with self._cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


def _commit_times(table: Path) -> dict[str, float]:
    """The time at which each file of a table became visible, in epoch seconds."""
    found: dict[str, float] = {}
    for commit in (table / "_delta_log").glob("[0-9]*.json"):
        for line in commit.read_text("utf-8").splitlines():
            add = json.loads(line).get("add")
            if add is not None:
                found.setdefault(add["path"], commit.stat().st_mtime)
    return found
