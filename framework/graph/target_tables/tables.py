"""The port to existing tables, so that the analysis of a graph does not depend on storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from framework.declare.specs import DatasetKind, DatasetSpec
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location
from framework.foundation.names import QualifiedName, split_parts
from framework.graph.rules import did_you_mean
from framework.sources.cloud_files.columns.schemas import SchemaStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalTable:
    """A table outside the pipeline: its rows as Spark reads them, and its folder if it is a Delta table."""

    frame: DataFrame
    path: str | None


class KnownTables(Protocol):
    """The tables that exist when the graph is analysed."""

    def stored_schema(self, name: QualifiedName) -> str | None:
        """The schema of a dataset's stored table as JSON; None if there is no table."""
        ...

    def stored_kind(self, name: QualifiedName) -> DatasetKind | None:
        """The kind of a dataset's stored table; None if it is unknown."""
        ...

    def path(self, spec: DatasetSpec) -> str:
        """The folder of a dataset's table, whether or not it exists."""
        ...

    def place_of(self, name: QualifiedName, spark: SparkSession) -> str:
        """The folder of a table by name, in a catalog or in the storage, whether or not the table exists."""
        ...

    def external(
        self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool
    ) -> ExternalTable | None:
        """The external table with a name as written in the module; None if there is no such table."""
        ...

    def schemas(self) -> SchemaStore:
        """The recorded columns of folders of files."""
        ...

    def catalogs(self, spark: SparkSession) -> tuple[str, ...]:
        """The names of all catalogs, sorted."""
        ...

    def file_identity(self, files: list[str]) -> str | None:
        """Return a text that changes when one of the files changes; None if computing it would take too long."""
        ...


def missing_table(
    name: str,
    *,
    dataset: QualifiedName | None,
    known: Iterable[QualifiedName],
    tables: KnownTables,
    spark: SparkSession,
) -> UserError:
    """Return the error of a read of a missing table, with the nearest dataset, and the catalogs for a three-part name.

    Args:
        name: the name as written in the query.
        dataset: its full name; None for a path.
        known: the datasets of the pipeline.
        tables: lists the catalogs.
        spark: the session of the query.
    """
    hint = did_you_mean(dataset, known) if dataset is not None else ""
    if dataset is not None and len(split_parts(name)) == 3:
        catalogs = tables.catalogs(spark)
        problem = (
            ""
            if dataset.catalog in catalogs
            else f" Catalog {dataset.catalog} does not exist here, but a dataset may have this full name."
        )
        hint += f"{problem} Known catalogs: {', '.join(catalogs)}."
    return UserError("TABLE_OR_VIEW_NOT_FOUND", location=caller_location(), name=name, hint=hint)
