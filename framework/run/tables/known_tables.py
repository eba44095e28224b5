"""The existing tables that the graph's analysis reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.errors import AnalysisException

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.checkpoints.rebuilds import RebuildStore
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.engine.plans.relations import named
from framework.engine.sessions.session import is_temporary_view, table_exists
from framework.engine.streams.readers import table_of_reader
from framework.foundation.errors import UserError
from framework.foundation.files.storage import is_local
from framework.foundation.names import QualifiedName
from framework.graph.target_tables.tables import ExternalTable
from framework.plan.state import TableKind
from framework.run.tables.catalog_entries import entry_location
from framework.run.tables.given_tables import given_table
from framework.run.tables.local_tables import local_table
from framework.run.tables.table_store import TableStore
from framework.sources.cloud_files.columns.schemas import SchemaStore, schemas_of
from framework.sources.delta.log import latest_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_FILES = 10_000
_CATALOG_KEY = "spark.sql.catalog."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTables:
    """Resolves names in the pipeline's own storage first, then in Spark's catalog."""

    store: TableStore
    registry: Registry

    def stored_schema(self, name: QualifiedName) -> str | None:
        """Return the schema in the record of a dataset's table; None if there is no record.

        During a full refresh this is the schema of the copy: either flows continue to write to the copy, or it replaces
        the table before they run.
        """
        rebuild = RebuildStore(self.store.storage).read(name)
        if rebuild is not None and not rebuild.published and not rebuild.finished:
            return self.store.schema(self.store.copy(name, rebuild.number))
        record = self.store.record(name)
        return None if record is None else record.schema

    def stored_kind(self, name: QualifiedName) -> DatasetKind | None:
        """Return the kind in the record of a dataset's table; None if there is no record."""
        record = self.store.record(name)
        if record is None:
            return None
        is_view = record.kind is TableKind.MATERIALIZED_VIEW
        return DatasetKind.MATERIALIZED_VIEW if is_view else DatasetKind.STREAMING_TABLE

    def path(self, spec: DatasetSpec) -> str:
        """Return the folder of a dataset's table."""
        return self.store.path(spec)

    def place_of(self, name: QualifiedName, spark: SparkSession) -> str:
        """Return the folder of a named table, from its entry in a configured catalog or else in the storage."""
        return entry_location(spark, name) or self.store.layout.table(name)

    def external(
        self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool
    ) -> ExternalTable | None:
        """Return a table of `sluice.local.yml`, of the storage but not the graph, or of Spark's catalog; else None.

        In a sandbox, a table that is neither in the storage nor a temporary view is one whose rows are given.
        """
        inputs = self.registry.inputs
        if inputs is not None and is_temporary_view(spark, name):
            inputs = None
        if inputs is None:
            found = local_table(self.registry, spark, name, options, streaming=streaming)
            if found is not None:
                return found
        path = self._path(name)
        if path is not None:
            reader = spark.readStream if streaming else spark.read
            frame = _visible(reader.format("delta").options(**options).load(path))
            return ExternalTable(frame=named(frame, self.registry.name(name)), path=path)
        if inputs is not None:
            found = given_table(self.registry, spark, name, options, streaming=streaming)
            if found is not None:
                return found
        if not _in_catalog(spark, name):
            return None
        reader = (spark.readStream if streaming else spark.read).options(**options)
        return ExternalTable(frame=table_of_reader(reader, name), path=None)

    def schemas(self) -> SchemaStore:
        """Return the recorded columns of folders of files."""
        return schemas_of(self.store.storage)

    def catalogs(self, spark: SparkSession) -> tuple[str, ...]:
        """Return the catalogs of the pipeline, of the tables in its storage, and of Spark's configuration."""
        stored = self.store.storage.list_names(self.store.storage.path("tables"))
        entries = spark.sparkContext.getConf().getAll()
        configured = [key.removeprefix(_CATALOG_KEY) for key, _ in entries if key.startswith(_CATALOG_KEY)]
        named = [key for key in configured if "." not in key]
        return tuple(sorted({self.registry.catalog.lower(), *stored, *named, "spark_catalog"}))

    def _path(self, name: str) -> str | None:
        try:
            path = self.store.layout.table(self.registry.name(name))
        except UserError:  # a path such as delta.`/x`, which Spark's catalog resolves
            return None
        return path if latest_version(self.store.storage, path) is not None else None

    def file_identity(self, files: list[str]) -> str | None:
        """Return a hash of the path, size and modification time of files, given as URIs; None if one is unavailable."""
        if not files or len(files) > _MOST_FILES or not all(is_local(file) for file in files):
            return None
        by_folder: dict[str, dict[str, str]] = {}
        parts = []
        for file in files:
            folder, _, base = unquote(file.removeprefix("file://")).rpartition("/")
            if folder not in by_folder:
                listed = self.store.storage.list_files(folder)
                by_folder[folder] = {found.name: f"{found.size} {found.modified_at}" for found in listed}
            if base not in by_folder[folder]:
                return None
            parts.append(f"{file} {by_folder[folder][base]}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _visible(frame: DataFrame) -> DataFrame:
    return frame.drop(HIDDEN_COLUMN) if HIDDEN_COLUMN in frame.columns else frame


def _in_catalog(spark: SparkSession, name: str) -> bool:
    if "/" in name:
        return True
    try:
        return table_exists(spark, name)
    except AnalysisException:  # an unknown catalog, or an invalid name
        return False
