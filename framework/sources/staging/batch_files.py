"""The files of the micro-batches of one run: which of them a table has taken, and which are deleted.

For every runner that stages files, of a database, a connector or a gateway. A batch is published in one effect, by the
commit that names its files. Before it no reader sees them, and after it only the log of the table says whose they are.
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
        staging: where they are written.
        storage: deletes them.
        in_table: whether they are in the folder of a table, so that they can become the table's.
    """

    def __init__(self, staging: Staging, storage: Storage, *, in_table: bool) -> None:
        self._staging = staging
        self._storage = storage
        self._in_table = in_table
        self._unclear: set[str] = set()
        self.taken: set[str] = set()
        """The names of the files that are the table's."""

    def paths(self, names: Sequence[str]) -> list[str]:
        """Return the paths of files."""
        return [f"{self._staging.folder}/{name}" for name in names]

    @contextmanager
    def during(self, names: Sequence[str]) -> Iterator[None]:
        """Delete files after the commit of their batch, except those that are or may be the table's.

        A crash between the files and the commit: no commit names them, and the batch writes others. One between the
        commit and the deletion: the next start deletes what no commit names.
        """
        failpoint("staging.after_files")
        is_done = False
        try:
            yield
            failpoint("staging.after_commit")
            is_done = True
        finally:
            # Also of a batch that fails: its files are deleted unless they were handed to a commit, which may be done.
            # If they can't be, the next start does it, and the fault of the batch is the one that is reported.
            with nullcontext() if is_done else suppress(SluiceError):
                self._delete(names)

    def hand_over(self, names: Sequence[str]) -> None:
        """Leave files to a commit: until its log says so, they may be the table's."""
        self._unclear.update(names)

    def take(self, names: Sequence[str]) -> None:
        """Record that files are the table's: their commit is done."""
        self.taken.update(names)

    def take_back(self, names: Sequence[str]) -> None:
        """Record that files are not the table's: the commit that they were handed to was a conflict."""
        self._unclear.difference_update(names)

    def _delete(self, names: Sequence[str]) -> None:
        if not self._in_table:
            self._storage.delete_tree(self._staging.folder)
            return
        kept = self.taken | self._unclear
        for name in names:
            if name not in kept:
                self._storage.delete_tree(f"{self._staging.folder}/{name}")
