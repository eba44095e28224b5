from framework import pipelines as dp


@dp.materialized_view
def bare():
    return spark.range(1)


@dp.materialized_view(name="daily", comment="By day.", refresh_policy="full", private=False, cluster_by=["day"])
def query():
    return spark.range(1)
