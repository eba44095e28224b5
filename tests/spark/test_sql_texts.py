"""The texts of `spark.sql` in query functions mean what they mean in Spark, with a pipeline's datasets as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ALL = [1, 2]
TEXTS: dict[str, tuple[str, Any, list[int]]] = {
    "schema": ("SELECT s.orders.id FROM s.orders", None, ALL),
    "catalog": ("SELECT main.s.orders.id FROM orders", None, ALL),
    "star": ("SELECT s.orders.* FROM s.orders", None, ALL),
    "live": ("SELECT LIVE.orders.id FROM LIVE.orders", None, ALL),
    "group": ("SELECT s.orders.id FROM s.orders GROUP BY s.orders.id HAVING max(orders.id) > 1", None, [2]),
    "two schemas": ("SELECT t.orders.id FROM s.orders JOIN t.orders ON s.orders.id = t.orders.id", None, [2]),
    "common expression": (
        "WITH a AS (SELECT s.orders.id FROM s.orders), b AS (SELECT * FROM a) SELECT * FROM b",
        None,
        ALL,
    ),
    "subquery": ("SELECT id FROM orders WHERE id = (SELECT max(s.orders.id) FROM s.orders)", None, [2]),
    "sample": ("SELECT id FROM orders TABLESAMPLE (100 PERCENT)", None, ALL),
    "sample, alias": ("SELECT o.id FROM orders TABLESAMPLE (100 PERCENT) AS o", None, ALL),
    "table": ("TABLE orders", None, ALL),
    "options": ("SELECT id FROM orders WITH ('versionAsOf' = '1')", None, [1]),
    "named": ("SELECT id FROM orders WHERE id > :low", {"low": 1}, [2]),
    "positional": ("SELECT id FROM orders WHERE id > ? AND id < ?", [0, 2], [1]),
    "list": ("SELECT id FROM orders WHERE array_contains(:ids, id)", {"ids": [2]}, [2]),
    "expression of a name": ("WITH a AS (SELECT * FROM IDENTIFIER('s' || '.orders')) SELECT id FROM a", None, ALL),
    "name": ("SELECT id FROM IDENTIFIER(:name)", {"name": "s.orders"}, ALL),
}


def test_a_text_means_the_same_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Columns qualified by schema and catalog, TABLESAMPLE, TABLE, options of a read, parameters; streams as well."""
    world = EngineWorld(spark, tmp_path)

    def orders_only() -> None:
        @dp.table
        def orders() -> DataFrame:
            return spark.readStream.format("delta").load(world.source())

    def declare() -> None:
        orders_only()

        @dp.materialized_view(name="t.orders")
        def others() -> DataFrame:
            return spark.sql("SELECT 2L AS id")

        @dp.materialized_view
        def texts() -> DataFrame:
            found = [spark.sql(text, args=args).select(sql.lit(name), "id") for name, (text, args, _) in TEXTS.items()]
            rows = found[0].toDF("text", "id")
            for frame in found[1:]:
                rows = rows.union(frame)
            return rows

        @dp.table
        def late() -> DataFrame:
            return spark.sql("SELECT s.orders.id FROM STREAM s.orders WITH ('startingVersion' = '2')")

    world.feed([(1,)], "id long")
    world.run(orders_only)
    world.feed([(2,)], "id long")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("texts") == sorted((name, id_) for name, (_, _, ids) in TEXTS.items() for id_ in ids)
    assert world.rows("late") == [(2,)]


def test_parameters_of_sql_outside_of_a_pipeline(spark: SparkSession) -> None:
    """Delta's parser ignores parameters in Spark 4.2; a session of Sluice's binds them in the analysis."""
    assert spark.sql("SELECT id FROM range(3) WHERE id > :low", args={"low": 1}).collect() == [(2,)]
    assert spark.sql("SELECT id FROM range(3) WHERE id < ?", args=[1]).collect() == [(0,)]
