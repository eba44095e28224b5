"""(d) Rows per second of an append flow, compared with the same `writeStream` written by hand.

One warm session, a fresh target each time. The flow's time is that of the whole update, including planning and
events. Both read the same JSON files, 20 per micro-batch.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure import Measure, scratch_folder
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

GOAL = 0.9
_FILES = 60
_ROWS = 3_000_000
_SCHEMA = "id BIGINT, sensor INT, reading DOUBLE, note STRING"
_MODULE = """
from framework import pipelines as dp

@dp.table
def readings():
    return spark.readStream.format("json").schema("{schema}").option("maxFilesPerTrigger", 20).load("{data}")
"""


def measure(pairs: int) -> list[Measure]:
    """The ratio of rows per second, ours to the hand-written stream's; one unmeasured pair warms the session."""
    with scratch_folder() as folder:
        spark = start_session(app_name="bench", master="local[2]", spark_conf={})
        try:
            rows = _write_data(spark, folder / "data")
            times = [(_time_flow(spark, folder, pair), _time_by_hand(spark, folder, pair)) for pair in range(pairs + 1)]
        finally:
            stop_session(spark)
    ours, by_hand = ([rows / pair[side] for pair in times[1:]] for side in (0, 1))
    ratios = sorted(a / b for a, b in zip(ours, by_hand, strict=True))
    return [
        Measure(
            benchmark="d", what="rows/s of an append flow / of the same `writeStream` by hand", unit="x", goal=GOAL,
            at_most=False, value=ratios[len(ratios) // 2],
            detail=f"{max(ours):,.0f} / {max(by_hand):,.0f} rows/s at best, {pairs} pairs",
        )
    ]  # fmt: skip


def _write_data(spark: SparkSession, folder: Path) -> int:
    """So many rows as JSON files."""
    rows = spark.range(0, _ROWS, 1, _FILES).selectExpr(
        "id", "CAST(id % 1000 AS INT) AS sensor", "rand(7) * 100 AS reading", "concat('note ', id) AS note"
    )
    rows.write.json(str(folder))
    return _ROWS


def _time_flow(spark: SparkSession, folder: Path, number: int) -> float:
    """The wall time of an update with the one flow."""
    home = folder / f"flow_{number}"
    home.mkdir()
    module = home / "readings.py"
    module.write_text(_MODULE.format(schema=_SCHEMA, data=folder / "data"), encoding="utf-8")
    begun = time.monotonic()
    pipeline = Pipeline(name=f"bench_{number}", modules=[str(module)], storage=str(home / "storage"), spark=spark)
    result = pipeline.run()
    seconds = time.monotonic() - begun
    written = [flow.rows_written for flow in result.flows]
    assert written == [_ROWS], written
    return seconds


def _time_by_hand(spark: SparkSession, folder: Path, number: int) -> float:
    """The wall time of the same stream without us."""
    home = folder / f"by_hand_{number}"
    begun = time.monotonic()
    source = spark.readStream.format("json").schema(_SCHEMA).option("maxFilesPerTrigger", 20)
    stream = source.load(str(folder / "data")).writeStream.format("delta").trigger(availableNow=True)
    stream.option("checkpointLocation", str(home / "checkpoint")).start(str(home / "table")).awaitTermination()
    return time.monotonic() - begun
