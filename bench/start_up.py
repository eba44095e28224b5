"""(f) Start-up, a part of every command: `sluice validate` of the flights pipeline, cold.

It is compared with a bare session of `configure_spark_with_delta_pip` that writes one small Delta table. Both are
complete processes, with jars and caches as after a first command.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from bench.measure import Measure, java_of_spark, pair_ratio, run_process, scratch_folder, seconds_of, sluice
from framework.demo.feeder import write_feed

GOAL = 0.7
_FLIGHTS = Path(__file__).parent.parent / "pipelines" / "flights"
_TIMEOUT_SECONDS = 300
_BARE_SESSION = """
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config(
    "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
).config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = configure_spark_with_delta_pip(builder).getOrCreate()
spark.range(10).write.format("delta").mode("overwrite").save("table")
spark.stop()
"""


def measure(pairs: int) -> list[Measure]:
    """Return the ratio of the two wall times; one unmeasured pair comes first."""
    ours, theirs = [], []
    with scratch_folder() as folder:
        shutil.copytree(_FLIGHTS, folder, dirs_exist_ok=True)
        write_feed(folder / "data", 1)
        validate = sluice("validate", "--spec", "pipeline.yml", "--master", "local[2]")
        bare = [sys.executable, "-c", _BARE_SESSION]
        for pair in range(pairs + 1):
            times = [
                run_process(command, folder=folder, environment=java, timeout_seconds=_TIMEOUT_SECONDS).seconds
                for command, java in ((validate, {}), (bare, java_of_spark()))
            ]
            if pair > 0:
                ours.append(times[0])
                theirs.append(times[1])
    return [
        Measure(
            benchmark="f", what="cold `sluice validate` of flights / bare Delta session with one small write", unit="x",
            goal=GOAL, value=pair_ratio(ours, theirs),
            detail=f"{seconds_of(ours)} / {seconds_of(theirs)}, {pairs} pairs",
        )
    ]  # fmt: skip
