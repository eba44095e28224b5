"""Detection of sources that a query now reads with the position of another source."""

from __future__ import annotations

from functools import partial

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import Generation
from framework.foundation.files.storage import Storage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.run.tables.table_store import TableStore
from framework.sources.cloud_files.files.offsets import FOLDER as CLOUD_FILES
from framework.sources.delta.source import table_source


def misplaced_source(
    graph: DataflowGraph, store: TableStore, flow: GraphFlow, generation: Generation
) -> tuple[str, str] | None:
    """Return a misplaced source and the source whose position it would use; None if there is none."""
    return generation.misplaced(flow.source_names, place=partial(_place, graph, store))


def misplaced_in_checkpoint(
    graph: DataflowGraph, store: TableStore, flow: GraphFlow, generation: Generation | None, storage: Storage
) -> tuple[str, str] | None:
    """Return the result of `misplaced_source`; None if the generation's checkpoint has no position yet."""
    if generation is None:
        return None
    checkpoint = GenerationStore(storage).path(flow.spec.target, flow.spec.name, generation.number)
    # A file list may be longer than the position.
    has_begun = any(storage.list_names(f"{checkpoint}/{each}") for each in ("offsets", CLOUD_FILES))
    return misplaced_source(graph, store, flow, generation) if has_begun else None


def _place(graph: DataflowGraph, store: TableStore, name: str) -> str:
    """Return the name of a source by path, so that a table of the pipeline is the same source by name and by path."""
    location, _, kind = name.rpartition(" ")
    if kind != "(table)" or location.count(".") < 2:
        return name
    catalog, schema, table = location.split(".", maxsplit=2)
    dataset = graph.dataset(QualifiedName(catalog=catalog, schema=schema, table=table))
    return name if dataset is None else str(table_source(store.path(dataset.spec)))
