"""Tables whose datasets left the code: they keep their rows until a person prunes them.

A pruned table goes with all that belongs to its dataset: the companion of AUTO CDC, rebuilds and checkpoints.
A checkpoint that stayed would skip the rows it has read, if the dataset came back. Checkpoints of sinks are
kept: what a sink has received can't be taken back, and its checkpoint is what keeps it from coming twice.

The effects in order, and why stopping after each is safe:

1. the mark "this table is being pruned" -> from here the table counts as gone, and the next update or prune
   finishes the deletion before it does anything else;
2. the entry in a configured catalog, the record, the companion, the table, rebuilds, checkpoints: each is
   deleted once, or again;
3. the mark deleted -> nothing is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from framework.checkpoints.layout import dataset_folder
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.foundation.storage import open_storage
from framework.foundation.stored_json import read_stored_json
from framework.graph.graph import DataflowGraph
from framework.run.catalog import unregister
from framework.run.table_store import TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftTable:
    """A table of this pipeline that no module declares any more, and the folder it lies in."""

    name: QualifiedName
    path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftTables:
    """Finds and drops the tables that a pipeline's code no longer declares."""

    graph: DataflowGraph
    store: TableStore

    def find(self) -> tuple[LeftTable, ...]:
        """The tables of this pipeline that are no dataset of the graph, by name; those being pruned are gone."""
        known = {dataset.name for dataset in self.graph.datasets if dataset.is_table}
        known |= {table.name for table in self.begun()}
        return tuple(
            LeftTable(name=record.dataset, path=record.path)
            for record in self.store.records(besides=known)
            if self.store.is_ours(record)
        )

    def begun(self) -> tuple[LeftTable, ...]:
        """The tables whose deletion was begun and not finished."""
        return tuple(self._marks())

    def finish_begun(self) -> None:
        """Finish what a crash left of a prune; done under the update's lock, before anything is planned."""
        for table in self.begun():
            self._delete(table)

    def drop(self, table: LeftTable) -> None:
        """Delete a table and all that belongs to its dataset.

        Raises:
            OperationError: TABLE_NOT_OWNED when the table at its path is not this pipeline's.
        """
        self.store.check_ours(table.name, table.path, None)
        mark = {"dataset": asdict(table.name), "path": table.path}
        self.store.storage.write_text(self._mark(table.name), json.dumps(mark))
        failpoint("prune.after_mark")
        self._delete(table)

    def _delete(self, table: LeftTable) -> None:
        storage, layout = self.store.storage, self.store.layout
        unregister(self.store.spark, table.name, table.path)
        storage.delete_tree(layout.record(table.name))
        storage.delete_tree(layout.companion(table.name))
        failpoint("prune.before_table")
        open_storage(table.path, self.store.spark).delete_tree(table.path)
        storage.delete_tree(layout.rebuilds(table.name))
        storage.delete_tree(dataset_folder(storage, table.name))
        failpoint("prune.before_unmark")
        storage.delete_tree(self._mark(table.name))

    def _marks(self) -> Iterator[LeftTable]:
        folder = self.store.storage.path("prunes")
        for name in self.store.storage.list_names(folder):
            table = read_stored_json(self.store.storage, f"{folder}/{name}", _marked)
            if table is not None:
                yield table

    def _mark(self, name: QualifiedName) -> str:
        return self.store.storage.path("prunes", f"{name}.json")


def _marked(mark: dict[str, Any]) -> LeftTable:
    return LeftTable(name=QualifiedName(**mark["dataset"]), path=mark["path"])
