from framework import pipelines as dp


@dp.expect("above", "id > 1")
@dp.table(name="orders")
@dp.expect_or_drop("below", "id > 2")
@dp.expect_or_fail("lowest", "id > 3")
def query():
    return spark.range(9)


@dp.expect_all({"a": "id > 1", "b": "id > 2"})
@dp.expect_all_or_drop({"c": "id > 3"})
@dp.expect_all_or_fail({"d": "id > 4"})
@dp.temporary_view
def checked():
    return spark.range(9)
