"""What the graph asks of the tables that exist: a port, so that analysing needs no storage of its own."""

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
        """The schema that a dataset's table has on storage, or None when there is no table."""
        ...

    def external(
        self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool
    ) -> ExternalTable | None:
        """The table outside the pipeline of that name, as written in the module; None when there is none."""
        ...

    def catalogs(self, spark: SparkSession) -> tuple[str, ...]:
        """The names of all catalogs that a table may be in, sorted."""
        ...

    def file_identity(self, files: list[str]) -> str | None:
        """A text that changes when one of the files does; None when telling would take too long."""
        ...
