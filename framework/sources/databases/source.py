"""Database sources as kinds of streaming sources: snapshots, which end, and changes, which do not.

No method queries the database, because a plan must not depend on it. Facts that only the database has are unknown here.
"""

from __future__ import annotations

from framework.sources.databases.format_names import CHANGES_FORMATS, SNAPSHOT_FORMATS
from framework.sources.port import (
    NO_LAG,
    UNKNOWN_LAG,
    Lag,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
    UnseenSource,
    offset_object,
)


class SnapshotSource(UnseenSource):
    """A snapshot of a table in chunks; its offset says whether its last chunks are planned."""

    kind = "database_snapshot"
    starts: tuple[str, ...] = ()

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize the snapshot format of any database."""
        if relation.format not in SNAPSHOT_FORMATS:
            return None
        place = f"{relation.options.get('connection', '')}: {relation.options.get('table', '')}"
        return SourceReference(kind=self.kind, shape=SourceShape.TABLE, location=place)

    def owns(self, offset: str) -> bool:
        """Own the offsets of chunks, and the offset before the first chunk."""
        value = offset_object(offset)
        return value.get("beginning") is True or {"bounds", "chunks", "finished"} <= set(value)

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Whether every snapshot is read to its end, so that Spark has committed the offset of the last chunks."""
        is_begun = len(position.offsets) >= len(position.sources)
        return is_begun and all(offset_object(offset).get("finished") is True for offset in position.offsets)

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Return no lag after the last chunks, and an unknown lag before: offsets do not have the size of the table."""
        del now
        return NO_LAG if self.is_drained(position) else UNKNOWN_LAG


class ChangesSource(UnseenSource):
    """Changes from the log of a database; only the database knows whether there are new changes."""

    kind = "database_changes"
    starts: tuple[str, ...] = ()

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize the changes format of any database."""
        if relation.format not in CHANGES_FORMATS:
            return None
        # A log has one position for all its tables, so the source stays the same when a table joins.
        place = f"{relation.options.get('connection', '')}: {relation.options.get('slot', '')}"
        return SourceReference(kind=self.kind, shape=SourceShape.STREAM, location=place)

    def owns(self, offset: str) -> bool:
        """Own positions in the log of any dialect, which have what `position_of` reads."""
        return {"order", "text"} <= set(offset_object(offset))
