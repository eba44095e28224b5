from framework import pipelines as dp


def declare(day):
    @dp.table(name=f"orders_{day}", comment=f"Day {day}.")
    @dp.expect_or_drop("the day", f"day = {day}")
    def query():
        return spark.range(day)


for day in (1, 2):
    declare(day)
