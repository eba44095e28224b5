from framework import pipelines as dp


def next_snapshot(latest_version):
    version = 1 if latest_version is None else latest_version + 1
    return None if version > 3 else (spark.range(version), version)


for name in ("by_function", "by_name", "older"):
    dp.create_streaming_table(name)
dp.create_auto_cdc_from_snapshot_flow("by_function", next_snapshot, ["id"], stored_as_scd_type=2)
dp.create_auto_cdc_from_snapshot_flow(target="by_name", source="snapshot", keys=["id"], name="compare", once=True)
dp.apply_changes_from_snapshot(
    target="older",
    source="snapshot",
    keys=["id"],
    stored_as_scd_type="2",
    track_history_except_column_list=["seen_at"],
)
