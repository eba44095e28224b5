from framework import pipelines as dp


@dp.temporary_view
def bare():
    return spark.range(1)


@dp.temporary_view(name="named", comment="A view.", spark_conf={"k": "v"})
def query():
    return spark.range(1)


@dp.view(name="older")
def older_spelling():
    return spark.range(1)
