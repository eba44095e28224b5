"""The files of the micro-batches of one run: which files belong to the table, and which are deleted.

Used by every runner that stages files, of a database, a connector or a gateway. A batch is published by a single
commit, which names its files. Before the commit no reader sees them; after it only the log of the table shows whether
they belong to the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from framework.foundation.errors import SluiceError
from framework.foundation.failpoints import failpoint

if TYPE_CHECKING:
    from framework.foundation.files.storage_port import Storage
    from framework.sources.staging.place import Staging


class BatchFiles:
    """The files that one run writes.

    Args:
        staging: the place where they are written.
        storage: deletes them.
        in_table: whether they are in the folder of a table, so that they can become files of the table.
    """

    def __init__(self, staging: Staging, storage: Storage, *, in_table: bool) -> None:
        self._staging = staging
        self._storage = storage
        self._in_table = in_table
        self._unclear: set[str] = set()
        self.taken: set[str] = set()
        """The names of the files that belong to the table."""

    def paths(self, names: Sequence[str]) -> list[str]:
        """Return the paths of files."""
        return [f"{self._staging.folder}/{name}" for name in names]

    @contextmanager
    def during(self, names: Sequence[str]) -> Iterator[None]:
        """Delete files after the commit of their batch, except files that belong or may belong to the table.

        After a crash between the files and the commit, no commit names the files, and the replayed batch writes new
        ones. After a crash between the commit and the deletion, the next start deletes all files that no commit names.
        """
        failpoint("staging.after_files")
        is_done = False
        try:
            yield
            failpoint("staging.after_commit")
            is_done = True
        finally:
            # Files of a failed batch are deleted, too, unless they were handed to a commit, which may have succeeded.
            # If the deletion fails, the next start repeats it, and the error of the batch is reported.
            with nullcontext() if is_done else suppress(SluiceError):
                self._delete(names)

    def hand_over(self, names: Sequence[str]) -> None:
        """Leave files to a commit: until the log shows its outcome, they may belong to the table."""
        self._unclear.update(names)

    def take(self, names: Sequence[str]) -> None:
        """Record that files belong to the table, because their commit succeeded."""
        self.taken.update(names)

    def take_back(self, names: Sequence[str]) -> None:
        """Record that files do not belong to the table, because their commit failed with a conflict."""
        self._unclear.difference_update(names)

    def _delete(self, names: Sequence[str]) -> None:
        if not self._in_table:
            self._storage.delete_tree(self._staging.folder)
            return
        kept = self.taken | self._unclear
        for name in names:
            if name not in kept:
                self._storage.delete_tree(f"{self._staging.folder}/{name}")
