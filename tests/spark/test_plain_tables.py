"""Rows that tests read without Spark are those that Spark reads."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from delta import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tests.support.plain_tables import append_rows, create_empty_table, plain_rows, table_rows

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


@pytest.mark.parametrize("rows", [20, 70_000])
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
    """Partitions by DOUBLE, variants, wider types, and a log without its begin."""
    tables = {name: str(tmp_path / name) for name in ("parted", "variant", "wider", "short")}
    for path in tables.values():
        frame = spark.sql("SELECT id, id AS n, parse_json('1') AS any_type FROM range(3)").coalesce(1)
        frame = frame if path.endswith("variant") else frame.drop("any_type")
        frame = frame.withColumn("id", F.col("id").cast("double")) if path.endswith("parted") else frame
        writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
        writer = writer.option("delta.enableTypeWidening", str(path.endswith("wider")).lower())
        (writer.partitionBy("id") if path.endswith("parted") else writer).save(path)
    Path(tables["short"], "_delta_log", f"{0:020d}.json").rename(tmp_path / "aside")
    assert {name: plain_rows(path, list) for name, path in tables.items()} == dict.fromkeys(tables)
    (tmp_path / "aside").rename(Path(tables["short"], "_delta_log", f"{0:020d}.json"))
    assert sorted(row.id for row in table_rows(spark, tables["parted"])) == [0, 1, 2]


def test_values_of_partitions_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Odd characters, no value, and deleted rows of a partition; a row has its columns in the order of the table."""
    path = str(tmp_path / "t")
    rows = [("a=b/c d%é", 1, date(2025, 1, 31), 1), ("a=b/c d%é", 1, date(2025, 1, 31), 2), (None, None, None, 3)]
    frame = spark.createDataFrame(rows, "s STRING, n INT, day DATE, id LONG").coalesce(1)
    frame = frame.select("id", "s", "day", "n")
    writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
    writer.partitionBy("s", "n", "day").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    found = plain_rows(path, list)
    assert found is not None
    assert sorted(found) == sorted(spark.read.format("delta").load(path).collect())
    assert sorted(row.id for row in found) == [2, 3]


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


def first_commit(path: Path) -> list[Any]:
    """The actions and the checksum of version 0, without what differs between any two tables."""
    log = path / "_delta_log"
    lines = [*(log / f"{0:020d}.json").open(), (log / f"{0:020d}.crc").read_text("utf-8")]
    return [plain(json.loads(line)) for line in lines]


def plain(part: Any) -> Any:
    """An action of the log without names, times, sizes, the version of Delta, and statistics that are optional."""
    left_out = {
        "path", "id", "txnId", "timestamp", "createdTime", "modificationTime", "size", "tableSizeBytes", "engineInfo",
        "numOutputBytes", "fileSizeHistogram", "minValues", "maxValues", "nullCount",
    }  # fmt: skip
    if isinstance(part, str) and part.startswith("{"):
        return plain(json.loads(part))
    if isinstance(part, dict):
        return {key: plain(value) for key, value in part.items() if key not in left_out}
    return [plain(each) for each in part] if isinstance(part, list) else part


def test_the_first_commit_of_a_table_is_that_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Its actions and its checksum: later commits extend the list of files there, and no query computes it."""
    ddl = "id INT, v STRING, n DOUBLE, more BIGINT, b BOOLEAN, at TIMESTAMP"
    rows = [(1, "é", 0.5, 2**40, True, datetime(1850, 1, 1, 1, 2, 3, 4, tzinfo=UTC)), (2, *[None] * 5)]
    append_rows(spark, str(tmp_path / "ours"), rows, ddl)
    frame = spark.createDataFrame(rows, ddl).coalesce(1)
    frame.write.format("delta").option("mergeSchema", "true").mode("append").save(str(tmp_path / "expected"))
    assert first_commit(tmp_path / "ours") == first_commit(tmp_path / "expected")
    append_rows(spark, str(tmp_path / "ours"), rows, ddl)
    second = json.loads((tmp_path / "ours" / "_delta_log" / f"{1:020d}.crc").read_text("utf-8"))
    assert len(second["allFiles"]) == 2
    found = spark.read.format("delta").load(str(tmp_path / "ours"))
    assert found.schema == StructType.fromDDL(ddl)
    assert sorted(found.collect(), key=repr) == sorted([*frame.collect(), *frame.collect()], key=repr)


def test_a_table_of_a_known_definition_is_another_table(spark: SparkSession, tmp_path: Path) -> None:
    """It has the definition of the first one, and an id of its own."""
    schema = StructType.fromDDL("id INT, v STRING")
    assert isinstance(schema, StructType)
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    names = ("first", "second")
    for name in names:
        create_empty_table(spark, str(tmp_path / name), schema, properties, ["v"])
    details = [DeltaTable.forPath(spark, str(tmp_path / name)).detail().collect()[0].asDict() for name in names]
    assert details[0]["id"] != details[1]["id"]
    same = ("format", "partitionColumns", "numFiles", "properties", "minReaderVersion", "tableFeatures")
    assert [details[0][key] for key in same] == [details[1][key] for key in same]
