"""All kinds of streaming sources, and functions for flows that read sources of several kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from framework.checkpoints.offsets import CheckpointProgress, read_offsets, read_progress
from framework.engine.plans.relations import streaming_sources
from framework.foundation.files.storage_port import Storage
from framework.foundation.table_address import on_one_file_system
from framework.sources.cloud_files.source import CloudFilesSource
from framework.sources.databases.source import ChangesSource, SnapshotSource
from framework.sources.delta.source import DeltaSource
from framework.sources.files.source import FileSource
from framework.sources.kafka.source import KafkaSource
from framework.sources.opaque import OpaqueSource
from framework.sources.port import (
    CleaningSource,
    CountableSource,
    Gap,
    RememberingSource,
    ResumableSource,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
    StreamingSource,
)
from framework.sources.stored_lag import empty_position, positions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


KINDS: tuple[StreamingSource, ...] = (
    DeltaSource(),
    CloudFilesSource(),
    FileSource(),
    SnapshotSource(),
    ChangesSource(),
    KafkaSource(),
    OpaqueSource(),
)
"""In the order in which they are asked; the last one recognizes everything."""


FlowPositions = tuple[tuple[StreamingSource, SourcePosition], ...]
"""The position of a flow in its sources, by kind."""


def kind_named(name: str) -> StreamingSource:
    """Return the kind with a name, as in `SourceReference.kind`."""
    return next(kind for kind in KINDS if kind.kind == name)


def streamed_sources(frame: DataFrame) -> tuple[SourceReference, ...]:
    """Return the sources of a streaming query in plan order, without stand-ins."""
    return tuple(recognized(relation) for relation in _streaming_relations(frame))


def source_identity(storage: Storage, source: SourceReference) -> str | None:
    """Return a string that changes whenever the source's content changes; None if unknown or not visible."""
    is_place = source.shape in {SourceShape.TABLE, SourceShape.FOLDER}
    if is_place and not on_one_file_system(storage.root, str(source.location)):
        return None
    return kind_named(source.kind).identity(storage, source)


def is_drained(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> bool | None:
    """Return whether a flow's checkpoint has read all present content of its sources; None if unknown.

    False if the checkpoint has no committed batch, or its last batch is not committed. A flow that has not begun is
    drained if its sources certainly have no row for it.
    """
    positions = flow_positions(storage, checkpoint, sources)
    return all_drained(positions) if positions is not None else has_nothing_to_begin(storage, checkpoint, sources)


def has_nothing_to_begin(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> bool:
    """Return whether a flow has no position and its sources certainly have no row for it yet.

    The flow may begin later: its first batch then reads all rows that the sources have by then.
    """
    if not sources or read_progress(storage, checkpoint).last_offset_batch is not None:
        return False
    kinds = [(kind_named(source.kind), source) for source in sources]
    return all(
        source.from_start and isinstance(kind, CountableSource) and kind.is_empty(storage, source)
        for kind, source in kinds
    )


def all_drained(positions: FlowPositions | None) -> bool | None:
    """Return whether these positions cover all present content of the sources; None if unknown."""
    if positions is None:
        return False
    answers = {kind.is_drained(position) for kind, position in positions}
    if False in answers:
        return False
    return None if None in answers else True


def flow_gaps(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> tuple[Gap, ...]:
    """Return the sources of a flow that can't continue from its stored position."""
    positions = flow_positions(storage, checkpoint, sources) or ()
    gaps = tuple(gap for kind, position in positions for gap in kind.gaps(position))
    return (*gaps, *put_back_sources(storage, checkpoint, sources))


def put_back_sources(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> tuple[Gap, ...]:
    """Detect sources whose content was replaced, for example from a backup, after the flow had read it."""
    found = _begun_positions(storage, checkpoint, sources)
    return tuple(
        gap for kind, position in found if isinstance(kind, RememberingSource) for gap in kind.put_back(position)
    )


def remember_sources(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> None:
    """Store what a flow has read, and what a stream that starts now may read, where offsets don't identify it."""
    for kind, position in _begun_positions(storage, checkpoint, sources):
        if isinstance(kind, RememberingSource):
            kind.remember(position)


def _begun_positions(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> FlowPositions:
    """Return the end of the last planned batch by kind, committed or not.

    An uncommitted batch runs again, and the target may already have it. Without a batch, the positions have no offsets.
    If the file of the batch is damaged, no position is known.
    """
    progress = read_progress(storage, checkpoint)
    batch = progress.last_offset_batch
    if batch is None:
        used = [kind for kind in KINDS if any(source.kind == kind.kind for source in sources)]
        return tuple((kind, empty_position(storage, checkpoint, sources, kind.kind)) for kind in used)
    planned = replace(progress, sources=read_offsets(storage, checkpoint, batch))
    return flow_positions(storage, checkpoint, sources, settled=False, progress=planned) or ()


def flow_resume(
    storage: Storage,
    checkpoint: str,
    sources: tuple[SourceReference, ...],
    progress: CheckpointProgress | None = None,
) -> dict[SourceReference, str] | None:
    """Return the start of each source that continues at the end of the checkpoint or at `progress`; None if unknown."""
    found: dict[SourceReference, str] = {}
    for kind, position in flow_positions(storage, checkpoint, sources, settled=False, progress=progress) or ():
        starts = kind.resume(position) if isinstance(kind, ResumableSource) else None
        if starts is None or len(starts) != len(position.sources):
            return None
        found |= dict(zip(position.sources, starts, strict=True))
    return found if found and set(found) == set(sources) else None


def removed_data(storage: Storage, sources: tuple[SourceReference, ...]) -> str:
    """Describe, as a clause, the data that a flow's sources deleted after it was read; empty if none."""
    kinds = [(kind_named(source.kind), source) for source in sources]
    found = [kind.removed(storage, source) for kind, source in kinds if isinstance(kind, CleaningSource)]
    return " and ".join(filter(None, dict.fromkeys(found)))


def recognized(relation: StreamingRelation) -> SourceReference:
    """Return the reference to a relation from the first kind that recognizes it."""
    found = (kind.recognize(relation) for kind in KINDS)
    return next(reference for reference in found if reference is not None)


def flow_positions(
    storage: Storage,
    checkpoint: str,
    sources: tuple[SourceReference, ...],
    *,
    settled: bool = True,
    progress: CheckpointProgress | None = None,
) -> FlowPositions | None:
    """Return the flow's position by kind; None if the checkpoint has no committed batch.

    Args:
        storage: reads the checkpoint.
        checkpoint: its path.
        sources: the flow's sources.
        settled: whether a planned but uncommitted batch makes the position unknown.
        progress: an earlier progress to use instead of the last one.
    """
    return positions_of(KINDS, storage, checkpoint, sources, settled=settled, progress=progress)


def _streaming_relations(frame: DataFrame) -> Iterator[StreamingRelation]:
    for source in streaming_sources(frame):
        path = source.options.get("path") if source.is_data_source_v1 else None
        yield StreamingRelation(format=source.name, path=path, options=source.options)
