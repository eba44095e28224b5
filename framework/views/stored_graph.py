"""The graph stored by the last `validate` or update, for views and diagrams; without Spark."""

from __future__ import annotations

from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.graph.graph import DataflowGraph
from framework.graph.stored_graph import GraphStore


def stored_graph(storage: Storage, pipeline: str) -> DataflowGraph:
    """Return the stored graph of a pipeline.

    Raises:
        UserError: GRAPH_NOT_STORED.
        OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
    """
    store = GraphStore(storage, pipeline)
    found = store.read()
    if found is None:
        raise UserError("GRAPH_NOT_STORED", pipeline=pipeline, path=store.path)
    return found.graph
