"""A pipeline's tables in a configured catalog of Spark's, beside their place in storage.

Without a catalog a table is found by its path. With one (Hive's metastore for `spark_catalog`, or a
`spark.sql.catalog.<name>`) the same Delta table is registered there too, as an external table, so
that other programs find it by name and a dropped entry loses no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.names import QualifiedName

_SESSION_CATALOG = "spark_catalog"


def is_configured(spark: SparkSession, catalog: str) -> bool:
    """Whether Spark was given a lasting catalog of that name; its in-memory one does not count."""
    conf: Any = spark._jsparkSession.conf()
    if catalog == _SESSION_CATALOG:
        return bool(conf.get("spark.sql.catalogImplementation", "in-memory") == "hive")
    return bool(conf.getOption(f"spark.sql.catalog.{catalog}").isDefined())


def register(spark: SparkSession, name: QualifiedName, path: str) -> None:
    """Make the table at `path` known under its name, if its catalog is configured; again is the same."""
    if not is_configured(spark, name.catalog):
        return
    session: Any = spark._jsparkSession
    quoted_schema = f"`{name.catalog}`.`{name.schema}`"
    session.sql(f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}")
    session.sql(f"CREATE TABLE IF NOT EXISTS {name.quoted} USING delta LOCATION '{_escaped(path)}'")


def unregister(spark: SparkSession, name: QualifiedName, path: str) -> None:
    """Remove a table's entry from a configured catalog, if it leads to `path`; the rows are not touched."""
    if not is_configured(spark, name.catalog):
        return
    session: Any = spark._jsparkSession
    if not session.catalog().tableExists(name.quoted):
        return
    location = session.sql(f"DESCRIBE DETAIL {name.quoted}").select("location", []).first().getString(0)
    if _plain(location) == _plain(path):
        session.sql(f"DROP TABLE IF EXISTS {name.quoted}")


def _plain(location: str) -> str:
    """A location without the scheme that Spark puts before a local path."""
    return "/" + location.removeprefix("file:").strip("/") if location.startswith(("file:", "/")) else location


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
