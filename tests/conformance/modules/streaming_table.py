from framework import pipelines as dp

dp.create_streaming_table("least")
dp.create_streaming_table(
    name="most",
    comment="With everything.",
    spark_conf={"k": "v"},
    table_properties={"a": "b"},
    path="/data/most",
    partition_cols=["day"],
    schema="id BIGINT, day DATE",
    row_filter="ROW FILTER f ON (id)",
    expect_all={"id is there": "id IS NOT NULL"},
    expect_all_or_drop={"late": "day > '2013-01-01'"},
    expect_all_or_fail={"sane": "id >= 0"},
)
