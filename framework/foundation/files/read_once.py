"""A cached view of a storage that reads each file and folder once, for any number of readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from framework.foundation.files.storage_port import FileStatus, Storage

_Value = TypeVar("_Value")


def fresh(storage: Storage) -> Storage:
    """Return a storage that reads the current state, without the cache."""
    return storage._storage if isinstance(storage, ReadOnceStorage) else storage  # noqa: SLF001 - the same module


class ReadOnceStorage:
    """The storage port over another storage, with everything as it was at its first read.

    It is used while many flows are planned, because their state is read in several places. A write passes through and
    clears the cache.

    Args:
        storage: the underlying storage.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._seen: dict[tuple[str, str], Any] = {}
        self.root = storage.root
        self.can_append = storage.can_append

    def path(self, *parts: str) -> str:
        """Return the path in the storage."""
        return self._storage.path(*parts)

    def check_writable(self) -> None:
        """Check that the storage is writable."""
        self._storage.check_writable()

    def read_text(self, path: str) -> str | None:
        """Return the whole file as it was at the first read; None if it was absent."""
        return self._once("text", path, self._storage.read_text)

    def read_after(self, path: str, position: int) -> bytes:
        """Return the current end of the file, uncached, because callers that follow a file need new bytes."""
        return self._storage.read_after(path, position)

    def list_names(self, path: str) -> list[str]:
        """Return the names in a folder at the first listing, as a new list."""
        return [*self._once("names", path, self._storage.list_names)]

    def list_files(self, path: str) -> list[FileStatus]:
        """Return the files in a folder at the first listing, as a new list."""
        return [*self._once("files", path, self._storage.list_files)]

    def folder_token(self, path: str) -> str:
        """Return the token of a folder at the first read."""
        return self._once("token", path, self._storage.folder_token)

    def exists(self, path: str) -> bool:
        """Return whether a file or folder existed at the first read."""
        return self._once("exists", path, self._storage.exists)

    def write_text(self, path: str, text: str) -> None:
        """Replace the file in the storage."""
        self._seen.clear()
        self._storage.write_text(path, text)

    def create_text(self, path: str, text: str) -> bool:
        """Write the file in the storage if it does not exist."""
        self._seen.clear()
        return self._storage.create_text(path, text)

    def append_text(self, path: str, text: str) -> None:
        """Add whole lines to the file in the storage."""
        self._seen.clear()
        self._storage.append_text(path, text)

    def delete_tree(self, path: str) -> None:
        """Delete a file or a folder in the storage."""
        self._seen.clear()
        self._storage.delete_tree(path)

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file in the storage."""
        self._seen.clear()
        self._storage.copy_file(source, target)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder in the storage."""
        self._seen.clear()
        self._storage.rename(source, target)

    def _once(self, what: str, path: str, read: Callable[[str], _Value]) -> _Value:
        if (what, path) not in self._seen:
            self._seen[what, path] = read(path)
        found: _Value = self._seen[what, path]
        return found
