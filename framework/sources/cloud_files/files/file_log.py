"""The numbered, immutable list of files that one flow has found, kept in the flow's checkpoint.

Files are numbered from 1 in the order in which they were found. A streaming offset is the number of the last file of
a batch, so a batch that runs again has exactly the same files. A listing adds a segment, `<first>-<last>`: a line for
each file with size, modification time and URI. Short segments are merged now and then; a segment that a longer one
covers is void. Only one segment is in memory at a time, however long the list is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import TypeVar

from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.sources.cloud_files.files.known_files import KnownFiles, ListLimits, MissingPartError
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    in_parts,
)

_FORMAT = StoredFormat(1)
"""Format of the start mark, of the segments beside it, and of the offsets that refer to them."""

_SEGMENT = re.compile(r"(\d{12})-(\d{12})")
_MOST_LOOKS = 5

_Found = TypeVar("_Found")

Segment = tuple[int, int]
"""The numbers of the first and of the last file."""


class FileLog:
    """The files of one source in one checkpoint, with a single writer.

    Args:
        storage: keeps the checkpoint.
        folder: the folder of the list; the index of known files is beside it.
        limits: of segments and of the index.
    """

    def __init__(self, storage: Storage, folder: str, limits: ListLimits | None = None) -> None:
        self.storage = storage
        self.folder = folder
        self._limits = limits or ListLimits()
        self._segments: list[Segment] = []
        self._known = KnownFiles(storage, f"{folder}_known", self._limits)
        self._is_indexed = False
        self._first_unread: int | None = None
        self._loaded = False
        self._cached: tuple[Segment, list[str]] | None = None

    def load(self) -> FileLog:
        """List the segments once.

        Raises:
            OperationError: STORED_FILE_DAMAGED if segments are missing, or the start mark is damaged;
                STORED_FORMAT_UNKNOWN.
        """
        if not self._loaded:
            self._first_unread = _read_start(self.storage, self.folder)
            if self._first_unread is not None:
                self._segments = self._present()
            self._loaded = True
        return self

    @property
    def last(self) -> int:
        """The number of the last file; 0 if there is none."""
        return self._segments[-1][1] if self._segments else 0

    @property
    def first_unread(self) -> int:
        """Return the number of the first file to read; files before it were passed over at the first start."""
        return self._first_unread or 1

    @property
    def is_new(self) -> bool:
        """Whether the source has never started."""
        return self._first_unread is None

    def check(self) -> OperationError | None:
        """Return the damage that makes the next start fail; None if the list is intact."""
        try:
            if not self.load().is_new:
                self._open_index()
                for _ in self.each(self._known.last, self.last):
                    pass
        except OperationError as error:
            return error
        return None

    def unseen(self, uris: Sequence[str]) -> list[str]:
        """Return the URIs that are not in the list."""
        found = self._searched(uris, lambda index: index.unseen(uris))
        if found is not None:
            return found
        import pyarrow as pa
        import pyarrow.compute as pc

        left = pa.array(uris, pa.string())
        for lines in self._each_segment():
            known = pc.list_element(pc.split_pattern(pa.array(lines, pa.string()), "\t", max_splits=2), 2)
            left = left.filter(pc.invert(pc.is_in(left, value_set=known)))
        found_now: list[str] = left.to_pylist()
        return found_now

    def changed(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files that are not in the list, or whose size or time differs from their last entry."""
        found = self._searched(files, lambda index: index.changed(files))
        if found is not None:
            return found
        asked = {file.uri for file in files}
        states: dict[str, str] = {}
        for lines in self._each_segment():
            entries = (line.rpartition("\t") for line in lines)
            states.update((uri, state) for state, _, uri in entries if uri in asked)
        return [file for file in files if states.get(file.uri) != _state(file)]

    def begin(self, passed_over: Sequence[FoundFile]) -> None:
        """Record the first start, with the present files that are passed over.

        The files are written before the start mark. Without the mark, the next start deletes and records them again,
        which is safe because no offset refers to them yet.
        """
        self._known.delete()
        for first, last in _segments(self.storage, self.folder):
            self.storage.delete_tree(self._path(first, last))
        self._segments, self._is_indexed = [], False
        self._write(passed_over)
        failpoint("cloud_files.before_start")
        self.storage.write_text(f"{self.folder}/start", _FORMAT.text({"first": len(passed_over) + 1}))
        self._first_unread = len(passed_over) + 1

    def index(self) -> None:
        """Bring the index of known files up to date; the writer of the list calls it before it appends."""
        self._open_index()
        self._known.delete_void()
        self._add_to_index(writes=True)

    def append(self, files: Sequence[FoundFile]) -> None:
        """Record found files; durable when the call returns."""
        known = self._index()
        if files:
            self._write(files)
            failpoint("cloud_files.after_files")
            known.add(files)
            self._merge()
        if known.is_due:
            known.write()

    def between(self, after: int, last: int) -> list[FoundFile]:
        """Return the files with the numbers `after + 1` to `last`.

        Raises:
            OperationError: CLOUD_FILES_LIST_TOO_SHORT if the list ends before `last`.
        """
        return list(self.each(after, last))

    def each(self, after: int, last: int) -> Iterator[FoundFile]:
        """Yield the files of `between`, one segment at a time."""
        if last > self.last:
            raise OperationError("CLOUD_FILES_LIST_TOO_SHORT", path=self.folder, last=self.last, wanted=last)
        while after < last:
            segment, lines = self._having(after + 1)
            first = segment[0]
            chosen = lines[after + 1 - first : last + 1 - first]
            try:
                yield from [_parse(line) for line in chosen]
            except ValueError as error:
                raise self._damaged(segment, f"a line of it has no size and time ({error})") from error
            after += len(chosen)

    def _searched(self, asked: Sequence[object], ask: Callable[[KnownFiles], list[_Found]]) -> list[_Found] | None:
        """Return the result of an index lookup; None if the list itself has to be read.

        For many names, the lookups cost more than reading the list. A writer may merge the index during a lookup, even
        twice.
        """
        if len(asked) * self._limits.searched < self.last:
            for again in (False, True):
                with suppress(MissingPartError):
                    return ask(self._index(again=again))
        return None

    def _each_segment(self) -> Iterator[list[str]]:
        """Yield the lines of each segment, from first to last."""
        if not self.is_new:
            self._segments = self._present()  # a writer may have gone on since
        number = 1
        while number <= self.last:
            (_, end), lines = self._having(number)
            yield lines
            number = end + 1

    def _having(self, number: int) -> tuple[Segment, list[str]]:
        """Return the segment that contains a file number, and the lines of the segment."""
        if self._cached is not None and self._cached[0][0] <= number <= self._cached[0][1]:
            return self._cached
        segment = _segment_of(self._segments, number)
        text = self.storage.read_text(self._path(*segment))
        looks = _MOST_LOOKS
        while text is None and looks:  # another process may have merged it, and may merge the next one as well
            looks -= 1
            segment = _segment_of(self._present(), number)
            text = self.storage.read_text(self._path(*segment))
        lines = (text or "").split("\n")[:-1]
        if len(lines) != segment[1] - segment[0] + 1:
            raise self._damaged(segment, f"it has {len(lines)} files")
        self._cached = segment, lines
        return self._cached

    def _present(self) -> list[Segment]:
        found, end = list(_segments(self.storage, self.folder)), 0
        for first, last in found:
            if first != end + 1:
                raise self._damaged((first, last), f"it follows file {end}")
            end = last
        return found

    def _damaged(self, segment: Segment, problem: str) -> OperationError:
        return OperationError("STORED_FILE_DAMAGED", path=self._path(*segment), problem=problem, otherwise="")

    def _index(self, *, again: bool = False) -> KnownFiles:
        """Return the index of all files in the list; files newer than the index on disk are added from the list."""
        if again or not self._is_indexed:
            self._open_index()
            self._add_to_index(writes=False)
        return self._known

    def _open_index(self) -> None:
        names = self._known.names()
        if not self.is_new:
            self._segments = self._present()  # a writer may have gone on since
        self._known.open(self.last, names)

    def _add_to_index(self, *, writes: bool) -> None:
        for files in in_parts(self.each(self._known.last, self.last), self._limits.segment):
            self._known.add(files)
            if writes and self._known.is_due:
                self._known.write()
        self._is_indexed = True

    def _write(self, files: Sequence[FoundFile]) -> None:
        for part in in_parts(files, self._limits.segment):
            first = self.last + 1
            self.storage.write_text(self._path(first, first + len(part) - 1), _render(part))
            self._segments.append((first, first + len(part) - 1))

    def _path(self, first: int, last: int) -> str:
        return f"{self.folder}/{first:012d}-{last:012d}"

    def _merge(self) -> None:
        """Merge the short segments at the end; they are deleted last, and until then the longer segment counts."""
        at = len(self._segments)
        while at and self._segments[at - 1][1] - self._segments[at - 1][0] + 1 < self._limits.segment:
            at -= 1
        short = self._segments[at:]
        if len(short) <= self._limits.segments:
            return
        first = short[0][0]
        last = next((end for _, end in short if end - first + 1 >= self._limits.segment), short[-1][1])
        files = self.each(first - 1, last)
        self.storage.write_text(self._path(first, last), _render(files))
        failpoint("cloud_files.after_merge")
        merged = [segment for segment in short if segment[1] <= last]
        self._segments[at : at + len(merged)] = [(first, last)]
        self._cached = None
        for segment in merged:
            if segment != (first, last):
                self.storage.delete_tree(self._path(*segment))


def _segments(storage: Storage, folder: str) -> Iterator[Segment]:
    """Yield the valid segments in order: of segments that begin with the same file, the longest."""
    names = [match for name in storage.list_names(folder) if (match := _SEGMENT.fullmatch(name))]
    ranges = sorted(((int(match[1]), int(match[2])) for match in names), key=lambda found: (found[0], -found[1]))
    end = 0
    for first, last in ranges:
        if last > end:
            yield first, last
            end = last


def _segment_of(segments: Sequence[Segment], number: int) -> Segment:
    return segments[bisect_right(segments, number, key=itemgetter(0)) - 1]


def _read_start(storage: Storage, folder: str) -> int | None:
    return _FORMAT.read(storage, f"{folder}/start", lambda found: int(found["first"]))


def _render(files: Iterable[FoundFile]) -> str:
    return "".join(f"{_state(file)}\t{file.uri}\n" for file in files)


def _state(file: FoundFile) -> str:
    return f"{file.size}\t{file.modified_ms}"


def _parse(line: str) -> FoundFile:
    size, modified_ms, uri = line.split("\t", 2)
    return FoundFile(uri=uri, size=int(size), modified_ms=int(modified_ms))
