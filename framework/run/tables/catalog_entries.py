"""The entries of tables in a configured catalog of Spark.

Without a configured catalog a table is found by its path only. With one (the Hive metastore for
`spark_catalog`, or a `spark.sql.catalog.<name>`) the same Delta table is also registered there as an
external table, so that other programs find it by name, and a dropped entry loses no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.foundation.names import QualifiedName, string_literal
from framework.foundation.table_address import plain_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION_CATALOG = "spark_catalog"


def is_configured(spark: SparkSession, catalog: str) -> bool:
    """Whether Spark is configured with a persistent catalog of this name; the in-memory catalog does not count."""
    conf: Any = spark._jsparkSession.conf()
    if catalog == _SESSION_CATALOG:
        return bool(conf.get("spark.sql.catalogImplementation", "in-memory") == "hive")
    return bool(conf.getOption(f"spark.sql.catalog.{catalog}").isDefined())


def register(spark: SparkSession, name: QualifiedName, path: str) -> None:
    """Register the table at `path` under its name, if its catalog is configured. Idempotent."""
    if not is_configured(spark, name.catalog):
        return
    session: Any = spark._jsparkSession
    quoted_schema = f"`{name.catalog}`.`{name.schema}`"
    session.sql(f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}")
    session.sql(f"CREATE TABLE IF NOT EXISTS {name.quoted} USING delta LOCATION {string_literal(path)}")


def unregister(spark: SparkSession, name: QualifiedName, path: str) -> None:
    """Remove a table's entry from a configured catalog if its location is `path`; the rows are kept."""
    if not is_configured(spark, name.catalog):
        return
    session: Any = spark._jsparkSession
    if not session.catalog().tableExists(name.quoted):
        return
    location = session.sql(f"DESCRIBE DETAIL {name.quoted}").select("location", []).first().getString(0)
    if plain_path(location) == plain_path(path):
        session.sql(f"DROP TABLE IF EXISTS {name.quoted}")
