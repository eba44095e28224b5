"""An on-disk index of the files of a source: whether a name is known, and whether its file has changed.

The index is derived from the file list (`file_log`), which is durable first. Its runs are named by the numbers of their
files, `<first>-<last>.<part>-<parts>`. A part has the sorted digests that begin with its bits, so a lookup reads one
part of each run and no process holds the whole index. Runs are merged in a geometric progression: each file is
rewritten a logarithmic number of times. A run is void if a longer run covers it or if it lacks a part.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
)

_PART = re.compile(r"(\d{12})-(\d{12})\.(\d{5})-(\d{5})")
_DIGEST = 32
"""Hexadecimal digits of a URI's digest: 128 bits, so that digests don't collide."""
_LONGER = 2
"""A run is merged with the next run unless it is longer by this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLimits:
    """Sizes of the files of a list and of its index.

    Args:
        segment: the number of files from which a segment is never rewritten.
        segments: the number of shorter segments that triggers a merge.
        pending: the number of files that are read from the list again before they are written as a run of the index.
        part: the maximum number of files in a part of a run.
        searched: the number of listed files per requested file above which the index is searched; below it, the list
            itself is scanned.
    """

    segment: int = 20_000
    segments: int = 64
    pending: int = 1000
    part: int = 2**15
    searched: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The index of the files with the numbers `first` to `last`, in a power of two of parts."""

    first: int
    last: int
    parts: int

    @property
    def size(self) -> int:
        """The number of files."""
        return self.last - self.first + 1

    def name(self, part: int) -> str:
        """Return the name of a part."""
        return f"{self.first:012d}-{self.last:012d}.{part:05d}-{self.parts:05d}"


class KnownFiles:
    """The index of one file list, with a single writer.

    Args:
        storage: keeps the checkpoint.
        folder: the folder of the index.
        limits: of runs and parts.
    """

    def __init__(self, storage: Storage, folder: str, limits: ListLimits) -> None:
        self._storage = storage
        self._folder = folder
        self._limits = limits
        self._runs: list[Run] = []
        self._recent: dict[str, str] = {}
        self._last = 0

    def names(self) -> list[str]:
        """List the files of the index for `open`; called before the list's end is read, which can't be behind then."""
        return self._storage.list_names(self._folder)

    def open(self, last: int, names: Sequence[str]) -> None:
        """Find the runs.

        Args:
            last: the end of the list. An index that extends past it belongs to a different list, such as the list
                before a backup was restored.
            names: the files of the index.
        """
        runs = list(_valid(names))
        self._runs = runs if not runs or runs[-1].last <= last else []
        self._recent = {}
        self._last = self._written

    def add(self, files: Iterable[FoundFile]) -> None:
        """Add the next files of the list, in memory."""
        for file in files:
            self._recent[_digest(file.uri)] = _state(file)
            self._last += 1

    @property
    def is_due(self) -> bool:
        """Return whether enough files are in memory to write a run."""
        return self._last - self._written >= self._limits.pending

    def write(self) -> None:
        """Write the files in memory as a run, and merge runs that are too short for the progression."""
        if self._last == self._written:
            return
        self.delete_void()
        entries = sorted(digest + state for digest, state in self._recent.items())
        source = partial(_slice, entries)
        self._runs.append(self._write_run(self._written + 1, self._last, [source]))
        self._recent = {}
        merged = self._runs[_merged_from(self._runs) :]
        if len(merged) > 1:
            sources = [self._reader(each) for each in merged]
            longer = self._write_run(merged[0].first, self._last, [each.between for each in sources])
            failpoint("cloud_files.after_known")
            self._runs[-len(merged) :] = [longer]
            self.delete_void()

    def delete(self) -> None:
        """Delete the index because its list starts over."""
        self._storage.delete_tree(self._folder)
        self.open(0, ())

    def delete_void(self) -> None:
        """Delete files that don't belong to the index: they could pass as valid runs once the list is longer."""
        valid = {run.name(part) for run in self._runs for part in range(run.parts)}
        for name in self._storage.list_names(self._folder):
            if name not in valid:
                self._storage.delete_tree(f"{self._folder}/{name}")

    def unseen(self, uris: Sequence[str]) -> list[str]:
        """Return the URIs that are not in the list."""
        asked = {_digest(uri): uri for uri in uris}
        found = self._entries(asked, self._runs)  # the first run is the longest and has most of them
        return [uri for digest, uri in asked.items() if digest not in found]

    def changed(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files that are not in the list, or whose size or time differs from their last entry."""
        asked = [(_digest(file.uri), file) for file in files]
        found = self._entries([digest for digest, _ in asked], self._runs[::-1])
        return [file for digest, file in asked if found.get(digest) != digest + _state(file)]

    @property
    def _written(self) -> int:
        return self._runs[-1].last if self._runs else 0

    @property
    def last(self) -> int:
        """The number of the last file."""
        return self._last

    def _entries(self, digests: Iterable[str], runs: Sequence[Run]) -> dict[str, str]:
        """Return the entry of each known digest, taken from the first run that contains it."""
        asked = sorted(digests)
        found = {digest: digest + self._recent[digest] for digest in asked if digest in self._recent}
        for run in runs:
            asked = [digest for digest in asked if digest not in found]
            for entries in self._reader(run).find(asked):
                found.update(entries)
        return found

    def _reader(self, run: Run) -> _RunReader:
        return _RunReader(self._storage, self._folder, run)

    def _write_run(self, first: int, last: int, sources: Sequence[Callable[[str, str], Sequence[str]]]) -> Run:
        """Merge the entries of several runs, newest last, into one run, one part at a time."""
        run = Run(first=first, last=last, parts=_parts_of(last - first + 1, self._limits.part))
        for part in range(run.parts):
            low, high = _bound(part, run.parts), _bound(part + 1, run.parts)
            newest: dict[str, str] = {}
            for between in sources:
                newest.update((entry[:_DIGEST], entry) for entry in between(low, high))
            text = "".join(f"{newest[digest]}\n" for digest in sorted(newest))
            self._storage.write_text(f"{self._folder}/{run.name(part)}", text)
        return run


class _RunReader:
    """Reads a run in the order of the digests; one part is in memory at a time."""

    def __init__(self, storage: Storage, folder: str, run: Run) -> None:
        self._storage = storage
        self._folder = folder
        self._run = run
        self._part = -1
        self._lines: list[str] = []

    def find(self, digests: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yield the entries of sorted digests, part by part."""
        at = 0
        while at < len(digests):
            lines = self._of(digests[at])
            end = bisect_left(digests, _bound(self._part + 1, self._run.parts), at)
            places = ((digest, bisect_left(lines, digest)) for digest in digests[at:end])
            near = {digest: lines[place] for digest, place in places if place < len(lines)}
            yield {digest: entry for digest, entry in near.items() if entry.startswith(digest)}
            at = end

    def between(self, low: str, high: str) -> Sequence[str]:
        """Return the entries of a range within a part."""
        return _slice(self._of(low), low, high)

    def _of(self, digest: str) -> list[str]:
        part = int(digest[:4], 16) * self._run.parts >> 16
        if part != self._part:
            path = f"{self._folder}/{self._run.name(part)}"
            text = self._storage.read_text(path)
            if text is None:
                raise MissingPartError(path)
            self._lines, self._part = text.split("\n")[:-1], part
        return self._lines


class MissingPartError(LookupError):
    """A part of the index is missing because another process has merged its run."""


def _valid(names: Sequence[str]) -> Iterator[Run]:
    """Yield the complete, contiguous runs from the first file on; of runs with the same start, the longest."""
    present: dict[Run, int] = {}
    for match in filter(None, map(_PART.fullmatch, names)):
        run = Run(first=int(match[1]), last=int(match[2]), parts=int(match[4]))
        present[run] = present.get(run, 0) + 1
    complete = sorted(
        (run for run, parts in present.items() if parts == run.parts), key=lambda run: (run.first, -run.last)
    )
    end = 0
    for run in complete:
        if run.first == end + 1:
            yield run
            end = run.last


def _slice(entries: Sequence[str], low: str, high: str) -> Sequence[str]:
    """Return the sorted entries from digest `low` up to digest `high`."""
    return entries[bisect_left(entries, low) : bisect_left(entries, high)]


def _merged_from(runs: Sequence[Run]) -> int:
    """Return the index of the first run of the tail to merge."""
    at, size = len(runs) - 1, runs[-1].size
    while at > 0 and runs[at - 1].size <= _LONGER * size:
        at -= 1
        size += runs[at].size
    return at


def _parts_of(files: int, most: int) -> int:
    return min(1 << ((files - 1) // most).bit_length(), 2**15)


def _bound(part: int, parts: int) -> str:
    """Return the lowest digest of a part; for the end of the last part, a value above all digests."""
    return f"{(part << 16) // parts:04x}" if part < parts else "g"


def _digest(uri: str) -> str:
    return hashlib.blake2b(uri.encode(), digest_size=_DIGEST // 2).hexdigest()


def _state(file: FoundFile) -> str:
    return hashlib.blake2b(f"{file.size}\t{file.modified_ms}".encode(), digest_size=8).hexdigest()
