import functools

from framework import pipelines as dp


def doubled(query):
    @functools.wraps(query)
    def twice():
        frame = query()
        return frame.union(frame)

    return twice


@dp.expect("positive", "id >= 0")
@dp.table
@doubled
def orders():
    return spark.range(3)


@dp.materialized_view
@doubled
@dp.expect_or_drop("small", "id < 2")
def few():
    return spark.range(3)
