"""Rows that tests read without Spark are those that Spark reads."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.plain_tables import plain_rows, table_rows

TYPES = (
    "true AS b, 1Y AS y, 2S AS s, 3 AS i, 4L AS l, 0.1f AS f, double('NaN') AS d, 1.50BD AS m, 'é' AS t, "
    "date'0001-01-01' AS day, named_struct('a-b', 1, 'n', cast(NULL AS INT)) AS at, array(named_struct('x', 1), NULL) "
    "AS many, map('k', array(1.5BD)) AS by_key, cast(NULL AS struct<x: int>) AS none, 5 AS `__sluice_x`"
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


def test_rows_that_are_not_plain_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Deleted rows of a file, partitions, times, wider types, and a log without its begin."""
    tables = {name: str(tmp_path / name) for name in ("deleted", "parted", "timed", "wider", "short")}
    for path in tables.values():
        frame = spark.sql("SELECT id, id AS n, timestamp'2025-01-01 00:00:00' AS at FROM range(3)").coalesce(1)
        frame = frame if path.endswith("timed") else frame.drop("at")
        writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
        writer = writer.option("delta.enableTypeWidening", str(path.endswith("wider")).lower())
        (writer.partitionBy("id") if path.endswith("parted") else writer).save(path)
    spark.sql(f"DELETE FROM delta.`{tables['deleted']}` WHERE id = 1")
    Path(tables["short"], "_delta_log", f"{0:020d}.json").rename(tmp_path / "aside")
    assert {name: plain_rows(path, list) for name, path in tables.items()} == dict.fromkeys(tables)
    (tmp_path / "aside").rename(Path(tables["short"], "_delta_log", f"{0:020d}.json"))
    assert sorted(row.id for row in table_rows(spark, tables["deleted"])) == [0, 2]
    assert sorted(row.id for row in table_rows(spark, tables["parted"])) == [0, 1, 2]
