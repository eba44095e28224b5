"""All kinds of streaming sources, and the questions that concern a flow with sources of several kinds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from framework.checkpoints.offsets import read_progress
from framework.foundation.storage_port import Storage
from framework.sources.databases.source import ChangesSource, SnapshotSource
from framework.sources.delta.source import DeltaSource
from framework.sources.files.source import FileSource
from framework.sources.port import (
    NO_LAG,
    UNKNOWN_LAG,
    Gap,
    Lag,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
    StreamingSource,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OpaqueSource:
    """Any source without a kind of its own: rate, sockets, user-defined data sources."""

    kind = "opaque"
    starts: tuple[str, ...] = ()

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize every relation; ask this kind last."""
        return SourceReference(kind=self.kind, shape=SourceShape.STREAM, location=relation.format)

    def owns(self, offset: str) -> bool:
        """Own every offset; ask this kind last."""
        del offset
        return True

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """Unknown."""
        del storage, source, previous
        return None

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Unknown."""
        del position
        return None

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """Unknown."""
        del storage, source
        return None

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Unknown."""
        del position, now
        return UNKNOWN_LAG

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """None are known."""
        del position
        return ()


KINDS: tuple[StreamingSource, ...] = (
    DeltaSource(),
    FileSource(),
    SnapshotSource(),
    ChangesSource(),
    OpaqueSource(),
)
"""In the order in which they are asked; the last one recognizes everything."""


def kind_named(name: str) -> StreamingSource:
    """The kind of a reference."""
    return next(kind for kind in KINDS if kind.kind == name)


def streamed_sources(frame: DataFrame) -> tuple[SourceReference, ...]:
    """The sources of a streaming query that are no stand-ins, in the order of its plan."""
    return tuple(_recognize(relation) for relation in _streaming_relations(frame))


def source_identity(storage: Storage, source: SourceReference) -> str | None:
    """A text that changes whenever the source's content changes; None if unknown."""
    return kind_named(source.kind).identity(storage, source)


def is_drained(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> bool | None:
    """Whether a flow's checkpoint has read everything that its sources hold now; None if unknown.

    False for a checkpoint that has not committed a batch, or whose last batch is not committed.
    """
    positions = _positions(storage, checkpoint, sources)
    if positions is None:
        return False
    answers = {kind.is_drained(position) for kind, position in positions}
    if False in answers:
        return False
    return None if None in answers else True


def flow_lag(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...], *, now: float) -> Lag:
    """What a flow has not read of all its sources; unknown before its first batch."""
    positions = _positions(storage, checkpoint, sources)
    if positions is None:
        return UNKNOWN_LAG
    return reduce(Lag.plus, (kind.lag(position, now=now) for kind, position in positions), NO_LAG)


def flow_gaps(storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]) -> tuple[Gap, ...]:
    """The sources of a flow that no longer hold its stored position."""
    positions = _positions(storage, checkpoint, sources) or ()
    return tuple(gap for kind, position in positions for gap in kind.gaps(position))


def _positions(
    storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...]
) -> list[tuple[StreamingSource, SourcePosition]] | None:
    """The flow's position by kind; None if the checkpoint has no committed batch to stand on."""
    progress = read_progress(storage, checkpoint)
    if not progress.is_settled or not progress.sources:
        return None
    owners = [next(kind for kind in KINDS if kind.owns(offset)) for offset in progress.sources]
    used = [kind for kind in KINDS if kind in owners or any(source.kind == kind.kind for source in sources)]
    return [
        (
            kind,
            SourcePosition(
                storage=storage,
                checkpoint=checkpoint,
                sources=tuple(source for source in sources if source.kind == kind.kind),
                offsets=tuple(offset for offset, owner in zip(progress.sources, owners, strict=True) if owner is kind),
                source_count=len(progress.sources),
            ),
        )
        for kind in used
    ]


def _recognize(relation: StreamingRelation) -> SourceReference:
    found = (kind.recognize(relation) for kind in KINDS)
    return next(reference for reference in found if reference is not None)


def _streaming_relations(frame: DataFrame) -> Iterator[StreamingRelation]:
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        name = leaf.nodeName()
        if name == "StreamingRelation":
            source = leaf.dataSource()
            options = _options(source.options())
            yield StreamingRelation(format=str(source.className()).lower(), path=options.get("path"), options=options)
        elif name.startswith("StreamingRelation"):
            options = {str(key).lower(): str(value) for key, value in leaf.extraOptions().asCaseSensitiveMap().items()}
            yield StreamingRelation(format=str(leaf.sourceName()).lower(), options=options)


def _options(scala_map: Any) -> dict[str, str]:
    entries, found = scala_map.iterator(), {}
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1()).lower()] = str(entry._2())
    return found
