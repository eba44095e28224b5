"""The rows of a table are replaced as `createOrReplace` replaces them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from delta.exceptions import ConcurrentAppendException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.engine.delta.table_replacement import TableDefinition, _commit, replace_rows
from framework.engine.delta.table_version import TableVersion
from framework.foundation.table_address import TableAddress
from tests.support.delta_commits import checksum_of, commit_of
from tests.support.plain_tables import table_rows

DEFINITION = TableDefinition(
    properties={"sluice.pipeline": "shop", "delta.logRetentionDuration": "interval 20 days"},
    comment="Totals",
    partition_columns=("day",),
)
MARK = json.dumps({"sluice": {"computed_from": "x"}})


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Rows with a partition column, a comment and a struct."""
    named = F.struct(F.col("id").alias("n"), F.lit("x").alias("text"))
    days = spark.range(count).select((F.col("id") % 2).alias("day"), F.col("id"), named.alias("s"))
    return days.withMetadata("id", {"comment": "the row"}).coalesce(1)


def replace(table: TableAddress, frame: DataFrame, definition: TableDefinition = DEFINITION) -> None:
    """Replace the rows as Delta does."""
    writer = frame.writeTo(table.sql).using("delta").option("userMetadata", MARK)
    for key, value in definition.properties.items():
        writer = writer.tableProperty(key, value)
    writer = writer.tableProperty("comment", definition.comment or "")
    if definition.partition_columns:
        writer = writer.partitionedBy(*(F.col(name) for name in definition.partition_columns))
    writer.createOrReplace()


def ids(table: TableAddress) -> set[str]:
    """The ids that the table had."""
    log = Path(str(table.path)) / "_delta_log"
    lines = (line for path in log.glob("*.json") for line in path.read_text("utf-8").splitlines())
    return {json.loads(line)["metaData"]["id"] for line in lines if '"metaData"' in line}


def newest(table: TableAddress) -> str:
    """The file of the newest commit."""
    return max(path.name for path in (Path(str(table.path)) / "_delta_log").glob("*.json"))


def test_the_commit_is_that_of_create_or_replace(spark: SparkSession, tmp_path: Path) -> None:
    """Actions, operation, metrics, checksum and rows are those of `createOrReplace`; each commit gives a new id."""
    expected, table = TableAddress(path=f"{tmp_path}/expected"), TableAddress(path=f"{tmp_path}/table")
    for each in (expected, table):
        replace(each, rows(spark, 4))
    replace(expected, rows(spark, 5))
    assert replace_rows(table, rows(spark, 5), DEFINITION, user_metadata=MARK)
    assert commit_of(expected, 1) == commit_of(table, 1)
    assert checksum_of(expected, 1) == checksum_of(table, 1)
    assert len(ids(table)) == len(ids(expected)) == 2
    assert rows(spark, 5).collect() == sorted(table_rows(spark, str(table.path)), key=lambda row: row.id)

    # Rows that somebody deleted by hand, which are marked in a deletion vector, and no rows at all.
    spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")
    assert replace_rows(table, rows(spark, 0), DEFINITION, user_metadata=MARK)
    assert [] == table_rows(spark, str(table.path))
    assert replace_rows(table, rows(spark, 3), DEFINITION, user_metadata=MARK)
    assert rows(spark, 3).collect() == sorted(table_rows(spark, str(table.path)), key=lambda row: row.id)


CHANGES = (
    "ALTER TABLE {0} ADD COLUMNS (more INT)",
    "ALTER TABLE {0} ALTER COLUMN id COMMENT 'another'",
    "ALTER TABLE {0} SET TBLPROPERTIES ('user.property' = 'x')",
    "ALTER TABLE {0} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "ALTER TABLE {0} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "COMMENT ON TABLE {0} IS 'another'",
    "ALTER TABLE {0} SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
)


def test_another_table_is_left_to_create_or_replace(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is written to a table that `createOrReplace` would change, or whose features it knows and we do not."""
    replace(TableAddress(path=f"{tmp_path}/before"), rows(spark, 4))
    for number, change in enumerate(CHANGES):
        table = TableAddress(path=str(shutil.copytree(tmp_path / "before", tmp_path / f"{number}")))
        spark.sql(change.format(table.sql))
        before = newest(table)
        assert not replace_rows(table, rows(spark, 5), DEFINITION, user_metadata=MARK), change
        assert before == newest(table), change


def test_other_rows_are_left_to_create_or_replace(spark: SparkSession, tmp_path: Path) -> None:
    """Rows with other columns, and another definition, are not written."""
    table = TableAddress(path=f"{tmp_path}/table")
    replace(table, rows(spark, 4))
    more = (rows(spark, 4).drop("s"), rows(spark, 4).withColumn("id", F.col("id").cast("int")),
        rows(spark, 4).select("id", "day", "s"), rows(spark, 4).withMetadata("id", {"comment": "another"}))  # fmt: skip
    for frame in more:
        assert not replace_rows(table, frame, DEFINITION, user_metadata=MARK), frame.schema.simpleString()
    others = (
        dataclasses.replace(DEFINITION, comment=None),
        dataclasses.replace(DEFINITION, partition_columns=()),
        dataclasses.replace(DEFINITION, properties={}),
    )
    for other in others:
        assert not replace_rows(table, rows(spark, 4), other, user_metadata=MARK), other
    assert "00000000000000000000.json" == newest(table)


def test_a_concurrent_commit_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that another writer appends during the replacement are not lost: the replacement fails."""
    table = TableAddress(path=f"{tmp_path}/table")
    replace(table, rows(spark, 4))
    version = TableVersion(spark, table)
    rows(spark, 2).write.format("delta").mode("append").save(str(table.path))
    with pytest.raises(ConcurrentAppendException):
        _commit(version, rows(spark, 5), version.listed_files(), MARK)
