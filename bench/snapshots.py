"""Snapshots of PostgreSQL through Spark: into committed staging, into a target by AUTO CDC, and of ten times the rows.

`python -m bench snapshots [--rows N] [--pairs N]`. All sides read the same table on one server, in turns, in one warm
session of two cores. The time of a flow is that of the whole update: analysis of the module, creation of the table,
start of the query, planning, commits and events, without the start of Python and the JVM. The bare ADBC processes have
started and are given their chunks before they are timed. The JDBC reader has twenty partitions of the range of keys,
which are even here; its time begins with `spark.read`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.measure import Measure, pair_ratio, run_process, scratch_folder
from bench.reader_memory import PeakMemory
from bench.snapshot_chunks import CHUNKS, EVEN, ROWS, fill, plan_tasks, reader_pool, run_bare, seconds_of_chunks
from framework.demo.postgres_server import PostgresServer
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BARE_GOAL, JDBC_GOAL, TARGET_GOAL, DLT_GOAL, GROWTH_GOAL, PLANNING_GOAL = 0.7, 3.0, 2.0, 1.0, 1.1, 2.0
MEMORY_GOAL = 400.0
DLT_PYTHON = "BENCH_DLT_PYTHON"
"""The variable with the path of a Python that has `dlt[sql-database,deltalake]`; without it, dlt is left out."""

_DRIVER = "org.postgresql:postgresql:42.7.7"
_GROWTH = 10
_TIMEOUT_SECONDS = 1800
_DLT_SCRIPT = Path(__file__).parent / "projects" / "dlt" / "load.py"
_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB"}
_READER = """
from framework import pipelines as dp

def rows():
    reader = spark.readStream.format("postgres_snapshot").option("connection", "bench")
    reader = reader.option("connectionsFolder", spark.conf.get("bench.folder"))
    return reader.option("table", spark.conf.get("bench.table")).load()
"""
_STAGING = f"""{_READER}
@dp.table
def copy():
    return rows()
"""
_TARGET = f"""{_READER}
dp.create_streaming_table("copy")

@dp.snapshot_flow(
    target="copy", keys=["id"], sequence_by="position", except_column_list=["position"], name="copy_snapshot_flow"
)
def snapshot():
    return rows().selectExpr("*", "0L AS position")
"""


def measure(pairs: int, rows: int = ROWS) -> list[Measure]:
    """(a), (b) and (h); one unmeasured pair warms the session and the server's cache."""
    with PostgresServer(_SETTINGS) as server, scratch_folder() as folder:
        uri = server.uri()
        fill(uri, "even", EVEN, rows)
        (folder / "connections.yml").write_text(f"bench: {uri}\n", "utf-8")
        spark = start_session(app_name="bench", master="local[2]", spark_conf={"spark.jars.packages": _DRIVER})
        try:
            sides = _Sides(spark, folder, uri, rows)
            sides.run(pairs + 1)
            found = [*sides.staging(), *sides.target()]
            if pairs:
                fill(uri, "large", EVEN, rows * _GROWTH)
                found += sides.growth()
        finally:
            stop_session(spark)
    return found


