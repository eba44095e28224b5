"""The latest row of each customer by AUTO CDC."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.temporary_view
def changes() -> DataFrame:
    """Change events from files."""
    stream = spark.readStream.format("json").schema("id BIGINT, name STRING, city STRING, op STRING, seq BIGINT")
    return stream.load(f"{spark.conf.get('bench.data')}/changes")


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers",
    source="changes",
    keys=["id"],
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    except_column_list=["op", "seq"],
)
