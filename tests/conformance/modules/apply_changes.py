from framework import pipelines as dp

dp.create_streaming_table("users")
dp.apply_changes(
    target="users",
    source="LIVE.changes",
    keys=["id"],
    sequence_by="seq",
    stored_as_scd_type=2,
    track_history_column_list=["name"],
)
