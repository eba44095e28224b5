"""Staging of snapshots: the folder where the tasks that read chunks write files.

The runner of a flow names the folder, and the readers of a dialect write to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from framework.foundation.files.storage import LocalStorage, is_local

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from framework.foundation.added_columns import AddedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """A place for the files of a snapshot, and their columns.

    Args:
        folder: a path or URI that all executors can access.
        prefix: the beginning of the names of the files.
        columns: name and Spark type (`simpleString`) of each column, in their order.
        added: a column that is added to the files.
    """

    folder: str
    prefix: str
    columns: tuple[tuple[str, str], ...]
    added: AddedColumn | None = None

    def open(self) -> tuple[FileSystem, str]:
        """Return the file system, and the path of the folder in it; the folder is created.

        Raises:
            OSError, pyarrow.ArrowInvalid: Arrow has no file system for the URI, or can't connect to it.
        """
        from pyarrow.fs import FileSystem, LocalFileSystem

        filesystem, path = (
            (LocalFileSystem(), LocalStorage(self.folder).root)
            if is_local(self.folder)
            else FileSystem.from_uri(self.folder)
        )
        filesystem.create_dir(path, recursive=True)
        return filesystem, path

    def is_writable(self) -> bool:
        """Whether Arrow can write to the folder from this process; only a remote folder is tested."""
        if is_local(self.folder):
            return True
        # Arrow has fewer file systems than Hadoop, and finds its credentials elsewhere.
        try:
            filesystem, path = self.open()
            probe = f"{path}/.sluice-probe-{uuid4().hex}"
            filesystem.open_output_stream(probe).close()
            filesystem.delete_file(probe)
        except (OSError, ValueError):
            return False
        return True
