from framework import pipelines as dp


@dp.table
def source():
    return spark.range(1)


@dp.table
def batch():
    return dp.read("source")


@dp.table
def stream():
    return dp.read_stream("source").union(dp.readStream("LIVE.source"))
