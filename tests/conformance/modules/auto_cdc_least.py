from framework import pipelines as dp

dp.create_streaming_table("users")
dp.create_auto_cdc_flow(target="users", source="changes", keys=["id"], sequence_by="seq")
