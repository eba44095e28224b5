"""Readers of a snapshot whose tasks write each chunk into a Parquet file, and return one row about the file.

The rows of a table pass neither through Spark's connection to Python nor through its rows: ADBC, Arrow, Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.sources.databases.postgres.snapshot_source import ChunkPartition, SnapshotRequest, SnapshotStreamReader
from framework.sources.databases.postgres.staged_files import StagedFile

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from framework.sources.databases.staging import Staging

_SCHEMA = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("stats", pa.string())])


class StagedStreamReader(SnapshotStreamReader):
    """Plans chunks as the snapshot does; each is written into a file by a task.

    Args:
        request: what to read.
        staging: where the files are written.
    """

    def __init__(self, request: SnapshotRequest, staging: Staging) -> None:
        super().__init__(request, tuple(name for name, _ in staging.columns), dict(staging.columns))
        self._staging = staging

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the rows of a chunk, and return the description of the file."""
        assert isinstance(partition, ChunkPartition)
        filesystem, folder = self._staging.open()
        reader = self._request.reader(partition)
        yield _described(
            reader.write_parquet(partition.chunk, folder, filesystem, prefix=self._staging.prefix)
        )  # fmt: skip


def _described(file: StagedFile) -> pa.RecordBatch:
    name = None if file.path is None else file.path.rpartition("/")[2]
    values = ([name], [file.rows], [file.bytes], [file.stats])
    return pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(values, _SCHEMA, strict=True)], schema=_SCHEMA
    )
