from framework import pipelines as dp
from pyspark.sql.functions import lit

dp.create_streaming_table("users")
dp.create_auto_cdc_flow("users", "old_users", ["id"], lit(0), name="backfill", once=True)
dp.create_auto_cdc_flow("users", "changes", ["id"], "seq", flow_name="follow", apply_as_deletes="op = 'D'")
