from framework import pipelines as dp
from pyspark.sql import functions as F


@dp.table(comment="A streaming table.")
@dp.expect_or_drop("amount is positive", "amount > 0")
def run_orders():
    return spark.readStream.format("delta").load(spark.conf.get("orders"))


@dp.temporary_view
def run_recent():
    return spark.read.table("run_orders").where("day >= 2")


@dp.materialized_view
@dp.expect("few", F.col("orders") < 2)
def run_by_day():
    return spark.read.table("run_recent").groupBy("day").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))


@dp.table
def run_batch():
    return spark.sql("SELECT max(amount) AS most FROM LIVE.run_orders WHERE day <= ${last_day}")
