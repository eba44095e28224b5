from framework import pipelines as dp

dp.create_streaming_table("Sales.Orders")
dp.create_streaming_table("`other catalog`.sales.`Or ders`")


@dp.append_flow(target="sales.orders", name="sales.Load")
def query():
    return spark.readStream.table("LIVE.source")


@dp.append_flow(target="`other catalog`.sales.`or ders`")
def second():
    return spark.readStream.table("source")
