"""The entries of tables in a configured catalog of Spark.

Without a configured catalog a table is found by its path only. With one (the Hive metastore for
`spark_catalog`, or a `spark.sql.catalog.<name>`) the same Delta table is also registered there as an
external table, so that other programs find it by name, and a dropped entry loses no rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from framework.foundation.names import QualifiedName, string_literal
from framework.foundation.table_address import plain_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.specs import DatasetSpec

_SESSION_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEntry:
    """A table or view of somebody else that has a dataset's name in the catalog: where it is, and whose, as texts."""

    location: str
    other_owner: str


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
    if is_configured(spark, name.catalog) and plain_path(_location(spark, name) or "") == plain_path(path):
        session: Any = spark._jsparkSession
        session.sql(f"DROP TABLE IF EXISTS {name.quoted}")


def foreign_entry(spark: SparkSession, spec: DatasetSpec, path: str) -> ForeignEntry | None:
    """Return what a configured catalog has under a dataset's name, if it is not the dataset's table at `path`.

    Programs that read the name would get other rows than the dataset's.
    """
    if spec.private or not is_configured(spark, spec.name.catalog):
        return None
    location = None
    with suppress(PySparkException, Py4JError):  # a catalog that does not answer stops no update of a table at its path
        location = _location(spark, spec.name)
    if location is None or plain_path(location) == plain_path(path):
        return None
    owner = f"somebody else, who has this name in the catalog {spec.name.catalog}"
    return ForeignEntry(location=location or "no location (a view)", other_owner=owner)


def _location(spark: SparkSession, name: QualifiedName) -> str | None:
    """Return the location of the entry of this name, of any kind of table; "" for a view, None without an entry.

    `DESCRIBE DETAIL` reads the table, which may be damaged, gone, or none of Delta's.
    """
    session: Any = spark._jsparkSession
    if not session.catalog().tableExists(name.quoted):
        return None
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {name.quoted}").collectAsList()
    # After the columns, one of which may have this name, comes a blank line.
    found, is_detail = "", False
    for row in rows:
        title = row.getString(0)
        is_detail = is_detail or title == "# Detailed Table Information"
        if is_detail and title == "Location":
            found = str(row.getString(1))
    return found
