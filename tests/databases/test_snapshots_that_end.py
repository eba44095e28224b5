"""A snapshot that is stopped leaves nothing behind at the database: no connection, and no statement that goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from framework import Pipeline
from framework.checkpoints.offsets import CheckpointProgress
from framework.foundation.errors import SourceError
from framework.ingest.connections import named_connection
from framework.run.update.results import UpdateState
from framework.sources.databases.formats import snapshot_request
from framework.sources.databases.postgres.session import OpenConnections, arrow_connection
from framework.sources.databases.streams.staged_stream import StagedSnapshotStream
from framework.sources.staging.place import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
MODULE = """
from framework import pipelines as dp

@dp.table
def copied():
    reader = spark.readStream.format("postgres_snapshot").option("connection", "bank").option("table", "t")
    return reader.option("connectionsFolder", spark.conf.get("bank.folder")).option("slot", "ends_s").load()
"""
_OURS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sluice'"
_WAITING = f"{_OURS} AND wait_event_type = 'Lock'"
_DEADLINE_SECONDS = 60
_SOON_SECONDS = 20
"""A wait for the lock takes a minute."""


_SILENT_SECONDS = 6
_PROXY = f"""
import os, socket, sys, threading

def pump(source, target):
    while data := source.recv(65536):
        target.sendall(data)

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
client, _ = listener.accept()
server = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for pair in ((client, server), (server, client)):
    threading.Thread(target=pump, args=pair, daemon=True).start()
kept = [listener.accept()]
threading.Timer({_SILENT_SECONDS}, os._exit, [0]).start()
while True:
    kept.append(listener.accept())
"""
"""Passes one connection on, answers no other one, such as that of a cancel, and ends some seconds after that."""


@pytest.fixture
def table(run: Run) -> None:
    """A table of some chunks."""
    run("CREATE TABLE t (id bigint PRIMARY KEY, label integer)")
    run("INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i")


@contextmanager
def locked(database: str, table: str) -> Iterator[None]:
    """Lock a table against readers for the time of the block."""
    connection = psycopg2.connect(database)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
    finally:
        connection.close()


def until(run: Run, query: str, wanted: Callable[[int], bool]) -> None:
    """Wait until a count is as wanted."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not wanted(run(query)[0][0]):
        assert time.monotonic() < deadline, query
        time.sleep(0.02)


@pytest.mark.usefixtures("table")
def test_a_plan_that_is_not_wanted_any_more_ends_at_the_server(
    database: str, folder: Path, run: Run, spark: SparkSession
) -> None:
    """The plan that is made ahead waits for a lock; its statement is cancelled and its connection closed."""
    request = snapshot_request({"connection": "bank", "table": "t", "connectionsFolder": str(folder)})
    staging = Staging(folder=str(folder / "staged"), prefix="snapshot", columns=(("id", "bigint"), ("label", "int")))
    with locked(database, "t"):
        stream = StagedSnapshotStream(spark, request, staging, CheckpointProgress())
        until(run, _WAITING, lambda count: count == 1)
        begun = time.monotonic()
        stream.end()
        until(run, _OURS, lambda count: count == 0)
        assert time.monotonic() - begun < _SOON_SECONDS
    with pytest.raises(SourceError) as caught:
        stream.next_offset(None)
    assert caught.value.condition == "DATABASE_UNREACHABLE"
    until(run, _OURS, lambda count: count == 0)


def test_a_server_that_does_not_answer_a_cancel_stops_no_other_thread(database: str) -> None:
    """The other flows of the process, its lease and Ctrl-C depend on that."""
    place = psycopg2.extensions.parse_dsn(database)
    command = [sys.executable, "-c", _PROXY, "127.0.0.1", str(place["port"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        port = int(proxy.stdout.readline())
        connection = psycopg2.connect(database, host="127.0.0.1", port=port)
        opened = OpenConnections()
        opened.add(connection)

        def sleep_at_the_server() -> None:
            with suppress(psycopg2.Error):
                connection.cursor().execute("SELECT pg_sleep(100)")

        sleeper = Thread(target=sleep_at_the_server, daemon=True)
        sleeper.start()
        time.sleep(0.5)
        opened.end()
        ticks = [time.monotonic()]
        while ticks[-1] < ticks[0] + _SILENT_SECONDS / 2:
            time.sleep(0.05)
            ticks.append(time.monotonic())
        assert proxy.wait(_DEADLINE_SECONDS) == 0
        sleeper.join(_DEADLINE_SECONDS)
    assert max(late - early for early, late in pairwise(ticks)) < _SILENT_SECONDS / 2


@pytest.mark.usefixtures("table")
def test_few_rows_that_this_process_reads_are_not_waited_for_after_the_end(
    database: str, folder: Path, run: Run, spark: SparkSession
) -> None:
    """No job reads them. A read that waits for a lock is cancelled, and its connection closed; a later one fails."""
    request = snapshot_request({"connection": "bank", "table": "t", "connectionsFolder": str(folder)})
    staging = Staging(folder=str(folder / "staged"), prefix="snapshot", columns=(("id", "bigint"), ("label", "int")))
    stream = StagedSnapshotStream(spark, request, staging, CheckpointProgress())
    planned, faults = str(stream.next_offset(None)), list[str]()
    assert [file["rows"] for file in stream.write_files(stream.batch(None, planned))] == [5000]
    batch = stream.batch(None, planned)

    def write() -> None:
        try:
            stream.write_files(batch)
        except SourceError as error:
            faults.append(error.condition)

    with locked(database, "t"):
        writing = Thread(target=write, daemon=True)
        writing.start()
        until(run, _WAITING, lambda count: count == 1)
        stream.end()
        writing.join(_SOON_SECONDS)
    connection = named_connection("bank", str(folder))
    assert faults == ["SNAPSHOT_CHUNK_TIMEOUT"]  # nobody sees it: the query has ended
    until(run, _OURS, lambda count: count == 0)
    assert len(list((folder / "staged").iterdir())) == 1
    with pytest.raises(SourceError), stream._connections.entered(), arrow_connection(connection) as opened:
        opened.cursor()


@pytest.mark.usefixtures("table")
def test_an_update_stops_though_its_plan_waits_for_a_lock(
    database: str, folder: Path, run: Run, interpreting: SparkSession
) -> None:
    """Spark waits for its sources when a query stops. The next update has each row once."""
    (folder / "module.py").write_text(MODULE, "utf-8")
    pipeline = Pipeline(
        name="ends", modules=[folder / "module.py"], storage=str(folder / "storage"),
        configuration={"bank.folder": str(folder)}, spark=interpreting,
    )  # fmt: skip
    running = None
    try:
        # Which only the plan reads: a new connection may open each catalog that has a cache.
        with locked(database, "pg_inherits"):
            running = pipeline.start()
            until(run, _WAITING, lambda count: count > 0)
            begun = time.monotonic()
            running.stop()
            assert time.monotonic() - begun < _SOON_SECONDS
            until(run, _OURS, lambda count: count == 0)
    finally:
        if running is not None:
            running.stop()
    assert pipeline.run().state is UpdateState.COMPLETED
    rows = pipeline.table("copied").orderBy("id").collect()
    assert [(row.id, row.label) for row in rows] == [(number, number) for number in range(1, 5001)]
