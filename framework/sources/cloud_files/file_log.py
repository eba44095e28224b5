"""The list of files that one flow has found: numbered, immutable, and kept in the flow's checkpoint.

Files are numbered from 1 in the order in which they were found. A streaming offset is the number of the last file of
a batch, so a batch that runs again has exactly the same files. A listing adds one segment, `<first>-<last>`: a line for
each file with size, modification time and URI. Segments are merged now and then; one within a longer one is void.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.storage_port import Storage
from framework.sources.cloud_files.listing import FoundFile

_SEGMENT = re.compile(r"(\d{12})-(\d{12})")
_MOST_SEGMENTS = 64


class FileLog:
    """The files of one source of one checkpoint; there is one writer.

    Args:
        storage: keeps the checkpoint.
        folder: the folder of the list.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        self.storage = storage
        self.folder = folder
        self._lines: list[str] = []
        self._uris: set[str] = set()
        self._first_unread: int | None = None
        self._loaded = False

    def load(self) -> FileLog:
        """Read the list into memory, once.

        Raises:
            OperationError: STORED_FILE_DAMAGED if segments are missing.
        """
        if not self._loaded:
            self._first_unread = _read_start(self.storage, self.folder)
            if self._first_unread is not None:
                for first, last in _segments(self.storage, self.folder):
                    self._extend(self._read(first, last), first, last)
            self._loaded = True
        return self

    @property
    def last(self) -> int:
        """The number of the last file; 0 if there is none."""
        return len(self._lines)

    @property
    def first_unread(self) -> int:
        """The number of the first file that is to be read: files that were there before may be passed over."""
        return self._first_unread or 1

    @property
    def is_new(self) -> bool:
        """Whether the source has never started."""
        return self._first_unread is None

    @property
    def uris(self) -> set[str]:
        """The URIs of all files that were found; not to be changed."""
        return self._uris

    def newest(self) -> list[FoundFile]:
        """The last recorded state of each file."""
        return list({file.uri: file for file in map(_parse, self._lines)}.values())

    def begin(self, passed_over: Sequence[FoundFile]) -> None:
        """Record the first start, with the files that are there and are not to be read.

        The files come before the mark of the start. Without the mark, the next start deletes and records them again:
        no offset refers to them yet.
        """
        for first, last in _segments(self.storage, self.folder):
            self.storage.delete_tree(self._path(first, last))
        if passed_over:
            self._write(passed_over)
        failpoint("cloud_files.before_start")
        self.storage.write_text(f"{self.folder}/start", json.dumps({"first": len(passed_over) + 1}))
        self._first_unread = len(passed_over) + 1

    def append(self, files: Sequence[FoundFile]) -> None:
        """Record found files; durable when the call returns."""
        if files:
            self._write(files)
            failpoint("cloud_files.after_files")
            self._merge()

    def between(self, after: int, last: int) -> list[FoundFile]:
        """Return the files with the numbers `after + 1` to `last`.

        Raises:
            OperationError: CLOUD_FILES_POSITION_LOST if the list ends before.
        """
        if last > len(self._lines):
            raise OperationError("CLOUD_FILES_POSITION_LOST", path=self.folder, last=len(self._lines), wanted=last)
        return [_parse(line) for line in self._lines[after:last]]

    def _write(self, files: Sequence[FoundFile]) -> None:
        first, last = len(self._lines) + 1, len(self._lines) + len(files)
        lines = [f"{file.size}\t{file.modified_ms}\t{file.uri}" for file in files]
        self.storage.write_text(self._path(first, last), _render(lines))
        self._extend(lines, first, last)

    def _extend(self, lines: list[str], first: int, last: int) -> None:
        if first != len(self._lines) + 1 or len(lines) != last - first + 1:
            raise OperationError(
                "STORED_FILE_DAMAGED",
                path=self._path(first, last),
                problem=f"it has {len(lines)} files after file {len(self._lines)}",
            )
        self._lines.extend(lines)
        self._uris.update(line.split("\t", 2)[2] for line in lines)

    def _read(self, first: int, last: int) -> list[str]:
        return (self.storage.read_text(self._path(first, last)) or "").split("\n")[:-1]

    def _path(self, first: int, last: int) -> str:
        return f"{self.folder}/{first:012d}-{last:012d}"

    def _merge(self) -> None:
        """Merge the segments when there are many. The old ones go last: while both exist, the longer one counts."""
        present = list(_segments(self.storage, self.folder))
        if len(present) <= _MOST_SEGMENTS:
            return
        self.storage.write_text(self._path(1, len(self._lines)), _render(self._lines))
        failpoint("cloud_files.after_merge")
        for first, last in present:
            if (first, last) != (1, len(self._lines)):
                self.storage.delete_tree(self._path(first, last))


def _segments(storage: Storage, folder: str) -> Iterator[tuple[int, int]]:
    """The segments that count, in order: of those that begin with the same file, the longest."""
    names = [match for name in storage.list_names(folder) if (match := _SEGMENT.fullmatch(name))]
    ranges = sorted(((int(match[1]), int(match[2])) for match in names), key=lambda found: (found[0], -found[1]))
    end = 0
    for first, last in ranges:
        if last > end:
            yield first, last
            end = last


def _read_start(storage: Storage, folder: str) -> int | None:
    text = storage.read_text(f"{folder}/start")
    return int(json.loads(text)["first"]) if text else None


def _render(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _parse(line: str) -> FoundFile:
    size, modified_ms, uri = line.split("\t", 2)
    return FoundFile(uri=uri, size=int(size), modified_ms=int(modified_ms))
