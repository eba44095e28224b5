"""Materialized views that flows of the pipeline read as streams."""

from __future__ import annotations

from collections.abc import Iterator

from framework.declare.specs import DatasetKind
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph


def is_streamed(graph: DataflowGraph, name: QualifiedName) -> bool:
    """Whether a flow of the pipeline reads a dataset as a stream, perhaps through a temporary view."""
    return any(read.streaming and read.dataset == name for flow in graph.flows for read in flow.reads)


def streamed_view_warnings(graph: DataflowGraph) -> Iterator[UserError]:
    """Yield a warning for each materialized view that a flow reads as a stream, at the flow."""
    kinds = {each.name: each.kind for each in graph.datasets}
    views = {name for name, kind in kinds.items() if kind is DatasetKind.MATERIALIZED_VIEW}
    for flow in graph.flows:
        if kinds.get(flow.spec.target) is DatasetKind.TEMPORARY_VIEW:  # the flows that read it have its reads
            continue
        names = {read.dataset for read in flow.reads if read.streaming and read.dataset in views}
        for name in sorted(map(str, names)):
            yield UserError("MATERIALIZED_VIEW_STREAMED", location=flow.spec.location, flow=flow.spec.name, view=name)
