from framework import pipelines as dp

for name, arguments in {
    "everywhere": {"ignore_null_updates": True},
    "some": {"ignore_null_updates_column_list": ["a", "b"]},
    "most": {"ignore_null_updates_except_column_list": ["c"]},
    "told": {"columns_to_update": "changed_columns"},
}.items():
    dp.create_streaming_table(name)
    dp.create_auto_cdc_flow(name, "changes", ["id"], "seq", **arguments)
