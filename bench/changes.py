"""Changes of a database: against the server's own program, from commit to visibility, and a large transaction.

`python -m bench changes [--rows N] [--pairs N]` on PostgreSQL, `mysql_changes` on MariaDB. Both readers of a pair read
the same log from the same place: transactions of 1,000 inserts. `pg_recvlogical` and `mysqlbinlog` write it to
/dev/null. On MariaDB, Debezium's embedded engine reads it, too, and CPU seconds count: those of all processes of the
session, and those of Python, which reads the log.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.cpu import Cost
from bench.debezium import Debezium
from bench.mariadb_source import MariadbSource, open_mariadb
from bench.measure import Measure, scratch_folder
from bench.postgres_source import open_postgres
from bench.reader_memory import PeakMemory
from bench.sources import Open, Source
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 500_000
LATENCY_GOAL, MEMORY_GOAL = 5.0, 400.0
RECEIVER_GOALS = {"PostgreSQL": 0.5, "MariaDB": 0.0}
"""Of MariaDB, the share is only told."""
CPU_GOAL, DEBEZIUM_GOAL = 60_000, 3.0
_TRANSACTION = 1_000
_CHANGES_PER_SECOND, _TRANSACTIONS_PER_SECOND, _SECONDS = 500, 10, 60
_STAGING = """
from framework import pipelines as dp

@dp.table(table_properties={"pipelines.autoOptimize.managed": "false"})
def log():
    reader = spark.readStream.format("database_changes").option("connection", "bench").option("slot", "bench_ours")
    reader = reader.option("connectionsFolder", spark.conf.get("bench.folder"))
    return reader.option("tables", spark.conf.get("bench.table")).load()
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


def measure(pairs: int, rows: int = ROWS, opened: Open = open_postgres, large: int = 2) -> list[Measure]:
    """(c), (d), (e) and (f); one unmeasured pair warms the session.

    Args:
        pairs: how often each side runs.
        rows: of the log.
        opened: the database.
        large: how many times the rows the large transaction has.
    """
    found: list[Measure] = []
    with opened() as source, scratch_folder() as folder:
        source.fill("events", 1)
        (folder / "connections.yml").write_text(f"bench: {source.uri}\n", "utf-8")
        spark = start_session(app_name="bench", master="local[2]", spark_conf={})
        try:
            bench = _Changes(spark, folder, source)
            found += bench.against_others(pairs, rows)
            found += [bench.latency(), bench.large_transaction(rows * large)]
        finally:
            stop_session(spark)
    return found


measure_mariadb = partial(measure, opened=open_mariadb, large=4)


