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

    Every `path` is a result of `path()`, another absolute path or URI (of a table), or
    relative to `root`. Reading never creates anything. A write is durable when its call
    returns: `kill -9` after it loses nothing, `kill -9` inside it leaves the old state or the new.
    Names that begin with a dot are the file system's own or incomplete files, and are never listed.

    Raises (all writing methods):
        OperationError: STORAGE_NOT_WRITABLE with the path and the reason.
    Raises (all reading methods):
        OperationError: STORAGE_NOT_READABLE with the path and the reason.
    """

    root: str
    can_append: bool
    """Whether the cost of `append_text` is that of the text; if not, callers should write separate files."""

    def path(self, *parts: str) -> str:
        """The full path of `parts` below the root, in a form that Spark accepts."""
        ...

    def check_writable(self) -> None:
        """Create the root if it is missing and check that a file can be written and deleted."""
        ...

    def read_text(self, path: str) -> str | None:
        """The whole file as UTF-8, with invalid bytes replaced; None if it is absent."""
        ...

    def read_after(self, path: str, position: int) -> bytes:
        """The bytes of the file behind the first `position` ones; nothing if it is shorter, or absent."""
        ...

    def write_text(self, path: str, text: str) -> None:
        """Replace the file atomically, creating its folders."""
        ...

    def create_text(self, path: str, text: str) -> bool:
        """Write the file atomically if it does not exist; False if it exists.

        Of several concurrent callers exactly one gets True, provided that the file system's
        rename refuses an existing target atomically (local, HDFS and ABFS do; S3 does not, so a
        caller reads the file back).
        """
        ...

    def append_text(self, path: str, text: str) -> None:
        """Add whole lines to the end of the file; `text` ends with a newline. Each file has a single writer."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Names of the files and folders in a folder, sorted; [] if it is absent."""
        ...

    def list_files(self, path: str) -> list[FileStatus]:
        """The files (not folders) in a folder, sorted by name; [] if it is absent."""
        ...

    def folder_token(self, path: str) -> str:
        """A text that changes when a name is added to or removed from a folder; "" if the folder is absent.

        Two changes within the resolution of the file system's clock may share a token.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        ...

    def delete_tree(self, path: str) -> None:
        """Delete a file or a folder with its content; no error if it is absent."""
        ...

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file of any content, creating the target's folders; not atomic: a crash may leave a part of it."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a path that does not exist, creating the target's parent folder."""
        ...


def lines_of(text: str) -> list[str]:
    """Return the lines of JSON in a text: a value may have what `splitlines` takes for the end of a line."""
    return text.removesuffix("\n").split("\n") if text else []


def present_path(storage: Storage, path: str, root: str) -> str | None:
    """Return a folder that a stored file names, as this storage has it; None if that is unknown.

    A storage that was moved or copied as a whole has its folders at other paths: those in its files are the ones of the
    original, which must neither be deleted nor restored from the copy. Whose a folder outside of the storage is then is
    unknown.

    Args:
        storage: the storage that has the file.
        path: the folder, as it was stored.
        root: the root of the storage in which the file was written.
    """
    if root == storage.root or real_path(root) == real_path(storage.root):
        return path
    begin, folder = f"{plain_path(root)}/", plain_path(path)
    return storage.path(*folder.removeprefix(begin).split("/")) if folder.startswith(begin) else None
