"""The source port: what the engine needs from any kind of streaming source.

Each kind implements `StreamingSource` in a folder of its own and is listed in `framework.sources.kinds`.
`framework.testing.source_conformance` is the suite that every kind must pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from framework.foundation.files.storage_port import Storage
from framework.foundation.secrets.known_secrets import remember_settings
from framework.foundation.table_address import plain_path


class SourceShape(StrEnum):
    """How diagrams draw a source."""

    TABLE = "table"
    FOLDER = "folder"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingRelation:
    """A streaming leaf of an analysed plan; secrets in its options are redacted from all output of the process.

    Args:
        format: the data source's short name or class name, in lower case.
        path: the option `path`; None if there is none.
        options: all options, keys in lower case.
    """

    format: str
    path: str | None = None
    options: Mapping[str, str]

    def __post_init__(self) -> None:
        """Register the secrets for redaction."""
        remember_settings(self.options.items())


class ColumnType(StrEnum):
    """The types of columns whose values are compared without Spark."""

    STRING = "string"
    INTEGER = "integer"  # of any width
    DATE = "date"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """A condition of a query: only rows in which the column has one of the values are of interest.

    Args:
        column: the name of the column; case-insensitive.
        type: its type.
        values: the values as `CAST(value AS STRING)`, sorted; None is NULL.
    """

    column: str
    type: ColumnType
    values: tuple[str | None, ...]

    def __str__(self) -> str:
        """Return the condition as a plan's reasons print it."""
        texts = ["NULL" if value is None else value for value in self.values]
        return f"{self.column} = {texts[0]}" if len(texts) == 1 else f"{self.column} in ({', '.join(texts)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReference:
    """A source that a flow reads: a value that the graph holds.

    Args:
        kind: name of the kind that recognized it.
        shape: how diagrams draw it.
        location: the path or name of the source; None if the kind has none.
        details: further information for the kind; not for users.
        only: conditions that all rows of interest meet; a kind may ignore them.
        from_start: whether a stream without a position begins with all rows that the source has then.
        begins: the start that the code gives, as `option=value`, if a stream without a position skips rows of the
            source; empty if it begins with all rows, or if the kind has no starts.
        selects: the `option=value` that distinguishes this read from other reads of the location; empty if none does.
    """

    kind: str
    shape: SourceShape
    location: str | None = None
    details: str = field(default="", repr=False, compare=False)
    only: tuple[ColumnValues, ...] = ()
    from_start: bool = field(default=False, compare=False)
    begins: str = field(default="", repr=False, compare=False)
    selects: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        """Return the source's name in manifests and messages, such as `/landing/orders (cloud_files)`."""
        location = self.location or "-"
        is_path = self.shape is SourceShape.FOLDER or location.startswith(("/", "file:"))
        return f"{plain_path(location) if is_path else location} ({', '.join(filter(None, (self.kind, self.selects)))})"


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
    """The unread content of a source; None where a number is unknown.

    Args:
        records: rows.
        bytes: bytes of the files that hold them.
        seconds: age of the oldest unread commit or file; 0.0 if nothing is unread.
    """

    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def plus(self, other: Lag) -> Lag:
        """Return the combined lag of two sources: the sums of records and bytes, and the larger age."""
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
        """Return the reference to this relation; None if it is of another kind."""
        ...

    def owns(self, offset: str) -> bool:
        """Return whether this kind wrote an offset of a checkpoint."""
        ...

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """Return a string that changes when the source gets new content, at the cost of a few file system calls.

        None if a change can't be seen this way. Changes that are milliseconds apart may share a token.

        Args:
            storage: reads the source's folders.
            source: the source.
            previous: the last token of the source; it may save listings.
        """
        ...

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Return whether all present content of the sources has been read; None if unknown."""
        ...

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """Return a string that changes whenever the source's content changes; None if unknown."""
        ...

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Return the unread content.

        Args:
            position: how far the flow has read.
            now: the present time in epoch seconds.
        """
        ...

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """Return the sources that can't continue from the stored position."""
        ...


class UnseenSource:
    """Base of kinds whose content is visible only to the source itself: every result is unknown."""

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
        """Return no gap: only the read itself detects a lost position."""
        del position
        return ()


@runtime_checkable
class ResumableSource(Protocol):
    """A kind whose position can be written as a start of a new checkpoint."""

    def resume(self, position: SourcePosition) -> tuple[str, ...] | None:
        """Return, for each source, the start that continues at the end of the position; None if unknown.

        A start may repeat rows of a partly read commit or file, and never skips any.
        """
        ...


@runtime_checkable
class RememberingSource(Protocol):
    """A kind whose offsets can't distinguish content that was read from content that replaced it."""

    def remember(self, position: SourcePosition) -> None:
        """Store in the checkpoint what was read up to the position, and what a stream that starts now may read.

        Call it before a stream starts, and when it has ended. Idempotent.
        """
        ...

    def put_back(self, position: SourcePosition) -> tuple[Gap, ...]:
        """Detect sources whose content was replaced after it was read."""
        ...


@runtime_checkable
class CleaningSource(Protocol):
    """A kind that can delete or move data that was read."""

    def removed(self, storage: Storage, source: SourceReference) -> str:
        """Describe, as a clause, the data that a new generation can't read again; empty if none is missing."""
        ...


@runtime_checkable
class CountableSource(Protocol):
    """A kind that can detect a source without rows of interest."""

    def is_empty(self, storage: Storage, source: SourceReference) -> bool:
        """Return whether the source certainly has no row of interest."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPosition:
    """The position to which a flow is rewound: the end of an earlier batch of a checkpoint.

    Args:
        storage: has the checkpoint.
        checkpoint: its path.
        offsets: the offsets of all sources of the flow after that batch, by their number in the query.
        sources: the sources of the kind, as the code declares them.
        from_start: whether the flow starts over: the offsets are the last ones, and all data before them is read again.
    """

    storage: Storage
    checkpoint: str
    offsets: tuple[str, ...]
    sources: tuple[SourceReference, ...] = ()
    from_start: bool = False


@runtime_checkable
class RewindableSource(Protocol):
    """A kind that can be read again from an earlier batch of a checkpoint."""

    def lost_since(self, position: RewindPosition) -> str:
        """Describe, as a clause, the data that can't be read again; empty if none is known to be missing."""
        ...

    def describe(self, position: RewindPosition) -> tuple[str, ...]:
        """Describe where the flow continues to read, for each offset of the kind."""
        ...

    def truncate(self, position: RewindPosition) -> None:
        """Truncate the kind's state in the checkpoint to the position. Idempotent."""
        ...


def is_same_location(one: str, other: str) -> bool:
    """Return whether two locations are the same; a path has several spellings.

    Examples:
        >>> is_same_location("file:/in/a/", "/in//a"), is_same_location("./in", "in"), is_same_location("a", "b")
        (True, True, False)
    """
    return one == other or ("/" in f"{one}{other}" and plain_path(one) == plain_path(other))


def offset_object(offset: str) -> dict[str, Any]:
    """Parse an offset that is a JSON object; {} for any other offset."""
    try:
        value = json.loads(offset)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
