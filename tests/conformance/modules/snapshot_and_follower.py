from framework import pipelines as dp

dp.create_streaming_table("users")


@dp.snapshot_flow(target="users", keys=["id"])
def users_snapshot():
    return spark.read.table("users_now")


@dp.auto_cdc_flow(target="users", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'D'", name="users_cdc")
def changes():
    return spark.readStream.table("users_log")
