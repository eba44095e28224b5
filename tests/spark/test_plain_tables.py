"""Rows that tests read without Spark are those that Spark reads."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from delta import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tests.support.plain_tables import append_rows, plain_rows, table_rows

TYPES = (
    "true AS b, 1Y AS y, 2S AS s, 3 AS i, 4L AS l, 0.1f AS f, double('NaN') AS d, 1.50BD AS m, 'é' AS t, "
    "date'0001-01-01' AS day, named_struct('a-b', 1, 'n', cast(NULL AS INT)) AS at, array(named_struct('x', 1), NULL) "
    "AS many, map('k', array(1.5BD)) AS by_key, cast(NULL AS struct<x: int>) AS none, 5 AS `__sluice_x`, "
    "timestamp'1850-01-01 01:02:03.000004' AS at_once, timestamp_ntz'2025-07-01 00:00:00' AS written, X'00FF' AS raw"
)


def test_plain_rows_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """All plain types, columns and fields that came later, and files that were replaced; hidden columns left out."""
    path, log = str(tmp_path / "t"), "delta.`{}`"
    spark.sql(f"SELECT {TYPES}").write.format("delta").save(path)
    later = TYPES.replace("'n', cast(NULL AS INT)", "'n', 2, 'new', 'x'")
    grown = spark.sql(f"SELECT {later}, 'more' AS more").write.format("delta").mode("append")
    grown.option("mergeSchema", "true").save(path)
    spark.sql(f"UPDATE {log.format(path)} SET t = 'changed' WHERE more IS NULL")
    frame = spark.read.format("delta").load(path).drop("__sluice_x")
    found = plain_rows(path, lambda names: [name for name in names if not name.startswith("__sluice")])
    assert found is not None
    assert sorted(map(repr, found)) == sorted(map(repr, frame.collect()))
    assert len(found) == 2


@pytest.mark.parametrize("rows", [20, 200_000])
def test_deleted_rows_of_a_file_are_left_out(spark: SparkSession, rows: int, tmp_path: Path) -> None:
    """Each commit adds deleted rows to those of the file, in a small deletion vector or a large one."""
    path = str(tmp_path / "t")
    frame = spark.range(rows).coalesce(1).withColumn("n", F.col("id") % 10)
    frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    for n in (3, 7):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE n = {n} AND id > 4")
    found = plain_rows(path, lambda _: ["id"])
    assert found is not None
    assert {row.id for row in found} == {place for place in range(rows) if place == 3 or place % 10 not in {3, 7}}
    assert len(found) == len({*found})


def test_rows_that_are_not_plain_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Partitions, variants, wider types, and a log without its begin."""
    tables = {name: str(tmp_path / name) for name in ("parted", "variant", "wider", "short")}
    for path in tables.values():
        frame = spark.sql("SELECT id, id AS n, parse_json('1') AS any_type FROM range(3)").coalesce(1)
        frame = frame if path.endswith("variant") else frame.drop("any_type")
        writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
        writer = writer.option("delta.enableTypeWidening", str(path.endswith("wider")).lower())
        (writer.partitionBy("id") if path.endswith("parted") else writer).save(path)
    Path(tables["short"], "_delta_log", f"{0:020d}.json").rename(tmp_path / "aside")
    assert {name: plain_rows(path, list) for name, path in tables.items()} == dict.fromkeys(tables)
    (tmp_path / "aside").rename(Path(tables["short"], "_delta_log", f"{0:020d}.json"))
    assert sorted(row.id for row in table_rows(spark, tables["parted"])) == [0, 1, 2]


def test_appended_rows_are_those_that_spark_would_append(spark: SparkSession, tmp_path: Path) -> None:
    """The first rows, equal columns, one more column, and values that Spark has to convert, each in one commit."""
    path, later = str(tmp_path / "t"), "id INT, v STRING, n DOUBLE, at DATE"
    append_rows(spark, path, [(1, "a"), (2, None)], "id INT, v STRING")
    append_rows(spark, path, [[3, "é"], (4, "")], "id INT, v STRING")
    append_rows(spark, path, [(5, "b", 0.5, date(2025, 1, 1))], later)
    append_rows(spark, path, [(6, "c", None, None)], later)
    frame = spark.read.format("delta").load(path)
    assert frame.schema == StructType.fromDDL(later)
    assert sorted(map(tuple, frame.collect())) == [
        (1, "a", None, None), (2, None, None, None), (3, "é", None, None), (4, "", None, None),
        (5, "b", 0.5, date(2025, 1, 1)), (6, "c", None, None),
    ]  # fmt: skip
    history = DeltaTable.forPath(spark, path).history().orderBy("version").collect()
    assert [row["operation"] for row in history] == ["WRITE"] * 4
