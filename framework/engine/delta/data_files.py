"""The data files and deletion vector files of a Delta table: their paths, and which are missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

if TYPE_CHECKING:
    from framework.foundation.files.storage_port import Storage

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_ENCODED_UUID = 20
_MANY = 20
"""The number of files in one folder from which the folder is listed, instead of one check per file."""


def missing_files(storage: Storage, table: str, files: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Return the data files and deletion vector files that no longer exist.

    Args:
        storage: checks that they exist.
        table: the folder of the table.
        files: the path and the deletion vector of each, see `file_name`.
    """
    by_folder: dict[str, set[str]] = {}
    for path in {each for name, vector in files for each in _paths(table, name, vector)}:
        folder, _, name = path.rpartition("/")
        by_folder.setdefault(folder, set()).add(name)
    gone = (f"{folder}/{name}" for folder, names in by_folder.items() for name in _gone(storage, folder, names))
    return tuple(sorted(gone))


def _gone(storage: Storage, folder: str, names: set[str]) -> Collection[str]:
    if len(names) < _MANY:
        return [name for name in names if not storage.exists(f"{folder}/{name}")]
    return names.difference(storage.list_names(folder))


def file_name(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return a file's path and its deletion vector (empty for none) from its entry in the log."""
    vector = entry.get("deletionVector")
    return entry["path"], "" if vector is None else f"{vector['storageType']}{vector['pathOrInlineDv']}"


def _paths(table: str, file: str, vector: str) -> list[str]:
    """Return the absolute paths of a file and of its deletion vector."""
    return [_absolute(table, unquote(file)), *([_absolute(table, name)] if (name := vector_file(vector)) else [])]


def _absolute(table: str, path: str) -> str:
    return path if path.startswith("/") or ":/" in path else f"{table}/{path}"


def vector_file(vector: str) -> str | None:
    """Return the file of a deletion vector, relative to the table or absolute; None if it is in the log.

    Args:
        vector: its storage type, one letter, followed by its location in Delta's encoding.

    Examples:
        >>> vector_file("uab^-aqEH.-t@S}K{vb[*k^")
        'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    kind, place = vector[:1], vector[1:]
    if kind == "p":
        return unquote(place)
    if kind != "u":
        return None
    folder, encoded = place[:-_ENCODED_UUID], place[-_ENCODED_UUID:]
    name = f"deletion_vector_{UUID(bytes=_decode(encoded))}.bin"
    return f"{folder}/{name}" if folder else name


def _decode(text: str) -> bytes:
    """Decode base 85 in the alphabet of ZeroMQ: each five characters are four bytes."""
    found = b""
    for place in range(0, len(text), 5):
        value = 0
        for character in text[place : place + 5]:
            value = value * 85 + _Z85.index(character)
        found += value.to_bytes(4, "big")
    return found
