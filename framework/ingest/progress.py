"""Progress of snapshots: chunks, percent and time left, from the checkpoint and the size of the table at the source."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_offsets, read_progress
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import SluiceError
from framework.foundation.files.storage_port import Storage
from framework.ingest.connections import open_gateway, table_names
from framework.ingest.gateway_status import SnapshotProgress
from framework.sources.databases.chunks import PlanBasis, SnapshotOffset, percent_done, read_offset, remaining_seconds
from framework.sources.databases.tables import TableName

_RATE_BATCHES = 10
"""The number of recent micro-batches from which the rate of reading is computed."""

Sizes = dict[TableName, tuple[int, int]]


def snapshot_progress(table: IngestedTable, storage: Storage, estimated_rows: int | None) -> SnapshotProgress:
    """Return the progress of the current snapshot of a table.

    Args:
        table: the table.
        storage: the pipeline's storage.
        estimated_rows: rows of the table at the source; None if unknown.
    """
    generations = GenerationStore(storage)
    current = generations.current(table.target, table.snapshot_flow)
    if current is None:
        return SnapshotProgress()
    path = generations.path(table.target, table.snapshot_flow, current.number)
    offset = _offset(read_progress(storage, path).sources)
    if offset is None:
        return SnapshotProgress(checkpoint=current.number, completed=current.completed)
    return SnapshotProgress(
        checkpoint=current.number,
        completed=current.completed,
        chunks=offset.chunks_planned,
        rows=offset.rows_planned,
        percent=None if estimated_rows is None else percent_done(offset, estimated_rows),
        remaining_seconds=_remaining(storage, path, offset, estimated_rows),
        is_read=offset.finished,
    )


def planned_basis(sources: Sequence[str]) -> PlanBasis | None:
    """Return the basis of the plan in these offsets; None before the first chunk is planned."""
    offset = _offset(sources)
    return None if offset is None else offset.basis


def source_sizes(gateway: IngestedGateway) -> Sizes:
    """Return the estimated rows and the bytes of the tables of a gateway that exist.

    Raises:
        SluiceError: the database can't be read.
    """
    with open_gateway(gateway) as source:
        return source.read_sizes(table_names(gateway))


def _offset(sources: Sequence[str]) -> SnapshotOffset | None:
    try:
        return next((read_offset(source) for source in sources), None)
    except SluiceError:  # an offset of another release: its progress is unknown
        return None


def _remaining(storage: Storage, path: str, offset: SnapshotOffset, estimated_rows: int | None) -> float | None:
    """Return the estimated time left, at the rate of the last micro-batches."""
    commits = sorted(
        (int(file.name), file.modified_at) for file in storage.list_files(f"{path}/commits") if file.name.isdecimal()
    )[-_RATE_BATCHES:]
    if offset.finished or estimated_rows is None or len(commits) < 2:
        return 0.0 if offset.finished else None
    first = _offset(read_offsets(storage, path, commits[0][0]))
    return remaining_seconds(
        offset,
        estimated_rows,
        rows_read=offset.rows_planned - (first.rows_planned if first else 0),
        elapsed_seconds=seconds_of_work(storage, path, commits),
    )


def seconds_of_work(storage: Storage, path: str, commits: Sequence[tuple[int, float]]) -> float:
    """Return the time from the first of these commits to the last one, without the pauses between updates.

    The duration of a batch is the time between its offsets file and its commit file. An interrupted batch seems to last
    through the pause, so the median of all batches is used for each of them.
    """
    begun = {file.name: file.modified_at for file in storage.list_files(f"{path}/offsets")}
    times = [max(at - begun.get(str(number), before), 0.0) for (_, before), (number, at) in pairwise(commits)]
    return median(times) * len(times)
