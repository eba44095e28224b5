"""The storage port: the operations that checkpoints, events and locks need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from framework.foundation.table_address import plain_path, real_path


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file in a folder: its name, its size in bytes, and its modification time in epoch seconds."""

    name: str
    size: int
    modified_at: float


class Storage(Protocol):
    """Small durable text files below a root; a local folder or any Hadoop file system.

    Every `path` is a result of `path()`, another absolute path or URI (of a table), or relative to `root`. Reads never
    create anything. A write is durable when its call returns: `kill -9` after it loses nothing, and `kill -9` during it
    leaves either the old state or the new one. Names that begin with a dot belong to the file system or to incomplete
    files, and are never listed.

    Raises (all writing methods):
        OperationError: STORAGE_NOT_WRITABLE with the path and the reason.
    Raises (all reading methods):
        OperationError: STORAGE_NOT_READABLE with the path and the reason.
    """

    root: str
    can_append: bool
    """Whether `append_text` costs only the size of the appended text; otherwise callers should write separate files."""

    def path(self, *parts: str) -> str:
        """Return the full path of `parts` below the root, in a form that Spark accepts."""
        ...

    def check_writable(self) -> None:
        """Create the root if it is missing, and check that a file can be written and deleted."""
        ...

    def read_text(self, path: str) -> str | None:
        """Return the whole file as UTF-8, with invalid bytes replaced; None if it is absent."""
        ...

    def read_after(self, path: str, position: int) -> bytes:
        """Return the bytes of the file after the first `position` bytes; empty if it is shorter or absent."""
        ...

    def write_text(self, path: str, text: str) -> None:
        """Replace the file atomically, and create its folders."""
        ...

    def create_text(self, path: str, text: str) -> bool:
        """Write the file atomically if it does not exist; return False if it exists.

        Exactly one of several concurrent callers gets True, provided that the file system's rename refuses an existing
        target atomically. Local file systems, HDFS and ABFS do; S3 does not, so a caller must read the file back.
        """
        ...

    def append_text(self, path: str, text: str) -> None:
        """Add whole lines to the end of the file; `text` ends with a newline. Each file has a single writer."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Return the names of the files and folders in a folder, sorted; [] if it is absent."""
        ...

    def list_files(self, path: str) -> list[FileStatus]:
        """Return the files (not folders) in a folder, sorted by name; [] if it is absent."""
        ...

    def folder_token(self, path: str) -> str:
        """Return a text that changes when a name is added to or removed from a folder; "" if the folder is absent.

        Two changes within the time resolution of the file system may have the same token.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        ...

    def delete_tree(self, path: str) -> None:
        """Delete a file, or a folder with its content; an absent path is no error."""
        ...

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file of any content, and create the target's folders; not atomic: a crash may leave a partial copy."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a path that does not exist, and create the target's parent folder."""
        ...


def lines_of(text: str) -> list[str]:
    """Return the lines of a text of JSON lines: `splitlines` would also split at characters within values."""
    return text.removesuffix("\n").split("\n") if text else []


def present_path(storage: Storage, path: str, root: str) -> str | None:
    """Return the path in this storage of a folder named in a stored file; None if it is unknown.

    If a storage was moved or copied as a whole, its folders have new paths. The stored paths are those of the original,
    whose folders must not be deleted or restored through the copy. The owner of a folder outside the storage is then
    unknown.

    Args:
        storage: the storage with the file.
        path: the stored path of the folder.
        root: the root of the storage when the file was written.
    """
    if root == storage.root or real_path(root) == real_path(storage.root):
        return path
    begin, folder = f"{plain_path(root)}/", plain_path(path)
    return storage.path(*folder.removeprefix(begin).split("/")) if folder.startswith(begin) else None
