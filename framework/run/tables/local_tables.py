"""Local stand-ins for tables of other catalogs: the `tables` of `sluice.local.yml`.

A name refers to files, a Delta table, or a table of another pipeline. Queries read it as a batch or as a stream;
modules can read it while they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from framework.declare.local_table import LocalTable
from framework.declare.pipeline_spec import SPEC_NAMES, load_spec
from framework.declare.registry import Registry
from framework.engine.files.storage import open_storage
from framework.engine.plans.relations import named
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.reading.interception import not_reading
from framework.graph.target_tables.tables import ExternalTable
from framework.run.tables.given_tables import given_table
from framework.run.tables.table_record import StorageLayout
from framework.sources.cloud_files.columns.schemas import SchemaStore, schemas_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN = ("format", "path", "pipeline", "table", "schema")
_DELTA = "delta"


def local_table(
    registry: Registry, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool
) -> ExternalTable | None:
    """Return the rows of a name in `tables`; None if there is no such entry.

    Args:
        registry: the declarations, with the entries of `tables`.
        spark: the session of the query.
        name: the name as written in the code.
        options: the reader's options.
        streaming: whether the rows are streamed.

    Raises:
        UserError: LOCAL_TABLE_NOT_FOUND.
    """
    if not registry.local_tables or "/" in name:
        return None
    full = registry.name(name)
    found = next((each for each in registry.local_tables if registry.name(each.name) == full), None)
    if found is None:
        return None
    given = dict(found.options)
    path = _path(found, given, full)
    kind = given.get("format", _DELTA)
    more = {key: value for key, value in given.items() if key not in _OWN} | dict(options)
    reader = spark.readStream if streaming else spark.read
    if kind != _DELTA and (streaming or "schema" in given):
        with not_reading():
            inferred = spark.read.format(kind).options(**more).load(path).schema if "schema" not in given else None
        reader = reader.schema(given["schema"] if inferred is None else inferred)
    with not_reading():
        frame = reader.format(kind).options(**more).load(path)
    return ExternalTable(frame=named(frame, full), path=path if kind == _DELTA else None)


def _path(table: LocalTable, given: Mapping[str, str], full: QualifiedName) -> str:
    """The folder with an entry's rows: its own path, or the folder of another pipeline's table."""
    if "path" in given:
        return given["path"]
    if "pipeline" not in given:
        raise UserError("LOCAL_TABLE_NOT_FOUND", name=table.name, reason="its entry has no `path` and no `pipeline`")
    place = Path(given["pipeline"])
    specs = [place] if place.is_file() else [place / name for name in SPEC_NAMES if (place / name).is_file()]
    if not specs:
        raise UserError("LOCAL_TABLE_NOT_FOUND", name=table.name, reason=f"{place} has no pipeline spec")
    spec = load_spec(specs[0])
    name = given.get("table")
    there = full if name is None else QualifiedName.parse(name, catalog=spec.catalog, schema=spec.schema)
    return StorageLayout(storage=open_storage(spec.storage)).table(there)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadReads:
    """Reads of modules while they are loaded: from `tables`, or else from Spark's catalog.

    Args:
        registry: the registry that is being filled, with the entries of `tables`.
        storage: the storage of the pipeline.
        spark: the session of the pipeline.
    """

    registry: Registry
    storage: str
    spark: SparkSession

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        """Return the rows of a name."""
        find = local_table if self.registry.inputs is None else given_table
        found = find(self.registry, spark, name, options, streaming=streaming)
        if found is not None:
            return found.frame
        with not_reading():
            return (spark.readStream if streaming else spark.read).options(**options).table(name)

    def is_view(self, name: str) -> bool:
        """Whether a name refers to a view of the pipeline, which can't be read yet."""
        del name
        return False

    def schemas(self) -> SchemaStore:
        """Return the recorded columns of folders of files."""
        return schemas_of(open_storage(self.storage, self.spark))
