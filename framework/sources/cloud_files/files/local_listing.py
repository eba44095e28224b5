"""Listings of local folders that find the new files of a source, without Spark.

A known name costs one comparison; only unknown names are looked up on disk.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar
from urllib.parse import unquote

from framework.foundation.errors import OperationError, SourceError
from framework.sources.cloud_files.files.folder_times import modified_ns
from framework.sources.cloud_files.settings.globs import glob_pattern
from framework.sources.cloud_files.settings.options import CloudFilesOptions
from framework.sources.files.names import is_hidden, shown_names

_Value = TypeVar("_Value")
GLOB = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_ESCAPED = re.compile(r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/]")
_MOST_LINKS = 40
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-!.~'()*:@&=+$,;/"
"""Matches the characters that `_ESCAPED` does not match."""
_ENTRIES = 10_000
"""The number of folder entries held in memory at once."""
QUESTION = 250_000
"""The number of names compared with the known ones at once: each lookup reads the list or its index once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as a listing found it.

    Args:
        uri: its encoded URI, as Hadoop's `Path` has it.
        size: bytes.
        modified_ms: epoch milliseconds.
    """

    uri: str
    size: int
    modified_ms: int


class Known(Protocol):
    """The files that a source has seen."""

    def unseen(self, uris: Sequence[str]) -> list[str]:
        """Return the URIs that were never seen."""
        ...

    def changed(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files that were never seen, or whose size or time changed since they were last seen."""
        ...


