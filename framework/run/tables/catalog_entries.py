"""The entries of a pipeline's tables in a configured Spark catalog.

Without a configured catalog a table is found by its path only. With one (the Hive metastore for `spark_catalog`, or a
`spark.sql.catalog.<name>`) the same Delta table is also registered there as an external table, so that other programs
find it by name. A dropped entry loses no rows: the next update registers it again.

After the storage was moved, an entry of this pipeline still refers to the former folder. It is replaced: dropped, which
deletes no file of an external table, and registered again. A crash in between is safe, because an update registers a
missing entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from framework.engine.files.storage import open_storage
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.sessions.session import (
    run_statement,
    session_catalog_entry,
    setting,
    statement_rows,
    table_exists,
)
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName, string_literal
from framework.foundation.table_address import plain_path
from framework.graph.queries.calls import first_words
from framework.run.tables.table_record import TableRecord, original_root
from framework.sources.delta.log import read_tip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.specs import DatasetSpec

ISOLATED = "sluice.isolated"
"""The setting of sessions whose tables are registered in no catalog."""
_SESSION_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A catalog entry: its location, empty for a view, and whether a DROP keeps its files."""

    location: str
    is_external: bool

    def is_at(self, path: str) -> bool:
        """Whether the entry's files are in a folder."""
        return bool(self.location and path) and plain_path(self.location) == plain_path(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEntry:
    """A foreign table or view that has a dataset's name in the catalog: its location and its owner, as texts.

    Args:
        advice: the statement that frees the name without deleting rows, as a sentence; empty if there is none.
    """

    location: str
    other_owner: str
    advice: str = ""


def is_configured(spark: SparkSession, catalog: str) -> bool:
    """Whether Spark is configured with a persistent catalog of this name; the in-memory catalog does not count.

    The tables of a sandbox are in no catalog.
    """
    if setting(spark, ISOLATED) is not None:
        return False
    if catalog == _SESSION_CATALOG:
        return setting(spark, "spark.sql.catalogImplementation") == "hive"
    return setting(spark, f"spark.sql.catalog.{catalog}") is not None


def register(spark: SparkSession, name: QualifiedName, path: str) -> None:
    """Register the table at `path` under its name, if its catalog is configured. Idempotent."""
    if not is_configured(spark, name.catalog):
        return
    run_statement(spark, f"CREATE SCHEMA IF NOT EXISTS `{name.catalog}`.`{name.schema}`")
    run_statement(spark, f"CREATE TABLE IF NOT EXISTS {name.quoted} USING delta LOCATION {string_literal(path)}")


def name_table(spark: SparkSession, spec: DatasetSpec, path: str, record: TableRecord | None) -> None:
    """Register a table's folder under its name in a configured catalog, before its record is written.

    Args:
        spark: the session.
        spec: the dataset.
        path: the folder of its table.
        record: the table's previous record; None for a new table.

    Raises:
        OperationError: CATALOG_SILENT.
    """
    if record is None and not spec.private:
        register(spark, spec.name, path)
    elif record is not None and (record.written_in or record.path != path):
        renew_entry(spark, spec, path, record)


def unregister(spark: SparkSession, name: QualifiedName, path: str) -> None:
    """Remove a table's entry from a configured catalog if the entry's location is `path`; rows are kept.

    Raises:
        OperationError: CATALOG_SILENT.
    """
    if not is_configured(spark, name.catalog):
        return
    entry = find_entry(spark, name)
    if entry is not None and entry.is_at(path):
        _answered(name.catalog, lambda: _drop(spark, name))


def renew_entry(spark: SparkSession, spec: DatasetSpec, path: str, record: TableRecord | None) -> None:
    """Make a recorded table's catalog entry refer to its folder: create a missing entry and replace a former one.

    Args:
        spark: the session.
        spec: the dataset.
        path: the folder of its table.
        record: the table's record, which may have its former folder.

    Raises:
        OperationError: CATALOG_SILENT.
    """
    if spec.private or record is None or not is_configured(spark, spec.name.catalog):
        return
    entry = find_entry(spark, spec.name)
    if entry is not None and (entry.is_at(path) or not _is_former(spark, entry, record)):
        return

    def renew() -> None:
        if entry is not None:
            _drop(spark, spec.name)
            failpoint("catalog.after_drop")
        register(spark, spec.name, path)

    _answered(spec.name.catalog, renew)


def foreign_entry(spark: SparkSession, spec: DatasetSpec, path: str, record: TableRecord | None) -> ForeignEntry | None:
    """Return the entry under a dataset's name in a configured catalog if it is not the dataset's own table.

    Programs that read the name would get rows of another table.

    Args:
        spark: the session.
        spec: the dataset.
        path: the folder of its table.
        record: the record of its table.

    Raises:
        OperationError: CATALOG_SILENT.
    """
    if spec.private or not is_configured(spark, spec.name.catalog):
        return None
    entry = find_entry(spark, spec.name)
    if entry is None or entry.is_at(path):
        return None
    if record is not None and _is_former(spark, entry, record):
        return None
    owner = f"somebody else, who has this name in the catalog {spec.name.catalog}"
    advice = f" If nobody needs that name, `DROP TABLE {spec.name.quoted}` removes it, and leaves its files."
    return ForeignEntry(
        location=entry.location or "no location (a view)", other_owner=owner, advice=advice if entry.is_external else ""
    )


def entry_location(spark: SparkSession, name: QualifiedName) -> str:
    """Return the folder of the table with this name in a configured catalog; empty if the catalog has none.

    Raises:
        OperationError: CATALOG_SILENT.
    """
    entry = find_entry(spark, name) if is_configured(spark, name.catalog) else None
    return "" if entry is None else entry.location


def find_entry(spark: SparkSession, name: QualifiedName) -> CatalogEntry | None:
    """Return the entry with this name, for any kind of table or view; None if there is none.

    Raises:
        OperationError: CATALOG_SILENT.
    """
    found: list[CatalogEntry | None] = []
    of_session = name.catalog == _SESSION_CATALOG
    _answered(name.catalog, lambda: found.append(_stored(spark, name) if of_session else _described(spark, name)))
    return found[0]


def _answered(catalog: str, ask: Any) -> None:
    try:
        ask()
    except (PySparkException, Py4JError) as error:
        raise OperationError("CATALOG_SILENT", catalog=catalog, problem=first_words(error)) from error


def _drop(spark: SparkSession, name: QualifiedName) -> None:
    run_statement(spark, f"DROP TABLE IF EXISTS {name.quoted}")


def _is_former(spark: SparkSession, entry: CatalogEntry, record: TableRecord) -> bool:
    """Whether an entry refers to the former folder of a dataset's recorded table.

    The entry must be an external table, its folder must not have another table, and no other storage may still have the
    table there: then this storage would be a copy.
    """
    was_there = entry.is_at(record.path) or entry.is_at(record.written_path)
    if not entry.is_external or record.table_id is None or not was_there:
        return False
    if record.written_in and original_root(record, plain_path(entry.location), spark):
        return False
    try:
        tip = read_tip(open_storage(entry.location, spark), entry.location)
    except OperationError:  # another table may be there
        return False
    return tip is None or tip.table_id == record.table_id


def _stored(spark: SparkSession, name: QualifiedName) -> CatalogEntry | None:
    """Return the session catalog's entry without reading the table, which may be missing or not a Delta table."""
    found = session_catalog_entry(spark, name.schema, name.table)
    if found is None:
        return None
    kind, location = found
    return CatalogEntry(location="" if kind == "VIEW" else location, is_external=kind == "EXTERNAL")


def _described(spark: SparkSession, name: QualifiedName) -> CatalogEntry | None:
    """Return another catalog's entry; `DESCRIBE DETAIL` would require a Delta table."""
    if not table_exists(spark, name.quoted):
        return None
    rows = statement_rows(spark, f"DESCRIBE TABLE EXTENDED {name.quoted}")
    # A blank line follows the columns, one of which may have such a name.
    found, is_detail = {"Location": "", "Type": ""}, False
    for row in rows:
        title = row.getString(0)
        is_detail = is_detail or title == "# Detailed Table Information"
        if is_detail and title in found:
            found[title] = str(row.getString(1))
    return CatalogEntry(location=found["Location"], is_external=found["Type"] == "EXTERNAL")
