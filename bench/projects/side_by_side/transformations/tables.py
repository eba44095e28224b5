"""Three append tables and two views, as one writes them for Spark's own declarative pipelines."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


def read_json(name: str, schema: str) -> DataFrame:
    """A folder of JSON files as a stream."""
    return spark.readStream.format("json").schema(schema).load(f"{spark.conf.get('bench.data')}/{name}")


@dp.table
def orders() -> DataFrame:
    """Orders, appended."""
    return read_json("orders", "id BIGINT, customer BIGINT, amount DOUBLE")


@dp.table
def customers() -> DataFrame:
    """Customers, appended."""
    return read_json("customers", "id BIGINT, name STRING")


@dp.table
def payments() -> DataFrame:
    """Payments, appended."""
    return read_json("payments", "id BIGINT, order_id BIGINT, paid DOUBLE")


@dp.materialized_view
def spent_by_customer() -> DataFrame:
    """The order total of each customer."""
    return spark.sql("""
        SELECT c.name, sum(o.amount) AS amount
        FROM orders o JOIN customers c ON o.customer = c.id
        GROUP BY c.name
    """)


@dp.materialized_view
def open_orders() -> DataFrame:
    """The open amount of each order."""
    return spark.sql("""
        SELECT o.id, o.amount - coalesce(sum(p.paid), 0) AS open
        FROM orders o LEFT JOIN payments p ON p.order_id = o.id
        GROUP BY o.id, o.amount
    """)
