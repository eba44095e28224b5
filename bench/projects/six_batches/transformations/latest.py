"""The latest row of each key, by AUTO CDC, one file in a micro-batch."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from framework import pipelines as dp

spark = SparkSession.active()


@dp.temporary_view
def changes() -> DataFrame:
    """Files of change events."""
    reader = spark.readStream.schema("id BIGINT, name STRING, city STRING, amount DOUBLE, op STRING, seq BIGINT")
    return reader.option("maxFilesPerTrigger", "1").parquet(spark.conf.get("bench.data", ""))


dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(
    target="latest", source="changes", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'D'",
    except_column_list=["op"],
)  # fmt: skip
