from framework import pipelines as dp
from pyspark.sql.types import LongType, StructType


@dp.table(
    name="sales.orders",
    comment="All orders.",
    spark_conf={"spark.sql.shuffle.partitions": "4"},
    table_properties={"pipelines.reset.allowed": "false", "delta.appendOnly": True},
    path="/data/orders",
    partition_cols=["day"],
    schema=StructType().add("id", LongType()).add("day of year", LongType()),
    row_filter="ROW FILTER main.sales.mine ON (id)",
    format="delta",
)
def load():
    return spark.range(3)


@dp.table(name="other.sales.clustered", cluster_by=["id"], cluster_by_auto=True, schema="id BIGINT")
def clustered():
    return spark.range(3)
