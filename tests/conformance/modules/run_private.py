from framework import pipelines as dp


@dp.table(private=True)
def run_hidden():
    return spark.range(3)


@dp.materialized_view(name="run_shown", table_properties={"delta.appendOnly": "false"})
def shown():
    return spark.sql("WITH h AS (SELECT * FROM run_hidden) SELECT sum(id) AS total FROM h")
