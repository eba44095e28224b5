"""The port to a stream whose batches are files, and the formats that implement it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Protocol, cast

from framework.engine.streams.stream_source import BatchSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.checkpoints.offsets import CheckpointProgress
    from framework.sources.staging.place import Staging

# As text, like an entry point: nothing is imported before a flow reads the format.
_FORMATS = {
    "database_snapshot": "framework.sources.databases.formats:staged_stream",
    "postgres_snapshot": "framework.sources.databases.formats:staged_stream",
}
STAGED_KINDS = frozenset({"database_snapshot"})
"""The kinds of sources of these formats; their earlier attempts may have left files."""


class StagedStream(BatchSource, Protocol):
    """A source whose batches have one row about each file; each evaluation of a batch writes new files."""

    def write_files(self, batch: DataFrame) -> list[Mapping[str, Any]]:
        """Write the files of the last batch, and return the fields of `FILES_SCHEMA` of each; call it only once."""
        ...

    def stop_adding(self) -> None:
        """Write the files of later batches without the added column."""
        ...

    def end(self) -> None:
        """End all preparation of further batches."""
        ...


def has_files(name: str | None) -> bool:
    """Whether a format can write its batches to files."""
    return name in _FORMATS


def staged_stream(
    name: str, spark: SparkSession, options: Mapping[str, str], staging: Staging, progress: CheckpointProgress
) -> StagedStream:
    """Return the source of a format whose batches become files; its offsets have the form of the format.

    Args:
        name: the format.
        spark: the session of the query.
        options: of the format.
        staging: where the files are written.
        progress: of the checkpoint of the query.

    Raises:
        UserError: an option is wrong, or a driver is not installed.
    """
    make = EntryPoint(name=name, value=_FORMATS[name], group="").load()
    return cast("StagedStream", make(spark, options, staging, progress))
