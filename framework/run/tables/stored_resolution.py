"""The stored results of a graph's resolution: analyses for the next update, and the graph for readers."""

from __future__ import annotations

from contextlib import suppress

from framework.foundation.errors import OperationError
from framework.graph.graph import DataflowGraph
from framework.graph.stored_graph import GraphStore
from framework.run.tables.analysis_store import AnalysisStore
from framework.run.tables.table_store import TableStore


def store_resolution(graph: DataflowGraph, store: TableStore) -> None:
    """Store an update's analyses and graph. Both can be derived again, so a crash between them loses nothing."""
    AnalysisStore(store.storage, graph.pipeline).write(graph.analyses)
    store_graph(graph, store)


def store_graph(graph: DataflowGraph, store: TableStore) -> None:
    """Store a graph for readers; do nothing if the storage can't be written, because only readers would miss it."""
    folders = {each.name: store.path(each.spec) for each in graph.datasets if each.is_table}
    with suppress(OperationError):
        GraphStore(store.storage, graph.pipeline).write(graph, folders)
