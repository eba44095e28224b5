"""The port to existing tables, so that the analysis of a graph does not depend on storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExternalTable:
    """A table outside the pipeline: its rows as Spark reads them, and its folder if it is a Delta table."""

    frame: DataFrame
    path: str | None


class KnownTables(Protocol):
    """The tables that exist when the graph is analysed."""

    def stored_schema(self, name: QualifiedName) -> StructType | None:
        """The schema of a dataset's stored table; None if there is no table."""
        ...

    def external(
        self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool
    ) -> ExternalTable | None:
        """The external table of a name, as written in the module; None if there is no such table."""
        ...

    def catalogs(self, spark: SparkSession) -> tuple[str, ...]:
        """The names of all catalogs, sorted."""
        ...

    def file_identity(self, files: list[str]) -> str | None:
        """A text that changes when one of the files changes; None if computing it would take too long."""
        ...
