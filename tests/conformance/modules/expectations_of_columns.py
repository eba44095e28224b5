from framework import pipelines as dp
from pyspark.sql import functions as F

RULES = {"known": F.col("carrier name").isNotNull(), "short": F.length("code") <= 2}


@dp.table
@dp.expect_all(RULES)
@dp.expect("recent", F.col("day") >= F.lit("2013-01-01").cast("date"))
def carriers():
    return spark.range(1)
