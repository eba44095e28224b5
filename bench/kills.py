"""(g) Rows that a snapshot reads again after kill -9 at random moments, counted by the server.

`python -m bench kills [--rows N] [--pairs N]` on PostgreSQL, `mysql_kills` on MariaDB. A complete run counts first:
what it reads beside the rows, such as the catalog, is no reading again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from random import Random

from bench.mariadb_source import open_mariadb
from bench.measure import Measure, scratch_folder
from bench.postgres_source import open_postgres
from bench.snapshot_chunks import ROWS
from bench.sources import Open, Source
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
    reader = spark.readStream.format("database_snapshot").option("connection", "bench")
    reader = reader.option("table", spark.conf.get("bench.table"))
    reader = reader.option("connectionsFolder", spark.conf.get("bench.folder"))
    reader = reader.option("chunkBytes", spark.conf.get("bench.chunk_bytes"))
    return reader.option("maxChunksPerTrigger", {_CHUNKS_IN_FLIGHT}).load()
"""


def measure(kills: int, rows: int = ROWS, opened: Open = open_postgres) -> list[Measure]:
    """The largest share of a micro-batch that is read again after a kill."""
    random = Random(_SEED)  # noqa: S311 - moments of kills, not secrets
    shares: list[float] = []
    with opened() as source:
        source.fill("even", rows)
        whole, in_flight = _read_rows(source, rows, None)
        for _ in range(kills):
            read, _ = _read_rows(source, rows, (random.randrange(1, _CHUNKS - 1), random.random() / 4))
            shares.append((read - whole) / in_flight)
            print(f"{read:,} rows read, {whole:,} without a kill", flush=True)
    return [
        Measure(
            benchmark=f"g{source.letters}",
            what=f"rows of {source.name} read again after kill -9 / rows of the chunks in flight", unit="x", goal=GOAL,
            value=max(shares), detail=f"{kills} kills, {_CHUNKS_IN_FLIGHT} chunks of {_CHUNKS} in flight, seed {_SEED}",
        )
    ]  # fmt: skip


measure_mariadb = partial(measure, opened=open_mariadb)


def _read_rows(source: Source, rows: int, kill: tuple[int, float] | None) -> tuple[int, int]:
    """The rows that the server has read for a snapshot, and those of a micro-batch.

    Args:
        source: the database.
        rows: of the table.
        kill: the chunks that are begun before the kill, and the seconds after that; None for a run without one.
    """
    with scratch_folder() as folder:
        in_flight = _prepare(folder, source, rows)
        before = source.rows_read()
        if kill is not None:
            _run_and_kill(folder, after_files=kill[0], pause=kill[1])
        _finish(folder)
        return source.rows_read() - before, in_flight


def _prepare(folder: Path, source: Source, rows: int) -> int:
    """Write the pipeline, and return the rows of a micro-batch."""
    chunk_bytes, chunks = source.chunk_bytes("even", _CHUNKS)
    (folder / "connections.yml").write_text(f"bench: {source.uri}\n", "utf-8")
    (folder / "module.py").write_text(_MODULE, "utf-8")
    spec = {
        "name": "kills", "storage": "storage", "libraries": [{"file": {"path": "module.py"}}],
        "configuration": {
            "bench.folder": str(folder), "bench.chunk_bytes": str(chunk_bytes), "bench.table": source.table("even"),
        },
    }  # fmt: skip
    (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    return -(-rows // (chunks - 1)) * _CHUNKS_IN_FLIGHT


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
