"""The same table by a stream as an engineer writes it: the newest row of each key, merged in `foreachBatch`."""

from __future__ import annotations

import os

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

_SCHEMA = "id BIGINT, name STRING, city STRING, amount DOUBLE, op STRING, seq BIGINT"
_COLUMNS = ("id", "name", "city", "amount", "seq")


def merge(batch: DataFrame, _number: int) -> None:
    """Write the newest event of each key of a batch."""
    spark = batch.sparkSession
    newest = Window.partitionBy("id").orderBy(F.desc("seq"))
    latest = batch.withColumn("rank", F.row_number().over(newest)).where("rank = 1").drop("rank")
    if not DeltaTable.isDeltaTable(spark, "target"):
        latest.where("op <> 'D'").drop("op").write.format("delta").save("target")
        return
    values = {column: f"s.{column}" for column in _COLUMNS}
    merged = DeltaTable.forPath(spark, "target").alias("t").merge(latest.alias("s"), "t.id = s.id")
    merged = merged.whenMatchedDelete("s.op = 'D' AND s.seq > t.seq")
    merged = merged.whenMatchedUpdate("s.seq > t.seq", set=dict(values))
    merged.whenNotMatchedInsert("s.op <> 'D'", values=dict(values)).execute()


def main() -> None:
    """Read every new file, one in a batch."""
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": os.environ["BENCH_JARS"],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    events = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", "1").parquet("data")
    writer = events.writeStream.foreachBatch(merge).option("checkpointLocation", "checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
