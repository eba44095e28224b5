from framework import pipelines as dp
from pyspark.sql.functions import col, struct

dp.create_streaming_table("users")
dp.create_auto_cdc_flow(
    target="users",
    source="changes",
    keys=[col("id"), col("tenant")],
    sequence_by=struct("ts", "seq"),
    where="tenant <> 'test'",
    column_list=["id", "tenant", "name", "city"],
    stored_as_scd_type="2",
    track_history_except_column_list=["city"],
)