class _Changes:
    """Runs of two pipelines on one server.

    Args:
        spark: the session.
        folder: has the connection, and gets what is written.
        source: has the table `events`.
    """

    def __init__(self, spark: SparkSession, folder: Path, source: Source) -> None:
        self._spark = spark
        self._folder = folder
        self._source = source
        self._next_key = 2

    def against_others(self, pairs: int, rows: int) -> list[Measure]:
        """(c), (d) Rows into committed staging, per second and per CPU second."""
        source = self._source
        pipeline = self._pipeline("staging", _STAGING)
        pipeline.run()  # creates publication and slot
        source.begin_receiver()
        debezium = None
        if isinstance(source, MariadbSource) and Debezium.is_possible():
            debezium = Debezium(source, self._folder / "debezium")
            debezium.begin()
            pipeline.run()

        def run() -> None:
            result = pipeline.run()
            assert [flow.rows_written for flow in result.flows] == [rows], result

        costs: dict[str, list[Cost]] = {}
        for _ in range(pairs + 1):
            self._insert(rows, _TRANSACTION)
            turn = {"receiver": Cost.of(source.receive), "ours": Cost.of(run)}
            if debezium is not None:
                seconds, cpu = debezium.receive(rows)
                turn["Debezium"] = Cost(seconds=seconds, python=0.0, java=cpu)
            for name, cost in turn.items():
                print(f"{name}: {cost.seconds:.1f} s, {cost.python:.1f} + {cost.java:.1f} CPU s", flush=True)
                costs.setdefault(name, []).append(cost)
        source.end_receiver()
        costs = {name: found[1:] or found for name, found in costs.items()}
        return [self._share(costs, rows), *(self._cpu(costs, rows) if source.letters == "46" else ())]

    def _share(self, costs: dict[str, list[Cost]], rows: int) -> Measure:
        ours, theirs = ([cost.seconds for cost in costs[name]] for name in ("ours", "receiver"))
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        letter = "d" if self._source.name == "PostgreSQL" else "c"
        return Measure(
            benchmark=letter + self._source.letters,
            what=f"changes of {self._source.name} into committed staging, rows/s / {self._source.receiver}", unit="x",
            goal=RECEIVER_GOALS[self._source.name], at_most=False, value=median(ratios),
            detail=f"{rows / median(ours):,.0f} / {rows / median(theirs):,.0f} rows/s, {len(ours)} pairs from "
            f"{min(ratios):.2f} to {max(ratios):.2f}",
        )  # fmt: skip

    def _cpu(self, costs: dict[str, list[Cost]], rows: int) -> list[Measure]:
        ours, letter = costs["ours"], f"c{self._source.letters}"
        found = []
        for what, seconds in {
            "all processes": [cost.cpu for cost in ours], "Python, which reads the log": [cost.python for cost in ours],
        }.items():  # fmt: skip
            rates = [rows / each for each in seconds]
            found.append(
                Measure(
                    benchmark=letter, what=f"changes of {self._source.name} into committed staging, {what}",
                    unit="rows/CPU s", goal=CPU_GOAL, at_most=False, value=median(rates),
                    detail=f"{len(rates)} runs from {min(rates):,.0f} to {max(rates):,.0f}",
                )
            )  # fmt: skip
        if "Debezium" in costs:
            theirs = [cost.cpu for cost in costs["Debezium"]]
            ratios = [b / a.cpu for a, b in zip(ours, theirs, strict=True)]
            speeds = [b.seconds / a.seconds for a, b in zip(ours, costs["Debezium"], strict=True)]
            found.append(
                Measure(
                    benchmark=letter, what="rows per CPU s, into committed staging / Debezium's embedded engine alone",
                    unit="x", goal=DEBEZIUM_GOAL, at_most=False, value=median(ratios),
                    detail=f"from {min(ratios):.2f} to {max(ratios):.2f}; Debezium {rows / median(theirs):,.0f} rows "
                    f"per CPU s; by the clock {median(speeds):.2f} x",
                )
            )  # fmt: skip
        return found

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
            benchmark=("e" if self._source.name == "PostgreSQL" else "d") + self._source.letters,
            what=f"median latency at {_CHANGES_PER_SECOND} changes/s of {self._source.name}", unit="s",
            goal=LATENCY_GOAL, value=median(seconds), detail=f"95 %: {p95:.1f} s, {len(seconds):,} changes",
        )  # fmt: skip

    def large_transaction(self, count: int) -> Measure:
        """(e), (f) The largest Python process while a transaction of so many rows is read."""
        pipeline = self._pipeline("large", _STAGING, slot="bench_large")
        pipeline.run()
        self._insert(count, count)
        with PeakMemory() as peak:
            result = pipeline.run()
        assert [flow.rows_written for flow in result.flows] == [count], result
        return Measure(
            benchmark=f"f{self._source.letters}c",
            what=f"largest Python process, a transaction of {count:,} rows of {self._source.name}", unit="MB",
            goal=MEMORY_GOAL, value=peak.megabytes, detail=f"{peak.processes} processes",
        )  # fmt: skip

    def _pipeline(self, name: str, module: str, slot: str = "bench_ours") -> Pipeline:
        place = self._folder / name
        place.mkdir()
        (place / "module.py").write_text(module.replace("bench_ours", slot), "utf-8")
        return Pipeline(
            name=f"bench_{name}", modules=[place / "module.py"], storage=str(place / "storage"),
            configuration={"bench.folder": str(self._folder), "bench.table": self._source.table("events")},
            spark=self._spark,
        )  # fmt: skip

    def _insert(self, rows: int, transaction: int) -> None:
        """Insert so many rows, in transactions of so many rows."""
        for first in range(self._next_key, self._next_key + rows, transaction):
            self._source.insert(first, min(first + transaction, self._next_key + rows) - 1)
        self._next_key += rows

    def _write_for(self, seconds: float) -> None:
        """Write changes at a constant rate: four inserts and then an update of one of them, again and again."""
        number, begun = 0, time.monotonic()
        while (elapsed := time.monotonic() - begun) < seconds:
            if number >= elapsed * _TRANSACTIONS_PER_SECOND:
                time.sleep(0.005)
                continue
            number += 1
            changes = _CHANGES_PER_SECOND // _TRANSACTIONS_PER_SECOND
            inserted = changes * 4 // 5
            self._source.write_timed(self._next_key, inserted, changes // 5)
            self._next_key += inserted


def _commit_times(table: Path) -> dict[str, float]:
    """The time at which each file of a table became visible, in epoch seconds."""
    found: dict[str, float] = {}
    for commit in (table / "_delta_log").glob("[0-9]*.json"):
        for line in commit.read_text("utf-8").splitlines():
            add = json.loads(line).get("add")
            if add is not None:
                found.setdefault(add["path"], commit.stat().st_mtime)
    return found
