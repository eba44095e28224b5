from framework import pipelines as dp
from pyspark.sql.functions import col, expr

dp.create_streaming_table("users")
dp.create_auto_cdc_flow(
    target="users",
    source="changes",
    keys=["userId"],
    sequence_by=col("sequenceNum"),
    apply_as_deletes=expr("operation = 'DELETE'"),
    apply_as_truncates=expr("operation = 'TRUNCATE'"),
    except_column_list=["operation", "sequenceNum"],
    stored_as_scd_type=1,
)
