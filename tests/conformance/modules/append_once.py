from framework import pipelines as dp

dp.create_streaming_table("orders")


@dp.append_flow(target="orders", once=True)
def backfill():
    return spark.range(3)
