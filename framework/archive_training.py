"""Builds an archive of Spark's classes with a session that does what users do.

Runs as a separate program, `python -m framework.archive_training [ARCHIVE]`: in the background by
`framework.session.class_archive`, or in the foreground by `make`, which fills the cache before the tests.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.foundation.clock import Clock, SystemClock
from framework.foundation.files.private_files import PRIVATE_UMASK, make_private_folder
from framework.pipeline import Pipeline
from framework.session.class_archive import publish, release_claim
from framework.session.launching import launch_directly, usual_archive
from framework.session.settings import SessionRequest
from framework.session.spark_session import open_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOWEST_PRIORITY = 19
_MEMORY = {"spark.driver.memory": "1g"}
_SCRATCH = ".building-"
_STALE_SECONDS = 3600
_SCHEMA = "id BIGINT, name STRING, amount DOUBLE, at TIMESTAMP, op STRING"


def build_archive(archive: Path) -> None:
    """Build the archive for the Java and jars of this environment at this path.

    The file is written under a temporary name first, so that no session reads a partial archive.

    Raises:
        OperationError: those of `start_session`.
    """
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=archive.parent) as folder:
        built = Path(folder, archive.name)
        request = SessionRequest(app_name="sluice class archive", master="local[2]", spark_conf=_MEMORY, short=False)
        spark = open_session(launch_directly(request, archive_to_build=built))
        try:
            _exercise(spark, Path(folder, "project"))
        finally:
            stop_session(spark)
        if built.is_file():
            publish(built, archive)


def sweep(folder: Path, clock: Clock) -> None:
    """Delete the files of killed builds, also those of the future: the clock was set back since."""
    for left in folder.glob(f"{_SCRATCH}*"):
        if abs(clock.now().timestamp() - left.stat().st_mtime) > _STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def main(arguments: list[str]) -> None:
    """Build the named archive, or the default archive of this environment, if it does not exist."""
    archive = Path(arguments[0]) if arguments else usual_archive()
    os.umask(PRIVATE_UMASK)  # the archive is code
    make_private_folder(archive.parent)
    sweep(archive.parent, SystemClock())
    try:
        if not archive.exists():
            build_archive(archive)
    finally:
        release_claim(archive)


def _exercise(spark: SparkSession, folder: Path) -> None:
    """Do two updates of a small pipeline, with streams, expectations, views and AUTO CDC, and read its tables."""
    feed = folder / "feed"
    pipeline = Pipeline(name="training", modules=[_datasets(feed)], storage=folder / "storage", spark=spark)
    for batch in range(2):
        rows = spark.range(batch * 50, batch * 50 + 100).selectExpr(
            "id",
            "concat('n', id) AS name",
            "id * 0.5 AS amount",
            f"timestamp_seconds(id + {batch}) AS at",
            "if(id % 7 = 0, 'DELETE', 'UPSERT') AS op",
        )
        rows.write.mode("append").json(str(feed))
        pipeline.run()
    for table in ("current", "history", "totals"):
        pipeline.table(table).orderBy("name").limit(10).collect()


def _datasets(feed: Path) -> Callable[[], None]:
    """Return a module that declares one dataset of each kind over a folder of JSON files."""

    def declare() -> None:
        @dp.table
        @dp.expect("positive", "amount >= 0")
        @dp.expect_or_drop("known", "id IS NOT NULL")
        def events() -> DataFrame:
            return SparkSession.active().readStream.format("json").schema(_SCHEMA).load(str(feed))

        @dp.temporary_view
        def changes() -> DataFrame:
            return dp.read_stream("events")

        @dp.materialized_view
        def totals() -> DataFrame:
            return dp.read("current").groupBy("name").agg(F.sum("amount").alias("amount"), F.count("*").alias("rows"))

        for target, scd_type in (("current", 1), ("history", 2)):
            dp.create_streaming_table(target)
            dp.create_auto_cdc_flow(
                target=target,
                source="changes",
                keys=["id"],
                sequence_by="at",
                stored_as_scd_type=scd_type,
                apply_as_deletes="op = 'DELETE'",
                except_column_list=["op"],
            )

    return declare


if __name__ == "__main__":
    os.nice(_LOWEST_PRIORITY)
    main(sys.argv[1:])
