"""The storage port: what a place for checkpoints, events and locks must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file in a folder: its name, its size in bytes, when it was last changed in epoch seconds."""

    name: str
    size: int
    modified_at: float


class Storage(Protocol):
    """Small durable text files below a root; a local folder or any Hadoop file system.

    Every `path` is one that `path()` gave, an absolute path or URI from elsewhere (a table's), or
    relative to `root`. Reading never creates anything. What was written is durable when a call
    returns: `kill -9` after it loses nothing, `kill -9` inside it leaves the old state or the new.
    Names that begin with a dot are the file system's own or half-written, and are never listed.

    Raises (all writing methods):
        OperationError: STORAGE_NOT_WRITABLE with the path and the reason.
    Raises (all reading methods):
        OperationError: STORAGE_NOT_READABLE with the path and the reason.
    """

    root: str
    can_append: bool
    """Whether `append_text` costs no more than the text; elsewhere write files of their own."""

    def path(self, *parts: str) -> str:
        """The full path of `parts` below the root, as Spark takes it."""
        ...

    def check_writable(self) -> None:
        """Create the root where it is missing and prove that a file can be written and deleted."""
        ...

    def read_text(self, path: str) -> str | None:
        """The whole file as UTF-8, bytes that are none replaced; None when it is absent."""
        ...

    def write_text(self, path: str, text: str) -> None:
        """Replace the file in one step, creating its folders."""
        ...

    def create_text(self, path: str, text: str) -> bool:
        """Write the file if there is none, in one step; False when there is one already.

        Of several that try at the same time one gets True, provided that the file system's
        rename refuses an existing target in one step (local, HDFS and ABFS do; S3 does not, so a
        caller reads back what it wrote).
        """
        ...

    def append_text(self, path: str, text: str) -> None:
        """Add whole lines to the end of the file; `text` ends in a newline. One writer a file."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Names of the files and folders in a folder, sorted; [] when it is absent."""
        ...

    def list_files(self, path: str) -> list[FileStatus]:
        """The files (not folders) in a folder, sorted by name; [] when it is absent."""
        ...

    def folder_token(self, path: str) -> str:
        """A text that changes when a name is added to or removed from a folder; "" when it is absent.

        Two changes within the resolution of the file system's clock may share a token.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    def delete_tree(self, path: str) -> None:
        """Delete a file or a folder with all that is in it; nothing happens when it is absent."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a place that is free, creating the target's parent folder."""
        ...
