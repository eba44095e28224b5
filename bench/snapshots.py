"""Snapshots through Spark: into committed staging, into a target by AUTO CDC, and of ten times the rows.

`python -m bench snapshots [--rows N] [--pairs N]` on PostgreSQL, `mysql_snapshots` on MariaDB. All sides read the same
table on one server, in turns, in one warm session of two cores. The time of a flow is that of the whole update:
analysis of the module, creation of the table, start of the query, planning, commits and events, without the start of
Python and the JVM. The bare processes have started and are given their chunks before they are timed. The JDBC reader
has twenty partitions of the range of keys, which are even here; its time begins with `spark.read`. CPU seconds are
those of all processes but the server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.cpu import Cost
from bench.mariadb_source import open_mariadb
from bench.measure import Measure, run_process, scratch_folder
from bench.postgres_source import open_postgres
from bench.reader_memory import PeakMemory
from bench.snapshot_chunks import CHUNKS, ROWS, reader_pool
from bench.sources import Open, Source
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BARE_GOAL, TARGET_GOAL, DLT_GOAL, GROWTH_GOAL, PLANNING_GOAL = 0.7, 2.0, 1.0, 1.1, 2.0
JDBC_GOALS = {"PostgreSQL": 3.0, "MariaDB": 2.5}
MEMORY_GOAL = 400.0
DLT_PYTHON = "BENCH_DLT_PYTHON"
"""The variable with the path of a Python that has `dlt[sql-database,deltalake]` and the drivers `psycopg2` and
`pymysql`; without it, dlt is left out."""

_GROWTH = 10
_TIMEOUT_SECONDS = 1800
_DLT_SCRIPT = Path(__file__).parent / "projects" / "dlt" / "load.py"
_READER = """
from framework import pipelines as dp

def rows():
    reader = spark.readStream.format("database_snapshot").option("connection", "bench")
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


def measure(pairs: int, rows: int = ROWS, opened: Open = open_postgres, growth: int = _GROWTH) -> list[Measure]:
    """(a), (b) and (h); one unmeasured pair warms the session and the server's cache.

    Args:
        pairs: how often each side runs.
        rows: of the table.
        opened: the database.
        growth: how many times the rows the larger table has.
    """
    with opened() as source, scratch_folder() as folder:
        source.fill("even", rows)
        (folder / "connections.yml").write_text(f"bench: {source.uri}\n", "utf-8")
        spark = start_session(app_name="bench", master="local[2]", spark_conf={"spark.jars.packages": source.driver})
        try:
            sides = _Sides(spark, folder, source, rows)
            sides.run(pairs + 1)
            found = [*sides.staging(), *sides.target()]
            if pairs:
                source.fill("large", rows * growth)
                found += sides.growth(growth)
        finally:
            stop_session(spark)
    return found


measure_mariadb = partial(measure, opened=open_mariadb, growth=3)
"""The larger table is such that its chunks have the largest size."""


