"""The latest row of each customer without AUTO CDC: a view over all change events."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table
def changes() -> DataFrame:
    """Change events from files."""
    stream = spark.readStream.format("json").schema("id BIGINT, name STRING, city STRING, op STRING, seq BIGINT")
    return stream.load(f"{spark.conf.get('bench.data')}/changes")


@dp.materialized_view
def customers() -> DataFrame:
    """The newest change of each customer that is no delete."""
    return spark.sql("""
        SELECT id, newest.name, newest.city
        FROM (SELECT id, max_by(struct(name, city, op), seq) AS newest FROM changes GROUP BY id)
        WHERE newest.op <> 'D'
    """)
