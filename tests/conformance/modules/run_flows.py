from framework import pipelines as dp

dp.create_streaming_table("run_merged", expect_all={"small": "amount < 100"})


@dp.append_flow(target="run_merged")
def run_live():
    return spark.readStream.format("delta").load(spark.conf.get("orders")).select("id", "amount")


@dp.append_flow(target="run_merged", name="run_old", once=True)
def backfill():
    return spark.createDataFrame([(100, 7), (101, 8)], "id int, amount int")


@dp.table(name="run_streamed_on")
def query():
    return dp.read_stream("run_merged").where("id >= 100")
