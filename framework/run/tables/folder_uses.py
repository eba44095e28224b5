"""The uses of a table's folder, so that the folder of an undeclared dataset is not deleted while it is in use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from framework.declare.specs import DatasetKind
from framework.foundation.names import QualifiedName
from framework.foundation.storage import is_local
from framework.foundation.table_address import normal_path
from framework.graph.graph import DataflowGraph
from framework.run.tables.table_store import TableStore
from framework.sources.port import SourceShape


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderUses:
    """The datasets, reads, sinks and records that use a folder in addition to the table in it."""

    graph: DataflowGraph
    store: TableStore

    def why_kept(self, name: QualifiedName, path: str) -> str | None:
        """Return why the table of an undeclared dataset may not be deleted; None if nothing uses it.

        A folder is in use if it equals, is inside, or contains a used folder. Links are followed.
        """
        declared = self.graph.dataset(name)
        if declared is not None and declared.kind is not DatasetKind.TEMPORARY_VIEW:
            return "a sink of the pipeline has the same name"
        folder = _real(path)
        root = _real(self.store.storage.root)
        if root.is_relative_to(folder):
            return "its folder contains the storage of the pipeline"
        for used, reason in self._used(name):
            other = _real(used)
            if folder.is_relative_to(other) or other.is_relative_to(folder):
                return reason
        return None

    def _used(self, name: QualifiedName) -> Iterator[tuple[str, str]]:
        """Yield the folders in use, each with the reason."""
        for dataset in self.graph.datasets:
            path = dict(dataset.spec.options).get("path") if dataset.is_sink else None
            if dataset.is_table or path:
                yield path or self.store.path(dataset.spec), f"its folder overlaps with that of {dataset.name}"
        for flow in self.graph.flows:
            paths = [read.path for read in flow.reads if read.path is not None]
            streamed = [source.location for source in flow.sources if source.shape is not SourceShape.STREAM]
            for path in (*paths, *(location for location in streamed if location is not None)):
                yield path, f"{flow.spec.target} reads it"
        for record in self.store.records(besides=(name,)):
            if self.graph.dataset(record.dataset) is None:
                yield record.path, f"its folder overlaps with that of {record.dataset}"


def _real(path: str) -> PurePosixPath:
    """Return a folder in comparable form: a local one without scheme and links."""
    if not is_local(path):
        return PurePosixPath(normal_path(path))
    plain = "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
    return PurePosixPath(os.path.realpath(plain))
