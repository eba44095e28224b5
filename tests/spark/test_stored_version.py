"""The effect of a restore: the rows of a version, and its files that are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta import DeltaTable

from framework.foundation.storage import open_storage
from framework.run.tables.stored_version import RestoredRows, restored_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("is_listed", [True, False], ids=["by the checksum", "by a query over the log"])
def test_the_rows_and_the_missing_files_of_a_version_are_known(
    spark: SparkSession, tmp_path: Path, *, is_listed: bool
) -> None:
    """Deleted rows count, and the files of deletion vectors too; a version that the log no longer has is none."""
    table = tmp_path / "t"
    create = spark.range(6).selectExpr("id", "id % 2 AS part").coalesce(1).write.format("delta").partitionBy("part")
    create.option("delta.enableDeletionVectors", "true").save(str(table))
    target = DeltaTable.forPath(spark, str(table))
    target.delete("id = 2")  # version 1: a vector for part 0
    target.delete("id IN (1, 3, 5)")  # version 2: part 1 is gone
    spark.range(10, 12).selectExpr("id", "0L AS part").coalesce(1).write.format("delta").mode("append").save(str(table))
    if not is_listed:
        for checksum in (table / "_delta_log").glob("*.crc"):
            checksum.unlink()
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    storage = open_storage(str(tmp_path))

    def effect(version: int | None) -> RestoredRows | None:
        return restored_rows(spark, storage, str(table), version)

    assert effect(None) == RestoredRows(before=4, after=0)
    assert [effect(version) for version in (0, 1, 2)] == [
        RestoredRows(before=4, after=6), RestoredRows(before=4, after=5), RestoredRows(before=4, after=2),
    ]  # fmt: skip
    (gone,) = (table / "part=1").glob("*.parquet")
    gone.unlink()
    assert effect(2) == RestoredRows(before=4, after=2)
    assert effect(0) == RestoredRows(before=4, after=6, missing=(str(gone),))
    assert effect(7) is None
