"""(g) Rows that a snapshot reads again after kill -9 at random moments, counted by the server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

import psycopg2

from bench.measure import Measure, scratch_folder
from bench.snapshot_chunks import EVEN, ROWS, fill, plan_tasks
from framework.demo.postgres_server import PostgresServer
from framework.foundation.processes import kill_session

GOAL = 1.0
_CHUNKS_IN_FLIGHT = 2
_CHUNKS = 16
_SEED = 17
_TIMEOUT_SECONDS = 900
_MODULE = f"""
from framework import pipelines as dp

@dp.table
def copy():
    reader = spark.readStream.format("postgres_snapshot").option("connection", "bench").option("table", "even")
    reader = reader.option("connectionsFolder", spark.conf.get("bench.folder"))
    reader = reader.option("chunkBytes", spark.conf.get("bench.chunk_bytes"))
    return reader.option("maxChunksPerTrigger", {_CHUNKS_IN_FLIGHT}).load()
"""


def measure(kills: int, rows: int = ROWS) -> list[Measure]:
    """The largest share of a micro-batch that is read again after a kill."""
    random = Random(_SEED)  # noqa: S311 - moments of kills, not secrets
    shares: list[float] = []
    with PostgresServer({"shared_buffers": "256MB", "max_wal_size": "8GB"}) as server:
        fill(server.uri(), "even", EVEN, rows)
        for _ in range(kills):
            with scratch_folder() as folder:
                in_flight = _prepare(folder, server.uri(), rows)
                before = _rows_read(server.uri())
                _run_and_kill(folder, after_files=random.randrange(1, _CHUNKS - 1), pause=random.random() / 4)
                _finish(folder)
                shares.append((_rows_read(server.uri()) - before - rows) / in_flight)
    return [
        Measure(
            benchmark="g17", what="rows read again after kill -9 / rows of the chunks in flight", unit="x", goal=GOAL,
            value=max(shares), detail=f"{kills} kills, {_CHUNKS_IN_FLIGHT} chunks of {_CHUNKS} in flight, seed {_SEED}",
        )
    ]  # fmt: skip


def _prepare(folder: Path, uri: str, rows: int) -> int:
    """Write the pipeline, and return the rows of a micro-batch."""
    with closing(psycopg2.connect(uri)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_table_size('even')")
        ((size,),) = cursor.fetchall()
    chunk_bytes = size // _CHUNKS
    (folder / "connections.yml").write_text(f"bench: {uri}\n", "utf-8")
    (folder / "module.py").write_text(_MODULE, "utf-8")
    spec = {
        "name": "kills", "storage": "storage", "libraries": [{"file": {"path": "module.py"}}],
        "configuration": {"bench.folder": str(folder), "bench.chunk_bytes": str(chunk_bytes)},
    }  # fmt: skip
    (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    _, tasks = plan_tasks(uri, "even", chunk_bytes)
    return -(-rows // (len(tasks) - 1)) * _CHUNKS_IN_FLIGHT


def _run_and_kill(folder: Path, *, after_files: int, pause: float) -> None:
    """Run the pipeline, and kill all of its processes some time after a number of chunks were begun."""
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(
            _command(), cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while len(list(folder.glob("storage/tables/*/*/*/snapshot-*"))) < after_files:
            assert process.poll() is None, (folder / "log").read_text("utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(pause)
        kill_session(process.pid)
        process.wait(60)


def _finish(folder: Path) -> None:
    subprocess.run(_command(), cwd=folder, check=True, capture_output=True, timeout=_TIMEOUT_SECONDS)


def _command() -> list[str]:
    return [sys.executable, "-m", "framework", "run", "--master", "local[2]"]


def _rows_read(uri: str) -> int:
    """The rows that the server has read from the table by its index; each row of a chunk is one."""
    time.sleep(2)  # a connection that was lost reports its counts when the server notices
    with closing(psycopg2.connect(uri)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_user_tables WHERE relname = 'even'")
        ((rows,),) = cursor.fetchall()
    return int(rows)
