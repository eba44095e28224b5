from framework import pipelines as dp
from pyspark.sql.functions import udf

SUFFIX = "!"


def shout(text):
    return text.upper() + SUFFIX


@dp.materialized_view
def run_shouted():
    return spark.table("run_users").select(udf(shout)("city").alias("city"))
