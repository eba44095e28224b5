"""The source port: what the engine needs from any kind of streaming source.

Each kind implements `StreamingSource` in a folder of its own and is listed in `framework.sources.kinds`.
`framework.testing.source_conformance` is the suite that every kind must pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from framework.foundation.storage_port import Storage


class SourceShape(StrEnum):
    """How diagrams draw a source."""

    TABLE = "table"
    FOLDER = "folder"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingRelation:
    """A streaming leaf of an analysed plan.

    Args:
        format: the data source's short name or class name, in lower case.
        path: the option `path`; None if there is none.
        options: all options, keys in lower case.
    """

    format: str
    path: str | None = None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReference:
    """A source that a flow reads: a value that the graph holds.

    Args:
        kind: name of the kind that recognized it.
        shape: how diagrams draw it.
        location: the path or name of what is read; None if the kind has none.
    """

    kind: str
    shape: SourceShape
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """How far one flow has read its sources of one kind.

    Args:
        storage: reads checkpoints and tables.
        checkpoint: path of the flow's checkpoint.
        sources: the flow's sources of the kind, in the order of its query.
        offsets: the committed offsets that the kind owns, as Spark wrote them.
        source_count: number of all sources in the checkpoint, other kinds included.
    """

    storage: Storage
    checkpoint: str
    sources: tuple[SourceReference, ...]
    offsets: tuple[str, ...]
    source_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """What a source holds that a flow has not read; None where the number is unknown.

    Args:
        records: rows.
        bytes: bytes of the files that hold them.
        seconds: age of the oldest unread commit or file; 0.0 if nothing is unread.
    """

    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def plus(self, other: Lag) -> Lag:
        """The lag behind both sources: sums of records and bytes, the larger age."""
        return Lag(
            records=None if self.records is None or other.records is None else self.records + other.records,
            bytes=None if self.bytes is None or other.bytes is None else self.bytes + other.bytes,
            seconds=None if self.seconds is None or other.seconds is None else max(self.seconds, other.seconds),
        )


NO_LAG = Lag(records=0, bytes=0, seconds=0.0)
UNKNOWN_LAG = Lag()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stored position that the source can't continue from.

    Args:
        condition: the error condition that Spark or Delta raises for it.
        location: the source.
        problem: one sentence for the user.
    """

    condition: str
    location: str
    problem: str


class StreamingSource(Protocol):
    """One kind of streaming source. No method starts a Spark job."""

    kind: str
    starts: tuple[str, ...]
    """Reader options that set where a new checkpoint starts; () if the kind has none."""

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """The reference to this relation; None if it is of another kind."""
        ...

    def owns(self, offset: str) -> bool:
        """Whether an offset of a checkpoint was written by this kind."""
        ...

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """A text that changes when the source gets new content, at the cost of a few file system calls.

        None if a change can't be seen this way. Changes that are milliseconds apart may share a token.

        Args:
            storage: reads the source's folders.
            source: the source.
            previous: the last token of the source; it may save listings.
        """
        ...

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Whether everything that the sources hold now has been read; None if unknown."""
        ...

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """A text that changes whenever the source's content changes; None if unknown."""
        ...

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """What is unread.

        Args:
            position: how far the flow has read.
            now: the present time in epoch seconds.
        """
        ...

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """The sources that no longer hold the stored position."""
        ...