class NothingKnown:
    """A source that has seen no file."""

    def unseen(self, uris: Sequence[str]) -> list[str]:
        """Return all URIs."""
        return list(uris)

    def changed(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return all files."""
        return list(files)


def list_local(
    path: str, options: CloudFilesOptions, known: Known, times: dict[str, int] | None = None
) -> list[FoundFile]:
    """Return the unknown files of a local path, oldest first.

    Args:
        path: the local path of the options.
        options: the options that select files.
        known: the files that were seen. With `allow_overwrites`, a changed file counts as new.
        times: gets the modification time of each folder before it is listed, in nanoseconds.

    Raises:
        SourceError: CLOUD_FILES_FOLDER_MISSING.
        OperationError: STORAGE_NOT_READABLE.
    """
    return in_order(_local_files(path, options, known, {} if times is None else times), options)


def in_order(found: Iterable[FoundFile], options: CloudFilesOptions) -> list[FoundFile]:
    """Return the found files that were modified within the options' times, oldest first."""
    # A file system may list a file twice while its folder changes.
    fresh = {file.uri: file for file in found if _is_in_time(file, options)}
    return sorted(fresh.values(), key=lambda file: (file.modified_ms, file.uri))


def has_new(path: str, options: CloudFilesOptions, known: Known) -> bool:
    """Return whether a local path has an unknown file; the listing stops at the first one.

    Raises:
        SourceError: CLOUD_FILES_FOLDER_MISSING.
        OperationError: STORAGE_NOT_READABLE.
    """
    return any(_is_in_time(file, options) for file in _local_files(path, options, known, {}))


def in_parts(values: Iterable[_Value], size: int) -> Iterator[list[_Value]]:
    """Yield the values in lists of `size` elements; the last list may be shorter."""
    rest = iter(values)
    while part := list(islice(rest, size)):
        yield part


def present_files(files: Sequence[FoundFile], *, overwrites: bool) -> tuple[list[FoundFile], list[str]]:
    """Return the present files of a batch with their current size and time, and the URIs of missing files.

    Spark reads as many bytes as the listing recorded, so a replaced file could silently lose its end. Files on other
    file systems are returned as they were found.

    Args:
        files: the files as they were found.
        overwrites: whether a replaced file is read again. If so, its earlier states are left out, because its present
            content is in the list again, or will be after the next listing. Otherwise it would be read twice.
    """
    found = [(file, _refreshed(file)) for file in files]
    gone = [file.uri for file, now in found if now is None]
    # A file that was replaced and then restored has the same state twice.
    present = {now.uri: now for file, now in found if now is not None and (now == file or not overwrites)}
    return list(present.values()), gone


def _refreshed(file: FoundFile) -> FoundFile | None:
    if not file.uri.startswith("file:"):
        return file
    try:
        status = os.stat(decoded(file.uri).removeprefix("file:"))  # noqa: PTH116 - strings throughout
    except FileNotFoundError:
        return None
    except OSError:
        return file  # Spark reports it
    return FoundFile(uri=file.uri, size=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def encoded(path: str) -> str:
    """Return the URI of a local path, encoded as Java's `URI` encodes it: letters of any alphabet stay as they are.

    Examples:
        >>> encoded("/in/a b%=ü.json")
        'file:/in/a%20b%25=ü.json'
    """
    return "file:" + (path if _ESCAPED.search(path) is None else _ESCAPED.sub(_escape, path))


def decoded(uri: str) -> str:
    """Return the path that an encoded URI names, with its scheme.

    Examples:
        >>> decoded("file:/in/a%20b%25=ü.json")
        'file:/in/a b%=ü.json'
    """
    return unquote(uri)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character > "\x7f" and unicodedata.category(character) not in {"Cc", "Cs", "Zs", "Zl", "Zp"}:
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8"))


def _is_in_time(file: FoundFile, options: CloudFilesOptions) -> bool:
    seconds = file.modified_ms / 1000
    after, before = options.modified_after, options.modified_before
    return (after is None or seconds > after) and (before is None or seconds < before)


def _local_files(path: str, options: CloudFilesOptions, known: Known, times: dict[str, int]) -> Iterator[FoundFile]:
    for uris in _questions(_local_uris(path, options, times)):
        if options.allow_overwrites:
            yield from known.changed(list(_statuses(uris)))
        else:
            yield from _statuses(known.unseen(uris))


def _statuses(uris: Iterable[str]) -> Iterator[FoundFile]:
    """Yield the files of local URIs, without pipes, devices and files deleted since the listing."""
    for uri in uris:
        path = decoded(uri).removeprefix("file:")
        try:
            status = os.stat(path)  # noqa: PTH116 - strings throughout: a listing has many names
        except FileNotFoundError:
            continue
        except OSError as error:
            raise OperationError("STORAGE_NOT_READABLE", path=path, problem=str(error)) from error
        if stat.S_ISREG(status.st_mode):
            yield FoundFile(uri=uri, size=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _questions(parts: Iterable[list[str]]) -> Iterator[list[str]]:
    """Join lists until each has `QUESTION` values; it exceeds that by at most one list; the last may be shorter."""
    asked: list[str] = []
    for part in parts:
        asked += part
        if len(asked) >= QUESTION:
            yield asked
            asked = []
    if asked:
        yield asked


def _local_uris(path: str, options: CloudFilesOptions, times: dict[str, int]) -> Iterator[list[str]]:
    accepts = glob_pattern(options.glob).fullmatch if options.glob else None
    roots = list(_expanded(path))
    if not roots and not GLOB.search(path):
        raise SourceError("CLOUD_FILES_FOLDER_MISSING", path=path)
    for root in dict.fromkeys(roots):
        if os.path.isfile(root):  # noqa: PTH113 - as above
            found: Iterator[tuple[str, list[str]]] = iter([(os.path.dirname(root), [os.path.basename(root)])])  # noqa: PTH119, PTH120 - as above
        else:
            found = _names_below(root, 0, times)
        for folder, names in found:
            chosen = names if accepts is None else [name for name in names if accepts(name)]
            if not chosen:
                continue  # the name of their folder does not matter
            try:
                yield _encoded_names(folder, chosen)
            except UnicodeEncodeError as error:  # the JVM can't open it
                shown = ascii(folder if error.object == folder else f"{folder}/{error.object}")
                raise SourceError("CLOUD_FILES_NAME_UNREADABLE", path=path, name=shown) from error


def _encoded_names(folder: str, names: Sequence[str]) -> list[str]:
    """Return the encoded URIs of files in a folder.

    Raises:
        UnicodeEncodeError: a name is not valid Unicode.
    """
    folder.encode()  # its error has the whole name
    prefix = f"{encoded(folder)}/"
    if "".join(names).encode("utf-8", "surrogateescape").translate(None, _PLAIN):
        return [prefix + _encoded_name(name) for name in names]
    return [prefix + name for name in names]


def _encoded_name(name: str) -> str:
    name.encode()  # its error has the whole name
    return _ESCAPED.sub(_escape, name)


def _names_below(folder: str, depth: int, times: dict[str, int]) -> Iterator[tuple[str, list[str]]]:
    """Yield folders and file names, recursively; links are followed, cycles are not."""
    folders: list[str] = []
    time = modified_ns(folder)
    if time is not None:
        times[folder] = time
    try:
        with os.scandir(folder) as entries:
            for part in in_parts(entries, _ENTRIES):
                names = shown_names([entry.name for entry in part])
                if len(names) < len(part):  # a hidden link may lead nowhere
                    part = [entry for entry in part if not is_hidden(entry.name)]  # noqa: PLW2901 - the same entries
                below = {entry.name: entry.path for entry in part if entry.is_dir()}
                folders += below.values()
                yield folder, [name for name in names if name not in below] if below else names
    except FileNotFoundError as error:
        if depth == 0:
            raise SourceError("CLOUD_FILES_FOLDER_MISSING", path=folder) from error
    except OSError as error:
        raise OperationError("STORAGE_NOT_READABLE", path=folder, problem=str(error)) from error
    if depth > _MOST_LINKS:
        raise OperationError("STORAGE_NOT_READABLE", path=folder, problem="it is too deep, or a link leads to itself")
    for each in folders:
        yield from _names_below(each, depth + 1, times)


def _expanded(path: str) -> Iterator[str]:
    """Yield the folders and files that a path names; matches of a glob come in any order."""
    for one in _alternatives(path):
        yield from _named(one)


def _alternatives(path: str) -> Iterator[str]:
    """Expand braces that span folders, such as `/in/{a/b,c}`, into paths; braces within one name stay."""
    for match in _BRACES.finditer(path):
        if "/" in match[1]:
            for each in match[1].split(","):
                yield from _alternatives(path[: match.start()] + each + path[match.end() :])
            return
    yield path


def _named(path: str) -> Iterator[str]:
    head, _, tail = path.partition("/") if not path.startswith("/") else ("/", "", path.lstrip("/"))
    parts = [part for part in _split_outside_braces(tail) if part]
    yield from _walk(head.rstrip("/"), parts)


def _walk(folder: str, parts: list[str]) -> Iterator[str]:
    for index, part in enumerate(parts):
        if GLOB.search(part):
            pattern = glob_pattern(part)
            try:
                names = sorted(os.listdir(folder or "/"))  # noqa: PTH208 - strings throughout
            except (FileNotFoundError, NotADirectoryError):
                return
            for name in names:
                if pattern.fullmatch(name) and not is_hidden(name):
                    yield from _walk(f"{folder}/{name}", parts[index + 1 :])
            return
        folder = f"{folder}/{part}"
    if os.path.exists(folder or "/"):  # noqa: PTH110 - strings throughout
        yield folder or "/"


def _split_outside_braces(path: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in path:
        depth += (character == "{") - (character == "}")
        if character == "/" and depth <= 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]
