"""Reader of `database_changes`: the changes of tables, from the log of their database, as an unbounded stream.

The offset in the flow's checkpoint is the end of a transaction, in a form of the dialect. An offset is acknowledged
only when its micro-batch is committed, so the log between two offsets can be read again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from framework.foundation.errors import SourceError
from framework.foundation.processes import start_of_process
from framework.sources.databases.position import position_of
from framework.sources.databases.streams.spool import Spool, SpooledBatch, SpooledFile

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from framework.sources.databases.streams.change_log import ChangeLog, ChangesRequest

# Spark writes the parts of a file in parallel, each into its own file of the target.
_PART_ROWS = 100_000
_MOST_PARTS = 4
_SPOOLS = "sluice-changes-"


class SpooledPartition(InputPartition):
    """Row groups of a file of changes for one task."""

    def __init__(self, path: str, groups: range) -> None:
        super().__init__((path, groups))
        self.path = path
        self.groups = groups

    @classmethod
    def of(cls, file: SpooledFile) -> Iterator[SpooledPartition]:
        """Yield the parts of a file that are read in parallel."""
        parts = max(1, min(file.rows // _PART_ROWS, file.groups, _MOST_PARTS))
        bounds = [file.groups * part // parts for part in range(parts + 1)]
        for first, end in pairwise(bounds):
            yield cls(str(file.path), range(first, end))


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log into files on the driver; tasks pass the files on.

    The log is read by one reader that stays open between micro-batches. It is opened by the first call, because Spark
    also constructs readers that only read files.

    Args:
        request: what to read.
    """

    def __init__(self, request: ChangesRequest) -> None:
        self._request = request
        self._opened: ChangeLog | None = None
        self._folder: Path | None = None
        self._batch: SpooledBatch | None = None
        self._ends_when_caught_up = False
        self._is_at_end = False
        self._begin: dict[str, Any] | None = None
        """The start of a log that does not keep it, until Spark has planned the first micro-batch."""

    def prepareForTriggerAvailableNow(self) -> None:
        """End the stream at the first read that catches up with the log."""
        self._ends_when_caught_up = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the most rows of a micro-batch, as the options set it; a transaction is never split."""
        return ReadMaxRows(self._request.limit.rows)

    def initialOffset(self) -> dict[str, Any]:
        """Return the position where the log begins, created if there is none; a snapshot may begin afterwards."""
        begin = _as_dict(self._log.start())
        self._begin = None if self._log.keeps_start else begin
        return begin

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next transactions; `start` itself if there are none.

        The first micro-batch of a log that does not keep its start is empty: Spark stores only the end of one, and
        asks for the start again after a kill. So the start is stored before anything is read.
        """
        if start == self._begin:
            return start
        stored = json.dumps(start)
        if self._is_at_end:
            self._release(stored)
            return start
        # Spark has committed the micro-batch that ends at `start`.
        self._log.acknowledge(stored)
        most = None if isinstance(limit, ReadAllAvailable) else self._request.limit
        batch, end = self._log.read_transactions(stored, most)
        self._is_at_end = self._ends_when_caught_up and batch.caught_up
        if batch.rows == 0 and self._may_be_forgotten(batch):
            if self._is_at_end:
                self._release(stored)
            return start
        self._batch = batch
        return _as_dict(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the files of the changes between two offsets; after a restart, read them from the log again."""
        is_first, self._begin = start == self._begin, None
        if is_first:
            return ()
        begin, finish = (json.dumps(offset) for offset in (start, end))
        bounds = position_of(begin).order, position_of(finish).order
        if bounds[0] == bounds[1]:
            return ()
        batch = self._batch
        if batch is None or (batch.start, batch.end) != bounds:
            batch = self._log.read_range(begin, finish)
        return [part for file in batch.files for part in SpooledPartition.of(file)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The changes of a file."""
        assert isinstance(partition, SpooledPartition)
        with pq.ParquetFile(partition.path) as file:
            yield from file.iter_batches(row_groups=list(partition.groups))

    def commit(self, end: dict[str, Any]) -> None:
        """Let the database remove its log up to a committed offset."""
        # If this fails, the next read acknowledges it; the micro-batch is committed either way.
        with suppress(SourceError):
            self._log.acknowledge(json.dumps(end))

    def stop(self) -> None:
        """Close the connections, and remove the files."""
        if self._opened is not None:
            self._opened.release()
            self._opened.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _log(self) -> ChangeLog:
        if self._opened is None:
            self._opened = self._request.log(self._spool)
        return self._opened

    def _spool(self) -> Spool:
        self._folder = spool_folder(self._request.spool_folder)
        return Spool(self._folder)

    def _may_be_forgotten(self, batch: SpooledBatch) -> bool:
        """Whether the end of an empty batch does not have to be stored."""
        is_awaited = batch.start < self._request.advance_to
        distance = batch.end - batch.start
        return distance == 0 or (not is_awaited and distance < self._log.idle_distance)

    def _release(self, committed: str) -> None:
        """Release the log, so that its position can be dropped after the update."""
        # Spark has committed this offset. It is acknowledged now, or the log would have to be read up to it again.
        with suppress(SourceError):
            self._log.acknowledge(committed)
        self._log.release()


def spool_folder(parent: str | None) -> Path:
    """Return a new folder of this process; remove the folders of ended processes."""
    folder = Path(parent or tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    if parent is None:
        for left in folder.glob(f"{_SPOOLS}*"):
            pid, _, started = left.name.removeprefix(_SPOOLS).partition("-")
            if pid.isdigit() and start_of_process(int(pid)) != started.partition("-")[0]:
                shutil.rmtree(left, ignore_errors=True)
    own = os.getpid()
    return Path(tempfile.mkdtemp(prefix=f"{_SPOOLS}{own}-{start_of_process(own)}-", dir=folder))


def _as_dict(position: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(position)
    return found
