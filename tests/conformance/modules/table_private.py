from framework import pipelines as dp


@dp.table(private=True)
def inner():
    return spark.range(1)


@dp.table(temporary=True)
def older():
    return spark.range(1)
