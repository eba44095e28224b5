"""Detection of other uses of a table's folder, so that a prune does not delete a folder that is in use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote

from framework.declare.specs import DatasetKind
from framework.engine.files.storage import open_storage
from framework.foundation.files.storage import Storage
from framework.foundation.table_address import real_path
from framework.graph.graph import DataflowGraph
from framework.run.tables.table_record import TableRecord
from framework.run.tables.table_store import TableStore
from framework.sources.delta.log import read_tip
from framework.sources.port import SourceShape

# The file and folder names that Delta uses.
_DELTA_FILE = re.compile(r"part-.+\.parquet|deletion_vector_.+\.bin")
_DELTA_FOLDERS = frozenset({"_delta_log", "_change_data", "_delta_index", "_symlink_format_manifest"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderUses:
    """The datasets, reads, sinks and records that use a folder besides its own table."""

    graph: DataflowGraph
    store: TableStore

    def why_kept(self, table: TableRecord) -> str | None:
        """Return why an undeclared dataset's table must not be deleted; None if nothing else uses it.

        A folder is in use if it equals, is inside, or contains a used folder. Links are followed. A folder chosen by a
        user must also contain nothing but the table at its top level.
        """
        declared = self.graph.dataset(table.dataset)
        if declared is not None and declared.kind is not DatasetKind.TEMPORARY_VIEW:
            return "a sink of the pipeline has the same name"
        folder = _real(table.path)
        root = _real(self.store.storage.root)
        if root.is_relative_to(folder):
            return "its folder contains the storage of the pipeline"
        for used, reason in self._used(table, folder):
            other = _real(used)
            if folder.is_relative_to(other) or other.is_relative_to(folder):
                return reason
        layout = self.store.layout
        if folder in {_real(layout.table(table.dataset, private=private)) for private in (False, True)}:
            return None
        foreign = foreign_entry(open_storage(table.path, self.store.spark), table)
        return None if foreign is None else f"its folder also contains {foreign}, which does not belong to the table"

    def _used(self, table: TableRecord, folder: PurePosixPath) -> Iterator[tuple[str, str]]:
        """Yield the folders in use, each with the reason."""
        for dataset in self.graph.datasets:
            path = dict(dataset.spec.options).get("path") if dataset.is_sink else None
            if dataset.is_table or path:
                yield path or self.store.path(dataset.spec), f"its folder overlaps with that of {dataset.name}"
        for flow in self.graph.flows:
            paths = [read.path for read in flow.reads if read.path is not None]
            streamed = [source.location for source in flow.sources if source.shape is not SourceShape.STREAM]
            for path in (*paths, *flow.batch_paths, *(location for location in streamed if location is not None)):
                yield path, f"{flow.spec.target} reads it"
        for record in self.store.records(besides=(table.dataset,)):
            # A renamed dataset leaves two records of one table, which must not protect each other.
            is_same = _real(record.path) == folder and self.store.is_ours(record)
            if self.graph.dataset(record.dataset) is None and not is_same:
                yield record.path, f"its folder overlaps with that of {record.dataset}"


def _real(path: str) -> PurePosixPath:
    """Return a folder with links resolved, for comparison."""
    return PurePosixPath(real_path(path))


def _prefix_length(storage: Storage, table: TableRecord) -> int | None:
    """Return the length of Delta's random folder names for a table's files; None if the table uses none."""
    tip = read_tip(storage, table.path)
    properties = tip.properties if tip is not None else {}
    is_mapped = properties.get("delta.columnMapping.mode", "none").lower() != "none"
    if is_mapped or properties.get("delta.randomizeFilePrefixes", "").lower() == "true":
        return int(properties.get("delta.randomPrefixLength", "2"))
    return None


def foreign_entry(storage: Storage, table: TableRecord) -> str | None:
    """Return the first entry at the top of a table's folder that Delta did not write; None if there is none.

    Partition folders are not searched: a table may have thousands, and each plan calls this function. Folders of former
    partition columns stay until VACUUM deletes them.
    """
    prefix_length = _prefix_length(storage, table)
    columns = {field["name"].lower() for field in json.loads(table.schema)["fields"]}
    files = {file.name for file in storage.list_files(table.path)}
    for name in storage.list_names(table.path):
        if name in files:
            known = _DELTA_FILE.fullmatch(name) is not None
        elif len(name) == prefix_length:
            known = all(map(_DELTA_FILE.fullmatch, storage.list_names(f"{table.path}/{name}")))
        else:
            column, equals, _ = name.partition("=")
            known = name in _DELTA_FOLDERS or (equals != "" and unquote(column).lower() in columns)
        if not known:
            return name
    return None
