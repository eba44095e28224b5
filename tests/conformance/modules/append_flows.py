from framework import pipelines as dp

dp.create_streaming_table("orders")


@dp.append_flow(target="orders")
def north():
    return spark.readStream.table("north_source")


@dp.append_flow(target="orders", name="south", spark_conf={"k": "v"}, comment="From the south.")
def query():
    return spark.readStream.table("south_source")
