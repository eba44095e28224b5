from framework import pipelines as dp

dp.create_sink("out", "delta", {"path": "/data/out"})
dp.create_sink(name="stream", format="kafka", options={"topic": "t", "acks": 1})
dp.create_sink("bare", format="noop")


@dp.append_flow(target="out")
def to_out():
    return spark.readStream.table("orders")


@dp.foreach_batch_sink
def by_hand(frame, batch_id):
    frame.write.format("noop").mode("append").save()


@dp.foreach_batch_sink(name="named")
def write(frame, batch_id):
    pass


@dp.append_flow(target="by_hand", name="to_hand")
def rows():
    return spark.readStream.table("orders")
