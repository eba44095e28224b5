"""Builds a class archive with a short session that loads the classes of an update.

Runs as a separate program, `python -m framework.session.archive_training [ARCHIVE]`: in the
background by `class_archive`, or in the foreground by `make`, which fills the cache before the tests.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.foundation.clock import Clock, SystemClock
from framework.session.class_archive import publish, release_claim
from framework.session.launching import launch_directly, usual_archive
from framework.session.settings import SessionRequest
from framework.session.spark_session import open_session, stop_session

_LOWEST_PRIORITY = 19
_SHORT_MEMORY = {"spark.driver.memory": "1g"}
_SCRATCH = ".building-"
_STALE_SECONDS = 3600


def build_archive(archive: Path) -> None:
    """Build the archive for the Java and jars of this environment at this path.

    The file is written under a temporary name first, so that no session reads a partial archive.

    Raises:
        OperationError: those of `start_session`.
    """
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=archive.parent) as folder:
        built = Path(folder, "classes.jsa")
        request = SessionRequest(
            app_name="sluice class archive", master="local[2]", spark_conf=_SHORT_MEMORY, short=True
        )
        spark = open_session(launch_directly(request, archive_to_build=built))
        try:
            _exercise(spark, folder)
        finally:
            stop_session(spark)
        if built.is_file():
            publish(built, archive)


def sweep(folder: Path, clock: Clock) -> None:
    """Delete the files of killed builds."""
    for left in folder.glob(f"{_SCRATCH}*"):
        if clock.now().timestamp() - left.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def main(arguments: list[str]) -> None:
    """Build the named archive, or the default archive of this environment, if it does not exist."""
    archive = Path(arguments[0]) if arguments else usual_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    sweep(archive.parent, SystemClock())
    try:
        if not archive.exists():
            build_archive(archive)
    finally:
        release_claim(archive)


def _exercise(spark: SparkSession, folder: str) -> None:
    """Load the classes of an update once: Delta tables, a stream, a merge, JSON, SQL."""
    table, target, feed = (f"{folder}/{name}" for name in ("table", "target", "feed"))
    rows = spark.range(100).withColumn("k", F.col("id") % 3).withColumn("at", F.current_timestamp())
    rows.write.format("delta").save(table)
    rows.write.format("delta").mode("append").option("mergeSchema", "true").save(table)
    rows.write.json(feed)
    _stream(spark.readStream.format("delta").load(table), target)
    _stream(spark.readStream.schema(rows.schema).json(feed), f"{target}2")
    spark.sql(
        f"MERGE INTO delta.`{target}` t USING (SELECT id, max(k) k FROM delta.`{table}` GROUP BY id) s ON t.id = s.id "
        "WHEN MATCHED AND s.k > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.k "
        "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)"
    )
    summary = spark.table(f"delta.`{target}`").groupBy("k").agg(F.count("*").alias("n"), F.avg("id").alias("mean"))
    summary.writeTo(f"delta.`{folder}/summary`").using("delta").createOrReplace()
    spark.table(f"delta.`{folder}/summary`").orderBy("k").collect()


def _stream(source: DataFrame, target: str) -> None:
    query = (
        source.observe("quality", F.sum(F.expr("if(id > 3, 1, 0)")).alias("passed"))
        .writeStream.format("delta")
        .option("checkpointLocation", f"{target}_checkpoint")
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination()


if __name__ == "__main__":
    os.nice(_LOWEST_PRIORITY)
    main(sys.argv[1:])