class _Sides:
    """What each side took, pair by pair.

    Args:
        spark: the session of all sides but the bare one and dlt.
        folder: has the connection, and gets what is written.
        source: has the table `even`.
        rows: of the table.
    """

    def __init__(self, spark: SparkSession, folder: Path, source: Source, rows: int) -> None:
        self._spark = spark
        self._folder = folder
        self._source = source
        self._rows = rows
        self._turn = 0
        self._costs: dict[str, list[Cost]] = {}

    def run(self, pairs: int) -> None:
        """Run all sides so many times."""
        with reader_pool() as pool:
            bare = self._source.bare_reader(pool)
            sides: dict[str, Callable[[], Cost]] = {
                "staging": lambda: self._flow(_STAGING, "even", self._rows),
                "bare": lambda: self._bare(bare),
                "JDBC into Parquet": lambda: self._jdbc("parquet"),
                "target": lambda: self._flow(_TARGET, "even", self._rows),
                "JDBC into Delta": lambda: self._jdbc("delta"),
            }
            if os.environ.get(DLT_PYTHON):
                sides["dlt"] = self._dlt
            for _ in range(pairs):
                for name, run in sides.items():
                    cost = run()
                    print(f"{name}: {cost.seconds:.1f} s, {cost.python:.1f} + {cost.java:.1f} CPU s", flush=True)
                    self._costs.setdefault(name, []).append(cost)

    def staging(self) -> list[Measure]:
        """(a) An append flow: its files are the table's."""
        goal = JDBC_GOALS[self._source.name]
        return [
            self._ratio("a", "staging", "bare", BARE_GOAL, self._source.bare),
            self._ratio("a", "staging", "JDBC into Parquet", goal, "Spark JDBC into Parquet"),
        ]

    def target(self) -> list[Measure]:
        """(b) AUTO CDC into a target."""
        found = [self._ratio("b", "target", "JDBC into Delta", TARGET_GOAL, "Spark JDBC into Delta")]
        if "dlt" in self._costs:
            found.append(self._ratio("b", "target", "dlt", DLT_GOAL, "dlt's sql_database into Delta"))
        return found

    def growth(self, times: int) -> list[Measure]:
        """(h), (f) A larger table: time, the share of planning, and the memory of readers."""
        few = median(cost.seconds for cost in self._measured("staging")) / self._rows
        with PeakMemory() as peak:
            seconds = self._flow(_STAGING, "large", self._rows * times).seconds
        planning = self._source.plan_seconds("large")
        letters, name = self._source.letters, self._source.name
        return [
            Measure(
                benchmark=f"h{letters}", what=f"time per row of {times} x the rows / of these rows, {name}", unit="x",
                goal=GROWTH_GOAL, value=seconds / (self._rows * times) / few,
                detail=f"{seconds:.1f} s for {self._rows * times:,} rows",
            ),
            Measure(
                benchmark=f"h{letters}", what=f"planning / reading, {name}", unit="%", goal=PLANNING_GOAL,
                value=100 * planning / seconds, detail=f"{planning:.2f} s / {seconds:.1f} s",
            ),
            Measure(
                benchmark=f"f{letters}s", what=f"largest Python process, a snapshot of {name}", unit="MB",
                goal=MEMORY_GOAL, value=peak.megabytes, detail=f"{peak.processes} processes",
            ),
        ]  # fmt: skip

    def _measured(self, side: str) -> list[Cost]:
        """The runs after the first one, which warmed; that one if there is no other."""
        return self._costs[side][1:] or self._costs[side]

    def _ratio(self, letter: str, ours: str, theirs: str, goal: float, what: str) -> Measure:
        mine, other = self._measured(ours), self._measured(theirs)
        rates = " / ".join(f"{self._rows / median(cost.seconds for cost in side):,.0f}" for side in (mine, other))
        ratios = [b.seconds / a.seconds for a, b in zip(mine, other, strict=True)]
        cpu = " / ".join(f"{median(cost.cpu for cost in side):.1f}" for side in (mine, other))
        return Measure(
            benchmark=letter + self._source.letters,
            what=f"snapshot of {self._source.name} into {ours}, rows/s / {what}",
            unit="x", goal=goal, at_most=False, value=median(ratios),
            detail=f"{rates} rows/s, {len(mine)} pairs from {min(ratios):.2f} to {max(ratios):.2f}; {cpu} CPU s",
        )  # fmt: skip

    def _place(self, name: str) -> Path:
        self._turn += 1
        place = self._folder / f"{name}_{self._turn}"
        place.mkdir()
        return place

    def _flow(self, module: str, table: str, rows: int) -> Cost:
        """An update with one flow."""
        place = self._place("flow")
        (place / "module.py").write_text(module, "utf-8")
        configuration = {"bench.folder": str(self._folder), "bench.table": self._source.table(table)}

        def run() -> None:
            pipeline = Pipeline(
                name=f"bench_{self._turn}", modules=[place / "module.py"], storage=str(place / "storage"),
                configuration=configuration, spark=self._spark,
            )  # fmt: skip
            result = pipeline.run()
            assert [flow.rows_written for flow in result.flows] == [rows], result

        return Cost.of(run)

    def _bare(self, read: Callable[[Path], object]) -> Cost:
        with scratch_folder() as folder:
            return Cost.of(lambda: read(folder))

    def _jdbc(self, target: str) -> Cost:
        """Spark's partitioned JDBC read into files."""
        place = self._place("jdbc")
        options = {
            **self._source.jdbc_options(), "dbtable": "even", "fetchsize": "10000", "partitionColumn": "id",
            "lowerBound": "1", "upperBound": str(self._rows), "numPartitions": str(CHUNKS),
        }  # fmt: skip
        reader = self._spark.read.format("jdbc").options(**options)
        return Cost.of(lambda: reader.load().write.format(target).save(str(place / "table")))

    def _dlt(self) -> Cost:
        """The load of dlt, with the time that its own script measures: without imports."""
        place = self._place("dlt")
        script = _DLT_SCRIPT
        command = [
            os.environ[DLT_PYTHON], str(script), self._source.dlt_uri, "even", str(place / "lake"),
            str(place / "figures"),
        ]  # fmt: skip
        cost = Cost.of(lambda: run_process(command, folder=place, timeout_seconds=_TIMEOUT_SECONDS))
        figures = json.loads((place / "figures").read_text("utf-8"))
        assert figures["rows"] == self._rows, figures
        return Cost(seconds=float(figures["seconds"]), python=cost.python, java=cost.java)
