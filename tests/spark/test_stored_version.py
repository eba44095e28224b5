"""The effect of a restore: the rows of a version, and its files that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta import DeltaTable
from delta.exceptions import ConcurrentAppendException
from pyspark.errors import IllegalArgumentException

from framework.engine.delta.restored_rows import RestoredRows
from framework.engine.delta.stored_version import _commit, _restore_listed, restore, restored_rows
from framework.engine.delta.table_version import TableVersion
from framework.engine.files.storage import open_storage
from framework.engine.jvm.java import java_class
from framework.foundation.table_address import TableAddress
from tests.support.delta_commits import checksum_of, commit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with deleted rows, a partition without rows, and rows that came after that."""
    table = tmp_path_factory.mktemp("written") / "t"
    create = spark.range(6).selectExpr("id", "id % 2 AS part").coalesce(1).write.format("delta").partitionBy("part")
    create.option("delta.enableDeletionVectors", "true").save(str(table))
    target = DeltaTable.forPath(spark, str(table))
    target.delete("id = 2")  # version 1: a vector for part 0
    target.delete("id IN (1, 3, 5)")  # version 2: part 1 is gone
    spark.range(10, 12).selectExpr("id", "0L AS part").coalesce(1).write.format("delta").mode("append").save(str(table))
    return table


@pytest.mark.parametrize("is_listed", [True, False], ids=["by the checksum", "by a query over the log"])
def test_the_rows_and_the_missing_files_of_a_version_are_known(
    spark: SparkSession, written: Path, tmp_path: Path, *, is_listed: bool
) -> None:
    """Deleted rows count, and the files of deletion vectors too; a version that the log no longer has is none."""
    table = shutil.copytree(written, tmp_path / "t")
    if not is_listed:
        for checksum in (table / "_delta_log").glob("*.crc"):
            checksum.unlink()
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


def changed_table(spark: SparkSession, folder: Path) -> TableAddress:
    """A table with deleted rows, whose definition was changed: each version has other files, but 1 has those of 0."""
    path, address = str(folder / "changed"), TableAddress(path=str(folder / "changed"))
    create = spark.range(6).selectExpr("id", "id % 2 AS part").coalesce(1).write.format("delta").partitionBy("part")
    create.option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"ALTER TABLE {address.sql} SET TBLPROPERTIES ('sluice.pipeline' = 'shop')")
    DeltaTable.forPath(spark, path).delete("id IN (1, 2, 3, 5)")
    for number in (10, 11, 12):
        more = spark.range(number, number + 1).selectExpr("id", "0L AS part", "'x' AS more").coalesce(1)
        more.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    return address


def test_a_restore_is_the_commit_of_delta(spark: SparkSession, tmp_path: Path) -> None:
    """Actions and metrics are those of `RESTORE`, of rows that were deleted and columns that were added since."""
    table, storage = changed_table(spark, tmp_path), open_storage(str(tmp_path))
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", '{"by": "us"}')
    ours = table
    for version in (1, 4):
        expected, ours = (TableAddress(path=str(tmp_path / f"{name} {version}")) for name in ("expected", "ours"))
        for each in (expected, ours):
            shutil.copytree(str(table.path), str(each.path))
        DeltaTable.forPath(session, str(expected.path)).restoreToVersion(version)
        assert _restore_listed(session, storage, str(ours.path), version)
        # `RESTORE` repeats the protocol, which is the same.
        assert [action for action in commit_of(expected, 6) if "protocol" not in action] == commit_of(ours, 6)

    # A commit that adds columns lists no files.
    assert not _restore_listed(session, storage, str(ours.path), 3)
    # The commit lists its files: another restore finds them, and goes to rows that were deleted before.
    assert checksum_of(table, 4) == checksum_of(ours, 6)
    assert [0, 4, 10, 11] == sorted(row.id for row in spark.table(ours.sql).collect())
    assert _restore_listed(session, storage, str(ours.path), 1)
    assert spark.table(ours.sql).columns == ["id", "part"]
    assert [0, 1, 2, 3, 4, 5] == sorted(row.id for row in spark.table(ours.sql).collect())

    # Other partition columns are left to `RESTORE`.
    other = TableAddress(path=str(tmp_path / "other"))
    shutil.copytree(str(table.path), str(other.path))
    flat = spark.range(3).selectExpr("id", "id % 2 AS part", "'x' AS more").coalesce(1).write.format("delta")
    flat.mode("overwrite").option("overwriteSchema", "true").save(str(other.path))
    assert not _restore_listed(session, storage, str(other.path), 4)
    restore(session, storage, str(other.path), 4)
    assert [0, 4, 10, 11] == sorted(row.id for row in spark.table(other.sql).collect())

    # A file that is gone is left to `RESTORE`, which names it; rows that another writer appends meanwhile are not lost.
    moment = TableVersion(session, ours)
    earlier = moment.log.getSnapshotAt(4, *[java_class("scala.Option").empty()] * 2, True)  # noqa: FBT003 - a JVM call
    spark.range(1).selectExpr("id", "0L AS part").write.format("delta").mode("append").save(str(ours.path))
    with pytest.raises(ConcurrentAppendException):
        _commit(moment, earlier, [], [])
    for file in Path(str(ours.path)).glob("part=0/*.parquet"):
        file.unlink()
    assert not _restore_listed(session, storage, str(ours.path), 4)
    with pytest.raises(IllegalArgumentException, match="Not all files from version 4 are available"):
        restore(session, storage, str(ours.path), 4)