class _Sides:
    """The times of each side, in seconds, pair by pair.

    Args:
        spark: the session of all sides but the bare one and dlt.
        folder: has the connection, and gets what is written.
        uri: of the server.
        rows: of the table `even`.
    """

    def __init__(self, spark: SparkSession, folder: Path, uri: str, rows: int) -> None:
        self._spark = spark
        self._folder = folder
        self._uri = uri
        self._rows = rows
        self._turn = 0
        self._times: dict[str, list[float]] = {}

    def run(self, pairs: int) -> None:
        """Run all sides so many times."""
        _, tasks = plan_tasks(self._uri, "even")
        sides: dict[str, Callable[[], float]] = {
            "staging": lambda: self._flow(_STAGING, "even", self._rows),
            "JDBC into Parquet": lambda: self._jdbc("parquet"),
            "target": lambda: self._flow(_TARGET, "even", self._rows),
            "JDBC into Delta": lambda: self._jdbc("delta"),
        }
        if os.environ.get(DLT_PYTHON):
            sides["dlt"] = self._dlt
        with reader_pool() as pool:
            sides["bare"] = lambda: seconds_of_chunks(pool, run_bare, tasks)[0]
            for _ in range(pairs):
                for name, run in sides.items():
                    self._times.setdefault(name, []).append(run())

    def staging(self) -> list[Measure]:
        """(a) An append flow: its files are the table's."""
        return [
            self._ratio("a17", "staging", "bare", BARE_GOAL, "two bare ADBC processes that write Parquet"),
            self._ratio("a17", "staging", "JDBC into Parquet", JDBC_GOAL, "Spark JDBC into Parquet"),
        ]

    def target(self) -> list[Measure]:
        """(b) AUTO CDC into a target."""
        found = [self._ratio("b17", "target", "JDBC into Delta", TARGET_GOAL, "Spark JDBC into Delta")]
        if "dlt" in self._times:
            found.append(self._ratio("b17", "target", "dlt", DLT_GOAL, "dlt's sql_database into Delta"))
        return found

    def growth(self) -> list[Measure]:
        """(h), (f) Ten times the rows: time, the share of planning, and the memory of readers."""
        few = median(self._measured("staging")) / self._rows
        with PeakMemory() as peak:
            seconds = self._flow(_STAGING, "large", self._rows * _GROWTH)
        planning, _ = plan_tasks(self._uri, "large", chunk_bytes=64 * 2**20)
        return [
            Measure(
                benchmark="h17", what=f"time per row of {_GROWTH} x the rows / of these rows", unit="x",
                goal=GROWTH_GOAL, value=seconds / (self._rows * _GROWTH) / few,
                detail=f"{seconds:.1f} s for {self._rows * _GROWTH:,} rows",
            ),
            Measure(
                benchmark="h17", what="planning / reading", unit="%", goal=PLANNING_GOAL,
                value=100 * planning / seconds, detail=f"{planning:.2f} s / {seconds:.1f} s",
            ),
            Measure(
                benchmark="f17s", what="largest Python process, a snapshot", unit="MB", goal=MEMORY_GOAL,
                value=peak.megabytes, detail=f"{peak.processes} processes",
            ),
        ]  # fmt: skip

    def _measured(self, side: str) -> list[float]:
        """The times after the first one, which warmed; that one if there is no other."""
        return self._times[side][1:] or self._times[side]

    def _ratio(self, letter: str, ours: str, theirs: str, goal: float, what: str) -> Measure:
        mine, other = self._measured(ours), self._measured(theirs)
        rates = " / ".join(f"{self._rows / median(times):,.0f}" for times in (mine, other))
        return Measure(
            benchmark=letter, what=f"snapshot into {ours}, rows/s / {what}", unit="x", goal=goal, at_most=False,
            value=1 / pair_ratio(mine, other), detail=f"{rates} rows/s, {len(mine)} pairs",
        )  # fmt: skip

    def _place(self, name: str) -> Path:
        self._turn += 1
        place = self._folder / f"{name}_{self._turn}"
        place.mkdir()
        return place

    def _flow(self, module: str, table: str, rows: int) -> float:
        """The wall time of an update with one flow."""
        place = self._place("flow")
        (place / "module.py").write_text(module, "utf-8")
        configuration = {"bench.folder": str(self._folder), "bench.table": f"public.{table}"}
        begun = time.monotonic()
        pipeline = Pipeline(
            name=f"bench_{self._turn}", modules=[place / "module.py"], storage=str(place / "storage"),
            configuration=configuration, spark=self._spark,
        )  # fmt: skip
        result = pipeline.run()
        seconds = time.monotonic() - begun
        assert [flow.rows_written for flow in result.flows] == [rows], result
        return seconds

    def _jdbc(self, target: str) -> float:
        """The wall time of Spark's partitioned JDBC read into files."""
        place = self._place("jdbc")
        address, _, database = self._uri.partition("@")[2].partition("/")
        options = {
            "url": f"jdbc:postgresql://{address}/{database}", "user": "postgres", "dbtable": "even",
            "driver": "org.postgresql.Driver", "fetchsize": "10000", "partitionColumn": "id", "lowerBound": "1",
            "upperBound": str(self._rows), "numPartitions": str(CHUNKS),
        }  # fmt: skip
        begun = time.monotonic()
        self._spark.read.format("jdbc").options(**options).load().write.format(target).save(str(place / "table"))
        return time.monotonic() - begun

    def _dlt(self) -> float:
        """The wall time of dlt's load, as its own script measures it: without imports."""
        place = self._place("dlt")
        script = _DLT_SCRIPT
        command = [os.environ[DLT_PYTHON], str(script), self._uri, "even", str(place / "lake"), str(place / "figures")]
        run_process(command, folder=place, timeout_seconds=_TIMEOUT_SECONDS)
        figures = json.loads((place / "figures").read_text("utf-8"))
        assert figures["rows"] == self._rows, figures
        return float(figures["seconds"])
