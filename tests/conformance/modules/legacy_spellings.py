from framework import pipelines as dp


@dp.create_table(comment="DLT's first name for a table.")
def first():
    return spark.range(1)


@dp.create_view()
def second():
    return spark.range(1)


dp.create_target_table("third")
dp.create_streaming_live_table(name="LIVE.fourth", comment="Streaming live table.")
