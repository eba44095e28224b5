"""Tables of undeclared datasets, which keep their rows until a user prunes them.

A prune deletes the table and everything else of its dataset: AUTO CDC's auxiliary table, rebuilds, staged files and
checkpoints. It deletes nothing that is in use (see `folder_uses`) or that has changed since the user listed it.
Checkpoints are deleted because otherwise a dataset that is declared again would skip the rows that they have read.
Checkpoints of sinks are kept: rows in a sink can't be removed, and the checkpoint prevents duplicates.

The effects in order, and why a crash after each is safe:

1. The mark "this table is being pruned" is written. From here on the table counts as deleted, and the next update
   or prune finishes the deletion before it does anything else.
2. The entry in a configured catalog, the record, the auxiliary table, the table, rebuilds, staged files and
   checkpoints are deleted. Each deletion is idempotent.
3. The mark is deleted. Nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from framework.checkpoints.generations import dataset_folder
from framework.engine.files.storage import open_storage
from framework.foundation.errors import OperationError, UserError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import present_path
from framework.foundation.files.stored_format import UNUSABLE, StoredFormat
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.run.tables.catalog_entries import unregister
from framework.run.tables.folder_uses import FolderUses
from framework.run.tables.table_record import recorded_names
from framework.run.tables.table_store import TableStore
from framework.sources.delta.log import read_tip

_FORMAT = StoredFormat(1)
_UNREAD = "a source can't be read now, so it may be in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftTable:
    """A table of this pipeline that no module declares.

    Two values are equal only if the table is the same and was not written to in between.

    Args:
        path: the table's folder.
        table_id: Delta's id of the table; a new table at the same path has another id.
        version: the latest version.
        left_entry: CATALOG_ENTRY_LEFT for a dropped table whose catalog did not respond; else None.
    """

    name: QualifiedName
    path: str
    table_id: str | None = None
    version: int | None = None
    left_entry: OperationError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftTables:
    """Finds and drops the tables that a pipeline's code no longer declares."""

    graph: DataflowGraph
    store: TableStore

    @classmethod
    def of(cls, graph: DataflowGraph, store: TableStore) -> LeftTables:
        """Return the tables that a prune may drop.

        Raises:
            UserError: PRUNE_NOTHING_DECLARED: code may be missing.
            OperationError: PRUNE_SOURCES_UNREAD if a source or a query is unknown, because it may use a table.
        """
        if not graph.datasets:
            raise UserError("PRUNE_NOTHING_DECLARED", pipeline=graph.pipeline)
        if graph.is_partial:
            raise OperationError("PRUNE_SOURCES_UNREAD", pipeline=graph.pipeline)
        return cls(graph=graph, store=store)

    def find(self) -> tuple[LeftTable, ...]:
        """Return the tables that a prune drops, sorted by name: undeclared tables that are not in use.

        Raises:
            OperationError: STORED_FILE_DAMAGED, STORED_FORMAT_UNKNOWN.
        """
        self.check_marks()
        return tuple(table for table, reason in self._undeclared() if reason is None)

    def kept(self) -> dict[QualifiedName, str | None]:
        """Return all undeclared tables with the reason why a prune keeps each; None if a prune drops it."""
        return {table.name: reason for table, reason in self._undeclared()}

    def _undeclared(self) -> Iterator[tuple[LeftTable, str | None]]:
        """Yield the tables of this pipeline that are not in the graph, except those that are being pruned."""
        known = {dataset.name for dataset in self.graph.datasets if dataset.is_table}
        known |= {table.name for table in self.begun()}
        uses = FolderUses(graph=self.graph, store=self.store)
        for name in recorded_names(self.store.storage, self.store.layout):
            if name in known:
                continue
            table = LeftTable(name=name, path="")
            try:
                record = self.store.record(name)
                if record is None:
                    continue
                table = LeftTable(name=record.dataset, path=record.path)
                if not self.store.may_prune(record):
                    continue
                tip = read_tip(self.store.storage, record.path)
                if tip is not None:
                    table = replace(table, table_id=tip.table_id, version=tip.version)
                yield table, _UNREAD if self.graph.is_partial else uses.why_kept(record)
            except OperationError as error:  # it does not affect other tables
                is_unusable = error.condition in UNUSABLE  # its record, or another record, is unusable
                what = f"{error.fields['path']} can't be used" if is_unusable else "it can't be read"
                yield table, f"{what}, {error.condition}"

    def begun(self) -> tuple[LeftTable, ...]:
        """Return the tables whose deletion is not finished, except those of `mark_faults`."""
        return tuple(mark for mark in self._marks() if isinstance(mark, LeftTable))

    def mark_faults(self) -> tuple[OperationError, ...]:
        """Return an error for each file of an unfinished deletion that can't be used; no update begins with one."""
        return tuple(mark for mark in self._marks() if isinstance(mark, OperationError))

    def check_marks(self) -> None:
        """Check that the files of unfinished deletions can be used.

        Raises:
            OperationError: STORED_FILE_DAMAGED, STORED_FORMAT_UNKNOWN; the first fault of several.
        """
        for fault in self.mark_faults():
            raise fault

    def finish_begun(self) -> tuple[OperationError, ...]:
        """Finish the prunes that a crash interrupted; called under the update's lock, before planning.

        Returns:
            CATALOG_ENTRY_LEFT for each table whose entry may remain in a catalog that did not respond.

        Raises:
            OperationError: STORED_FILE_DAMAGED, STORED_FORMAT_UNKNOWN; no table was deleted.
        """
        self.check_marks()
        return tuple(left for table in self.begun() if (left := self._delete(table)) is not None)

    def drop(self, table: LeftTable) -> OperationError | None:
        """Delete a table and everything else of its dataset.

        Returns:
            CATALOG_ENTRY_LEFT if the table's entry may remain in a catalog that did not respond; else None.

        Raises:
            OperationError: TABLE_NOT_OWNED if the table at its path belongs to another owner.
        """
        self.store.check_ours(table.name, table.path, None)
        root = self.store.storage.root
        mark = {"dataset": asdict(table.name), "path": table.path, "table_id": table.table_id, "storage": root}
        self.store.storage.write_text(self._mark(table.name), _FORMAT.text(mark))
        failpoint("prune.after_mark")
        return self._delete(table)

    def _delete(self, table: LeftTable) -> OperationError | None:
        storage, layout, left = self.store.storage, self.store.layout, None
        if table.path:
            # A catalog that does not respond must not block updates. The remaining entry refers to an empty location:
            # it holds no rows, and a dataset that is declared again with that name takes it over.
            try:
                unregister(self.store.spark, table.name, table.path)
            except OperationError as error:
                name, problem = table.name, error.fields["problem"]
                left = OperationError("CATALOG_ENTRY_LEFT", name=name.quoted, path=table.path, problem=problem)
        storage.delete_tree(layout.record(table.name))
        storage.delete_tree(layout.auxiliary(table.name))
        failpoint("prune.before_table")
        if table.path and self._is_still_there(table):
            open_storage(table.path, self.store.spark).delete_tree(table.path)
        storage.delete_tree(layout.rebuilds(table.name))
        storage.delete_tree(layout.staged(table.name))
        storage.delete_tree(dataset_folder(storage, table.name))
        failpoint("prune.before_unmark")
        storage.delete_tree(self._mark(table.name))
        return left

    def _is_still_there(self, table: LeftTable) -> bool:
        """Whether the folder has the marked table or its remains, but not a table that was created later."""
        tip = read_tip(self.store.storage, table.path)
        return tip is None or None in (tip.table_id, table.table_id) or tip.table_id == table.table_id

    def _marks(self) -> Iterator[LeftTable | OperationError]:
        """Yield the tables whose deletion is not finished, and an error for each mark that can't be used."""
        folder = self.store.storage.path("prunes")
        for name in self.store.storage.list_names(folder):
            try:
                table = _FORMAT.read(self.store.storage, f"{folder}/{name}", self._marked)
            except OperationError as error:
                if error.condition not in UNUSABLE:
                    raise
                yield error
            else:
                if table is not None:
                    yield table

    def _marked(self, mark: dict[str, Any]) -> LeftTable:
        storage, name = self.store.storage, QualifiedName(**mark["dataset"])
        path = present_path(storage, mark["path"], mark["storage"])
        if path is None and self.store.is_claimed(name, mark["path"]):
            path = mark["path"]
        # Nothing is at an empty path, so only the rest of the dataset is deleted.
        return LeftTable(name=name, path=path or "", table_id=mark["table_id"])

    def _mark(self, name: QualifiedName) -> str:
        return self.store.storage.path("prunes", f"{name}.json")
