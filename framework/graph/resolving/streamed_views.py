"""Materialized views that flows of the pipeline read as streams: a stream reads appended rows only."""

from __future__ import annotations

from collections.abc import Iterator

from framework.declare.specs import DatasetKind
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow, Read
from framework.graph.reading.schemas import reads_changes

STREAMED_VIEW = "STREAM_OF_MATERIALIZED_VIEW"
"""The condition of the warnings. Plans show it, too: it is the only warning about code that predicts a failure."""


def is_streamed(graph: DataflowGraph, name: QualifiedName) -> bool:
    """Whether a flow reads a materialized view as a stream of its rows, perhaps through a temporary view."""
    return any(read.dataset == name and _is_streamed_view(graph, read) for flow in graph.flows for read in flow.reads)


def streamed_view_warnings(graph: DataflowGraph) -> Iterator[UserError]:
    """Yield a warning for each materialized view that a flow streams without reading its change data feed.

    It is no error, as on Databricks: such a flow runs as long as the view only gains rows.
    """
    for flow in graph.flows:
        target = graph.dataset(flow.spec.target)
        if target is None or target.kind is DatasetKind.TEMPORARY_VIEW or not flow.streaming:
            continue
        views = {read.dataset: None for read in flow.reads if _is_streamed_view(graph, read)}
        yield from (_warning(flow, read) for read in views)


def _is_streamed_view(graph: DataflowGraph, read: Read) -> bool:
    dataset = None if read.dataset is None or not read.streaming else graph.dataset(read.dataset)
    is_view = dataset is not None and dataset.kind is DatasetKind.MATERIALIZED_VIEW
    return is_view and not reads_changes({key.lower(): value for key, value in read.options})


def _warning(flow: GraphFlow, view: object) -> UserError:
    spec = flow.spec
    return UserError(STREAMED_VIEW, location=spec.location, flow=spec.name, view=view)
