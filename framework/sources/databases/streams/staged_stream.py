"""The source of a staged snapshot: plans chunks in the process of the update; tasks write each chunk into a file.

The offsets have the form of `database_snapshot`, so a checkpoint is valid for both. A batch has one row about each
file. The rows of the table go from Arrow to Parquet, and pass neither through Spark's connection to Python nor through
Spark rows. Chunks of few rows are read in the process of the update: a job and PySpark's processes would cost more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from framework.foundation.errors import SluiceError
from framework.sources.databases.chunks import BEGINNING, ChunkKind, SnapshotOffset, read_offset
from framework.sources.databases.streams.snapshot_stream import ChunkPartition, SnapshotRequest, SnapshotStreamReader
from framework.sources.staging.tasks import FILES_SCHEMA, file_fields, files_of_tasks, no_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import InputPartition

    from framework.checkpoints.offsets import CheckpointProgress
    from framework.sources.staging.files import StagedFile
    from framework.sources.staging.place import Staging

_FEW_ROWS = 5000
_FEW_CHUNKS = 4
"""Limits of chunks that are read sequentially: their number, and the estimate of their rows."""


class StagedSnapshotStream:
    """Plans the chunks of one query; the next batch is planned while the present batch is read.

    A plan only finds bounds, so it may be made at any time. Spark records a plan before it is used; an unused plan is
    dropped.

    Args:
        spark: the session of the query.
        request: what to read.
        staging: where the files are written.
        progress: of the checkpoint of the query.
    """

    def __init__(
        self, spark: SparkSession, request: SnapshotRequest, staging: Staging, progress: CheckpointProgress
    ) -> None:
        self.schema = FILES_SCHEMA
        self._spark = spark
        self._request = request
        self._staging = staging
        self._reader = SnapshotStreamReader(request, tuple(name for name, _ in staging.columns), dict(staging.columns))
        self._is_settled = progress.is_settled
        self._connections = request.connections()
        self._ahead: _Ahead | None = None
        self._few: Sequence[InputPartition] | None = None
        if progress.last_offset_batch is None:
            self._plan_ahead(None)
        elif progress.is_settled:
            self._plan_ahead(*progress.sources)

    def prepare(self) -> None:
        """Do nothing: a snapshot ends by itself."""

    def next_offset(self, start: str | None) -> str | None:
        """Return the offset after the next chunks; `start` itself at the end of the snapshot."""
        self._is_settled = False
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.start != start:
            return self._plan(start)
        planned = ahead.take()
        if planned is None or planned == start:
            return self._plan(start)
        # Repeat the checks of the plan: the table or the server may have been replaced since.
        with self._connections.entered():
            self._request.confirm(SnapshotOffset.from_json(planned))
        return planned

    def batch(self, start: str | None, end: str) -> DataFrame:
        """Return one row about the file of each chunk between two offsets; each evaluation writes new files."""
        self._few = None
        if self._is_settled:
            # Spark asks a restarted source for its last committed batch, whose rows it does not use.
            self._is_settled = False
            return no_files(self._spark)
        with self._connections.entered():
            chunks = self._reader.partitions(json.loads(start or BEGINNING), json.loads(end))
        self._plan_ahead(end)
        if _are_few(start, end):
            self._few = chunks
        return files_of_tasks(self._spark, len(chunks), _writer(self._request, self._staging, chunks))

    def write_files(self, batch: DataFrame) -> list[Mapping[str, Any]]:
        """Write the files of the last batch, and return the fields of `FILES_SCHEMA` of each; call it only once.

        Args:
            batch: the result of `batch`, which computes the same in tasks.

        Raises:
            SourceError: as `ChunkReader.batches`, unless tasks read the chunks.
        """
        few, self._few = self._few, None
        if few is None:
            # Each evaluation reads the table again.
            return [row.asDict() for row in batch.where("name IS NOT NULL").collect()]
        with self._connections.entered():
            written = [file_fields(_written(self._request, self._staging, chunk)) for chunk in few]
        return [each for each in written if each["name"] is not None]

    def stop_adding(self) -> None:
        """Write the files of later batches without the added column."""
        self._staging = replace(self._staging, added=None)

    def commit(self, end: str) -> None:
        """Do nothing: the offset has everything that a batch needs."""

    def end(self) -> None:
        """End all planning: close the connections, even with running statements, so that a plan in progress fails.

        Before a query stops, Spark waits for the running call of its source; a walk or a wait for a lock takes minutes.
        """
        self._connections.end()

    def _plan(self, start: str | None) -> str:
        with self._connections.entered():
            found = self._reader.latestOffset(json.loads(start or BEGINNING), self._reader.getDefaultReadLimit())
        # Equal offsets are equal texts.
        return start if start is not None and found == json.loads(start) else json.dumps(found)

    def _plan_ahead(self, start: str | None) -> None:
        if start is None or not SnapshotOffset.from_json(start).finished:
            self._ahead = _Ahead(start, lambda: self._plan(start))


class _Ahead:
    """A plan that is made in the background.

    Args:
        start: the offset that it begins after.
        plan: makes it.
    """

    def __init__(self, start: str | None, plan: Callable[[], str]) -> None:
        self.start = start
        self._plan = plan
        self._found: str | None = None
        self._thread = Thread(target=self._run, name="plan of a snapshot", daemon=True)
        self._thread.start()

    def take(self) -> str | None:
        """Wait for the plan and return it; None if it failed and must be made again."""
        self._thread.join()
        return self._found

    def _run(self) -> None:
        with suppress(SluiceError):
            self._found = self._plan()


def _writer(
    request: SnapshotRequest, staging: Staging, chunks: Sequence[InputPartition]
) -> Callable[[int], StagedFile]:
    """Return the function of a task; it captures a copy of the arguments, not the stream."""
    return lambda number: _written(request, staging, chunks[number])


def _written(request: SnapshotRequest, staging: Staging, part: InputPartition) -> StagedFile:
    assert isinstance(part, ChunkPartition)
    filesystem, folder = staging.open()
    return request.reader(part).write_parquet(
        part.chunk, folder, filesystem, prefix=staging.prefix, added=staging.added
    )


def _are_few(start: str | None, end: str) -> bool:
    """Return whether the chunks of a batch have few rows, by the estimate of the plan."""
    before, planned = read_offset(start or BEGINNING), SnapshotOffset.from_json(end)
    rows = planned.rows_planned - (before.rows_planned if before else 0)
    # A table that is not stored in this database has no estimate.
    return planned.basis.kind != ChunkKind.WHOLE and rows <= _FEW_ROWS and planned.batch_size <= _FEW_CHUNKS
