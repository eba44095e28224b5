"""The port by which the code of a pipeline reads given rows in place of the inputs that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceRead:
    """A read of files, topics, or another source that is no table by name.

    Args:
        format: the format, in lower case.
        path: the path in the code; None for a source without one.
        options: the options of the reader, with names in lower case.
        schema: the schema of the reader; None if there is none.
        streaming: whether it is a stream.
        location: the line of the read.
    """

    format: str
    path: str | None
    options: Mapping[str, str]
    schema: StructType | None
    streaming: bool
    location: SourceLocation | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedRead:
    """Where Spark reads the given rows of a source.

    Args:
        path: a folder, or a glob.
        format: the format of its files; None if the read keeps its own format and options.
        schema: the schema to set on the reader; None to keep its own.
        removed: options that the reader must not have, in lower case.
        options: options to set on the reader.
    """

    path: str
    format: str | None = None
    schema: StructType | None = None
    removed: frozenset[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict)


class GivenInputs(Protocol):
    """Gives the rows of a pipeline's inputs."""

    def staged(self, spark: SparkSession, read: SourceRead) -> StagedRead | None:
        """Return where the given rows of a source are; None if the real source is read.

        Raises:
            UserError: TEST_INPUT_NOT_GIVEN, TEST_INPUT_AMBIGUOUS.
        """
        ...

    def written(self, path: str) -> str:
        """Return where the code of a sandbox writes in place of a path."""
        ...

    def lets_through(self, name: str) -> bool:
        """Whether the test lets a table or path through by its name, for what a sandbox can't isolate."""
        ...

    def table(self, spark: SparkSession, name: QualifiedName) -> str | None:
        """Return the folder of the Delta table with the given rows of a table; None if the real table is read.

        Args:
            spark: the session of the query.
            name: the full name of a table that the pipeline does not declare.

        Raises:
            UserError: TEST_INPUT_NOT_GIVEN, TEST_INPUT_AMBIGUOUS.
        """
        ...
