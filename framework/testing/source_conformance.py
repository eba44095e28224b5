"""Conformance suite for every kind of streaming source."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from framework.foundation.files.storage import LocalStorage, Storage
from framework.sources.cloud_files.relation import bound
from framework.sources.kinds import (
    flow_gaps,
    is_drained,
    kind_named,
    remember_sources,
    source_identity,
    streamed_sources,
)
from framework.sources.port import SourceReference
from framework.sources.stored_lag import flow_lag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SourceContent(Protocol):
    """One source of the kind under test, which a test fills and reads."""

    @property
    def kind(self) -> str:
        """The kind under test."""
        ...

    @property
    def starts(self) -> Mapping[str, str]:
        """Start option of the kind -> the value that starts with the rows of the last `append`."""
        ...

    def append(self) -> None:
        """Add some rows."""
        ...

    def frame(self, options: Mapping[str, str]) -> DataFrame:
        """Return a streaming DataFrame of the source."""
        ...


@dataclass(frozen=True, kw_only=True)
class SourceReader:
    """Reads a source to its end, as a flow does.

    Args:
        content: the source.
        folder: an empty folder for checkpoints.
        name: name of the checkpoint in the folder.
        options: options of the source.
    """

    content: SourceContent
    folder: Path
    name: str = "checkpoint"
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def storage(self) -> Storage:
        """Storage that contains the checkpoint."""
        return LocalStorage(str(self.folder))

    @property
    def checkpoint(self) -> str:
        """Path of the checkpoint."""
        return str(self.folder / self.name)

    @property
    def sources(self) -> tuple[SourceReference, ...]:
        """Source references, as in the graph."""
        return streamed_sources(self.content.frame(self.options))

    def drain(self) -> int:
        """Read all available rows and return their number."""
        frame = bound(self.content.frame(self.options), self.storage, self.checkpoint, [])
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", self.checkpoint).start()
        query.awaitTermination()
        remember_sources(self.storage, self.checkpoint, self.sources)
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    def is_drained(self) -> bool | None:
        """Return whether the source is drained; None if unknown."""
        return is_drained(self.storage, self.checkpoint, self.sources)


class SourceConformance:
    """Test suite to subclass, with a fixture `content`: a source with no or few rows."""

    def test_a_relation_of_the_kind_is_recognized(self, content: SourceContent) -> None:
        """A streaming DataFrame of the source has one reference, of the kind under test."""
        content.append()
        assert [source.kind for source in streamed_sources(content.frame({}))] == [content.kind]

    def test_unread_content_is_never_called_drained(self, content: SourceContent, tmp_path: Path) -> None:
        """`is_drained` is False before the first read, not True after new rows, and not False after a read."""
        reader = SourceReader(content=content, folder=tmp_path)
        content.append()
        before = reader.is_drained()
        first = reader.drain()
        after = reader.is_drained()
        content.append()
        with_more = reader.is_drained()
        second = reader.drain()
        assert (before, first > 0, second > 0) == (False, True, True)
        assert with_more is not True
        assert after is not False
        assert reader.is_drained() is after

    def test_the_lag_is_zero_or_unknown_at_the_end_and_grows_with_content(
        self, content: SourceContent, tmp_path: Path
    ) -> None:
        """Each known number is 0 after a read; known records, bytes and seconds are above 0 after new rows."""
        reader = SourceReader(content=content, folder=tmp_path)
        content.append()
        reader.drain()
        drained = flow_lag(reader.storage, reader.checkpoint, reader.sources, now=time.time())
        content.append()
        behind = flow_lag(reader.storage, reader.checkpoint, reader.sources, now=time.time() + 1)
        assert {drained.records, drained.bytes, drained.seconds} <= {0, None}
        assert [number for number in (behind.records, behind.bytes) if number is not None and number <= 0] == []
        assert behind.seconds is None or behind.seconds > 0

    def test_the_identity_changes_with_the_content_and_only_then(self, content: SourceContent, tmp_path: Path) -> None:
        """The identity is stable without new rows and differs after them; it is always None if unknown."""
        reader = SourceReader(content=content, folder=tmp_path)
        content.append()
        (source,) = reader.sources
        first, again = (source_identity(reader.storage, source) for _ in range(2))
        content.append()
        changed = source_identity(reader.storage, source)
        assert first == again
        assert (first is None) == (changed is None)
        assert first is None or first != changed

    def test_a_position_that_is_there_is_no_gap(self, content: SourceContent, tmp_path: Path) -> None:
        """No gap is reported while the source can continue from its position."""
        reader = SourceReader(content=content, folder=tmp_path)
        content.append()
        reader.drain()
        content.append()
        assert flow_gaps(reader.storage, reader.checkpoint, reader.sources) == ()

    def test_each_start_skips_what_lies_before_it(self, content: SourceContent, tmp_path: Path) -> None:
        """A new checkpoint that starts at the last rows reads only these."""
        content.append()
        before = SourceReader(content=content, folder=tmp_path, name="before").drain()
        content.append()
        every = SourceReader(content=content, folder=tmp_path, name="every").drain()
        read = {
            start: SourceReader(content=content, folder=tmp_path, name=start, options={start: value}).drain()
            for start, value in content.starts.items()
        }
        assert tuple(content.starts) == kind_named(content.kind).starts
        assert read == dict.fromkeys(content.starts, every - before)
