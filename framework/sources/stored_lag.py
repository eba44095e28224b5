"""The unread content of flows, from checkpoints, folders and Delta logs alone: no module of this loads Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Protocol, TypeVar, runtime_checkable

from framework.checkpoints.offsets import NO_OFFSET, CheckpointProgress, read_progress
from framework.foundation.files.storage_port import Storage
from framework.sources.cloud_files.files.positions import FolderPositions
from framework.sources.databases.source import ChangesSource, SnapshotSource
from framework.sources.delta.source import DeltaSource
from framework.sources.files.source import FileSource
from framework.sources.kafka.source import KafkaSource
from framework.sources.opaque import OpaqueSource
from framework.sources.port import NO_LAG, UNKNOWN_LAG, Lag, SourcePosition, SourceReference


class PositionKind(Protocol):
    """The part of a kind that knows its own offsets and what is unread after them."""

    kind: str
    starts: tuple[str, ...]

    def owns(self, offset: str) -> bool:
        """Return whether this kind wrote an offset of a checkpoint."""
        ...

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Return the unread content."""
        ...


@runtime_checkable
class ExpiringSource(Protocol):
    """A kind whose unread content is deleted at the source after a known time."""

    def lost_in(self, position: SourcePosition, *, now: float) -> float | None:
        """Return the seconds until the source may delete unread content; None if nothing is unread, or if unknown."""
        ...


_Kind = TypeVar("_Kind", bound=PositionKind)

POSITION_KINDS: tuple[PositionKind, ...] = (
    DeltaSource(),
    FolderPositions(),
    FileSource(),
    SnapshotSource(),
    ChangesSource(),
    KafkaSource(),
    OpaqueSource(),
)
"""In the order in which they are asked; the last one owns every offset."""


def kind_named(name: str) -> PositionKind:
    """Return the kind with a name, as in `SourceReference.kind`."""
    return next(kind for kind in POSITION_KINDS if kind.kind == name)


def flow_lag(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...], *, now: float) -> Lag:
    """Return the unread content of all sources of a flow; unknown before its first batch."""
    positions = positions_of(POSITION_KINDS, storage, checkpoint, sources)
    if positions is None:
        return UNKNOWN_LAG
    return reduce(Lag.plus, (kind.lag(position, now=now) for kind, position in positions), NO_LAG)


def lost_in(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...], *, now: float) -> float | None:
    """Return the seconds until a source of a flow may delete unread content; None if unknown, or if none is unread."""
    positions = positions_of(POSITION_KINDS, storage, checkpoint, sources) or ()
    found = [kind.lost_in(position, now=now) for kind, position in positions if isinstance(kind, ExpiringSource)]
    return min((each for each in found if each is not None), default=None)


def positions_of(
    kinds: Sequence[_Kind],
    storage: Storage,
    checkpoint: str,
    sources: tuple[SourceReference, ...],
    *,
    settled: bool = True,
    progress: CheckpointProgress | None = None,
) -> tuple[tuple[_Kind, SourcePosition], ...] | None:
    """Return the flow's position by kind; None if the checkpoint has no committed batch.

    Args:
        kinds: all kinds.
        storage: reads the checkpoint.
        checkpoint: its path.
        sources: the flow's sources.
        settled: whether a planned but uncommitted batch makes the position unknown.
        progress: an earlier progress to use instead of the last one.
    """
    progress = progress or read_progress(storage, checkpoint)
    if (settled and not progress.is_settled) or not progress.sources:
        return None
    offsets = progress.sources
    if len(offsets) == len(sources):  # each line is of one of them, and a source that never had data has no offset
        offsets = tuple(offset for offset in offsets if offset != NO_OFFSET)
    owners = [next(kind for kind in kinds if kind.owns(offset)) for offset in offsets]
    used = [kind for kind in kinds if kind in owners or any(source.kind == kind.kind for source in sources)]
    found = [(kind, empty_position(storage, checkpoint, sources, kind.kind)) for kind in used]
    return tuple(
        (
            kind,
            replace(
                position,
                offsets=tuple(offset for offset, owner in zip(offsets, owners, strict=True) if owner is kind),
                source_count=len(progress.sources),
            ),
        )
        for kind, position in found
    )


def empty_position(
    storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...], kind: str
) -> SourcePosition:
    """Return a position without offsets: the flow has read nothing from its sources of a kind."""
    mine = tuple(source for source in sources if source.kind == kind)
    return SourcePosition(storage=storage, checkpoint=checkpoint, sources=mine, offsets=(), source_count=0)
