from framework import pipelines as dp
from pyspark.sql.functions import col, expr


@dp.temporary_view
def run_changes():
    return spark.readStream.format("delta").load(spark.conf.get("changes"))


dp.create_streaming_table("run_users")
dp.create_auto_cdc_flow(
    target="run_users",
    source="run_changes",
    keys=["userId"],
    sequence_by=col("sequenceNum"),
    apply_as_deletes=expr("operation = 'DELETE'"),
    except_column_list=["operation", "sequenceNum"],
)

dp.create_streaming_table("run_users_backfilled")


@dp.snapshot_flow(target="run_users_backfilled", keys=["userId"])
def run_snapshot():
    return spark.createDataFrame([(124, "Old", "Nowhere"), (200, "Zoe", "Lima")], "userId int, name string, city string")


@dp.auto_cdc_flow(
    target="run_users_backfilled",
    keys=["userId"],
    sequence_by="sequenceNum",
    apply_as_deletes="operation = 'DELETE'",
    except_column_list=["operation", "sequenceNum"],
)
def run_follower():
    return spark.readStream.table("run_changes")
