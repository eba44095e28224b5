"""Folders of files as a kind of streaming source: Spark's file stream source.

The source records the files of each batch in `sources/<n>/<batch>` of the checkpoint: a version line,
then one JSON object for each file; every tenth or so merges those before it as `<batch>.compact`. A path
once recorded is never read again, so a folder that holds only recorded paths has nothing unread.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from framework.foundation.files.storage_port import FileStatus, Storage
from framework.foundation.table_address import plain_path
from framework.sources.files.names import is_hidden
from framework.sources.port import (
    UNKNOWN_LAG,
    Gap,
    Lag,
    RewindPosition,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
    offset_object,
)

_FORMATS = frozenset({"json", "csv", "parquet", "text", "orc", "avro", "xml", "binaryfile"})
_GLOB = frozenset("*?[{")
_MOST_FILES = 20_000
_MERGED = ".compact"


class FileSource:
    """A folder of files, without a glob."""

    kind = "files"
    starts: tuple[str, ...] = ()

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize Spark's file formats with a path that is no glob."""
        if relation.format not in _FORMATS or relation.path is None or _GLOB & set(relation.path):
            return None
        glob = relation.options.get("pathglobfilter", "")
        return SourceReference(
            kind=self.kind, shape=SourceShape.FOLDER, location=relation.path, selects=glob and f"pathGlobFilter={glob}"
        )

    def owns(self, offset: str) -> bool:
        """Own offsets of the form `{"logOffset": n}`."""
        return set(offset_object(offset)) == {"logOffset"}

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """The tokens of the folder and of every folder below it, as a JSON object."""
        if not storage.exists(plain_path(str(source.location))):
            return None  # Spark may have the folder elsewhere
        known: dict[str, str] = json.loads(previous) if previous else {}
        if known and all(storage.folder_token(folder) == token for folder, token in known.items()):
            return previous
        folders = _folders(storage, plain_path(str(source.location)))
        return json.dumps({folder: storage.folder_token(folder) for folder in folders})

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Whether every file below the folders is recorded; None if they overlap, have too many or can't be seen."""
        if len(position.offsets) < len(position.sources):
            return False
        unread = _unread_files(position)
        return None if unread is None else not unread

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """A hash over path, size and time of each file; None above 20,000 files or for an unseen folder."""
        files = _present_files(storage, [str(source.location)])
        if files is None:
            return None
        lines = [f"{path} {files[path].size} {files[path].modified_at}" for path in sorted(files)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Bytes and age of the files that are not recorded; the number of rows is unknown if there are any."""
        unread = _unread_files(position)
        if unread is None:
            return UNKNOWN_LAG
        return Lag(
            records=None if unread else 0,
            bytes=sum(file.size for file in unread),
            seconds=max((max(now - file.modified_at, 0.0) for file in unread), default=0.0),
        )

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """None: the position is the set of files read, which a folder can't lose."""
        del position
        return ()

    def lost_since(self, position: RewindPosition) -> str:
        """Files that were read after the position and deleted since."""
        storage = position.storage
        read = [entry.path for entries in _listed(position) for entry, again in entries if again]
        seen = [path for path in read if path.startswith("/") == storage.root.startswith("/")]
        gone = [path for path in seen if not storage.exists(path)]
        if not gone:
            return ""
        return f"{gone[0]} is gone" if len(gone) == 1 else f"{len(gone)} files such as {gone[0]} are gone"

    def describe(self, position: RewindPosition) -> tuple[str, ...]:
        """The number of files that are read again."""
        return tuple(
            f"files: {sum(again for _, again in entries)} of {len(entries)} again" for entries in _listed(position)
        )

    def truncate(self, position: RewindPosition) -> None:
        """Cut Spark's list of files at the offset.

        Spark deletes lists that it has merged, so the files up to the offset may be in a later list only. Then one
        merged list is written: it is valid with any number, because Spark derives its interval from it.
        """
        for number, last in _log_offsets(position.offsets):
            folder, storage = _log_folder(position.checkpoint, number), position.storage
            names = {name: int(name.removesuffix(_MERGED)) for name in storage.list_names(folder)}
            kept = {name for name, list_number in names.items() if list_number <= last}
            if not _is_complete(kept, last):
                lines = [entry.line for entry in _entries(storage, folder) if entry.batch <= last]
                kept = {f"{last}{_MERGED}"}
                storage.write_text(f"{folder}/{last}{_MERGED}", "\n".join(["v1", *lines]))
            for name in names.keys() - kept:
                storage.delete_tree(f"{folder}/{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A file in Spark's list: the batch of the list that found it, its plain path, and its line."""

    batch: int
    path: str
    line: str


def _is_complete(names: Collection[str], last: int) -> bool:
    """Whether lists have all files up to a number: a merged list, and each one after it."""
    merged = [int(name.removesuffix(_MERGED)) for name in names if name.endswith(_MERGED)]
    return all(str(number) in names for number in range(max(merged, default=-1) + 1, last + 1))


def _log_folder(checkpoint: str, number: int) -> str:
    return f"{checkpoint}/sources/{number}"


def _log_offsets(offsets: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the number of each source of files, and the last list that it has read."""
    for number, offset in enumerate(offsets):
        value = offset_object(offset)
        if set(value) == {"logOffset"}:
            yield number, int(value["logOffset"])


def _listed(position: RewindPosition) -> Iterator[list[tuple[_Entry, bool]]]:
    """Yield the files in the list of each source of files, and whether they are read after the position."""
    for number, last in _log_offsets(position.offsets):
        entries = _entries(position.storage, _log_folder(position.checkpoint, number))
        yield [(entry, position.from_start or entry.batch > last) for entry in entries]


def _entries(storage: Storage, folder: str) -> list[_Entry]:
    """Return the files in Spark's lists, each once, in the order in which they were found."""
    found: dict[str, _Entry] = {}
    for name in storage.list_names(folder):
        for line in (storage.read_text(f"{folder}/{name}") or "").splitlines():
            value = offset_object(line)
            if value:
                path = plain_path(unquote(str(value["path"])))
                found[line] = _Entry(batch=int(value["batchId"]), path=path, line=line)
    return sorted(found.values(), key=lambda entry: entry.batch)


def _unread_files(position: SourcePosition) -> list[FileStatus] | None:
    """The files that no source of the checkpoint has recorded; None if unknown."""
    folders = [str(source.location) for source in position.sources]
    present = None if not folders or _overlap(folders) else _present_files(position.storage, folders)
    if present is None:
        return None
    recorded = {
        path
        for number in range(position.source_count)
        for path in _recorded(position.storage, f"{position.checkpoint}/sources/{number}")
    }
    return [file for path, file in present.items() if path not in recorded]


def _folders(storage: Storage, folder: str) -> Iterator[str]:
    """A folder and all folders below it that Spark reads."""
    yield folder
    files = {file.name for file in storage.list_files(folder)}
    for name in storage.list_names(folder):
        if name not in files and not is_hidden(name):
            yield from _folders(storage, f"{folder}/{name}")


def _present_files(storage: Storage, folders: Sequence[str]) -> dict[str, FileStatus] | None:
    """All files below the folders by path; None if there are more than 20,000.

    None as well if the storage has no such folder: Spark may have it elsewhere, by `paths` or in another file system.
    """
    present: dict[str, FileStatus] = {}
    if not all(storage.exists(plain_path(folder)) for folder in folders):
        return None
    for folder in folders:
        for path, file in _files_below(storage, plain_path(folder)):
            present[path] = file
            if len(present) > _MOST_FILES:
                return None
    return present


def _files_below(storage: Storage, folder: str) -> Iterator[tuple[str, FileStatus]]:
    """All files in a folder and below it; names that Spark ignores are left out."""
    files = {file.name: file for file in storage.list_files(folder)}
    for name in storage.list_names(folder):
        if is_hidden(name):
            continue
        if name in files:
            yield f"{folder}/{name}", files[name]
        else:
            yield from _files_below(storage, f"{folder}/{name}")


def _recorded(storage: Storage, log: str) -> Iterator[str]:
    for name in storage.list_names(log):
        for line in (storage.read_text(f"{log}/{name}") or "").splitlines():
            value = offset_object(line)  # a line that is cut off has nothing
            if "path" in value:
                yield plain_path(unquote(str(value["path"])))


def _overlap(folders: Sequence[str]) -> bool:
    plain = [f"{plain_path(folder)}/" for folder in folders]
    return any(
        first.startswith(second)
        for index, first in enumerate(plain)
        for other, second in enumerate(plain)
        if index != other
    )
