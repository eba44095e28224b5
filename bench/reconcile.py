"""Rows per second of `pipeline.reconcile`, compared with a full outer join of the two tables.

`python -m bench reconcile [--rows N] [--pairs N]`. Two Delta tables of 12 columns with ten differences, in one session.
Both sides count the differing keys; the join compares the columns with `<=>`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from bench.measure import Measure, pair_ratio, scratch_folder, seconds_of
from bench.results import render_line, save_measures
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

GOAL = 1.0
ROWS = 10_000_000
_DIFFERENCES = 10
_COLUMNS = (
    "id", "CAST(id % 1000 AS INT) AS customer", "CAST(id * 7 % 100000 / 100 AS DECIMAL(12,2)) AS amount",
    "id * 0.5D AS price", "CAST(id % 50 AS SMALLINT) AS quantity", "id % 2 = 0 AS open",
    "timestamp_micros(id * 1000) AS at", "date_add(DATE'2020-01-01', CAST(id % 2000 AS INT)) AS day",
    "concat('city ', id % 5000) AS city", "md5(CAST(id AS STRING)) AS code", "NULLIF(id % 10, 3) AS rank",
    "repeat(CAST(id % 10 AS STRING), 40) AS note",
)  # fmt: skip


def measure(pairs: int, rows: int = ROWS) -> list[Measure]:
    """The ratio of rows per second, ours to the join's; one unmeasured pair warms the session."""
    with scratch_folder() as folder:
        spark = start_session(app_name="bench", master="local[2]", spark_conf={})
        try:
            _write_tables(spark, folder, rows)
            sides = (_ours(spark, folder), _by_join(spark, folder))
            times = [[_timed(side) for side in sides] for _ in range(pairs + 1)][1:]
        finally:
            stop_session(spark)
    ours, by_join = ([pair[side] for pair in times] for side in (0, 1))
    return [
        Measure(
            benchmark="reconcile", what="rows/s of `reconcile` / of a full outer join", unit="x", goal=GOAL,
            at_most=False, value=pair_ratio(by_join, ours),
            detail=f"{seconds_of(ours)} / {seconds_of(by_join)} for {rows:,} rows a side, {pairs} pairs",
        )
    ]  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the benchmark and keep its figure; returns 1 if the goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench reconcile", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of each table; a smaller number is not kept")
    parser.add_argument("--pairs", type=int, default=3, help="how many runs of each side")
    chosen = parser.parse_args(arguments)
    found = measure(chosen.pairs, chosen.rows)
    for each in found:
        print(render_line(each), flush=True)
    if chosen.rows == ROWS:
        save_measures(found)
    return 0 if all(each.met for each in found) else 1


def _write_tables(spark: SparkSession, folder: Path, rows: int) -> None:
    """Two tables; the second lacks three rows, has three more, and four with another amount."""
    step = max(rows // _DIFFERENCES, 1)
    spark.range(rows).selectExpr(*_COLUMNS).write.format("delta").save(str(folder / "first"))
    place = F.floor(F.col("id") / step)
    second = spark.range(rows + 3).where((F.col("id") % step != 1) | (place >= 3)).selectExpr(*_COLUMNS)
    changed = (F.col("id") % step == 1) & (place >= 3) & (place < 7)
    second.withColumn("amount", F.when(changed, F.col("amount") + 1).otherwise(F.col("amount"))).write.format(
        "delta"
    ).save(str(folder / "second"))


def _ours(spark: SparkSession, folder: Path) -> Callable[[], int]:
    pipeline = Pipeline(name="bench", modules=[_nothing], storage=str(folder / "storage"), spark=spark)
    return lambda: pipeline.reconcile(str(folder / "first"), str(folder / "second"), keys=["id"]).totals.keys


def _nothing() -> None:
    """Declare no dataset."""


def _by_join(spark: SparkSession, folder: Path) -> Callable[[], int]:
    first, second = (spark.read.format("delta").load(str(folder / name)) for name in ("first", "second"))
    columns = [name for name in first.columns if name != "id"]
    joined = first.alias("a").join(second.alias("b"), "id", "full")
    differs = reduce(Column.__or__, [~F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in columns])
    return joined.where(differs).count


def _timed(side: Callable[[], int]) -> float:
    begun = time.monotonic()
    found = side()
    seconds = time.monotonic() - begun
    assert found == _DIFFERENCES, found
    return seconds
