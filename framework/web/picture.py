"""What every picture of a dataflow shows, whatever draws it: nodes, and edges with labels.

A flow is an edge from what it reads to its target. Where a label must stand for several reads, or
for none, the flow becomes a small node of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from framework.declare.specs import DatasetKind
from framework.foundation.names import QualifiedName
from framework.foundation.short_names import ShortNames
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read


class NodeKind(StrEnum):
    """What a node stands for; the value is what a legend says."""

    STREAMING_TABLE = "streaming table"
    MATERIALIZED_VIEW = "materialized view"
    TEMPORARY_VIEW = "view"
    SINK = "sink"
    EXTERNAL = "outside the pipeline"
    FLOW = "flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What is written at a flow: its name where that is not the target's, and its marks."""

    name: str = ""
    marks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Name and marks on one line; empty when there is nothing to say."""
        return " · ".join(part for part in (self.name, *self.marks) if part)


NO_LABEL = Label()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box: `title` is its short name, `note` a second line, `full_name` what a pointer shows."""

    key: str
    kind: NodeKind
    title: str
    note: str = ""
    full_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From one node's key to another's."""

    source: str
    target: str
    streaming: bool
    label: Label = NO_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A dataflow ready to be drawn; keys are unique, and edges join keys of its nodes."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


_KINDS = {
    DatasetKind.TABLE: NodeKind.STREAMING_TABLE,
    DatasetKind.STREAMING_TABLE: NodeKind.STREAMING_TABLE,
    DatasetKind.MATERIALIZED_VIEW: NodeKind.MATERIALIZED_VIEW,
    DatasetKind.TEMPORARY_VIEW: NodeKind.TEMPORARY_VIEW,
    DatasetKind.SINK: NodeKind.SINK,
    DatasetKind.FOREACH_BATCH_SINK: NodeKind.SINK,
}


def picture_of(graph: DataflowGraph) -> Picture:
    """The picture of a graph: a box per dataset and per source outside, an edge per read of a flow."""
    short = ShortNames.of(dataset.name for dataset in graph.datasets)
    nodes = [_external_node(text) for text in graph.external]
    nodes += [_dataset_node(dataset, short) for dataset in graph.datasets]
    edges: list[Edge] = []
    for flow in graph.flows:
        more_nodes, more_edges = _draw_flow(graph, flow, short)
        nodes += more_nodes
        edges += more_edges
    return Picture(title=graph.pipeline, nodes=tuple(nodes), edges=tuple(edges))


def flow_label(flow: GraphFlow, short: ShortNames) -> Label:
    """What is written at a flow; the flow that a dataset's own query makes needs no name."""
    marks = []
    if flow.spec.cdc is not None:
        marks.append("AUTO CDC" if flow.spec.cdc.scd_type == 1 else f"AUTO CDC, SCD {flow.spec.cdc.scd_type}")
    if flow.spec.once:
        marks.append("once")
    name = "" if flow.spec.name == flow.spec.target else short(flow.spec.name)
    return Label(name=name, marks=tuple(marks))


def column_count(dataset: GraphDataset) -> int | None:
    """How many columns a dataset has; None when it has no schema, as sinks have none."""
    if dataset.schema is None:
        return None
    return len(json.loads(dataset.schema).get("fields", ()))


def direct_reads(graph: DataflowGraph, flow: GraphFlow) -> tuple[Read, ...]:
    """The reads of a flow without those that it makes only through a view it reads."""
    views = [read.dataset for read in flow.reads if read.dataset is not None and _is_view(graph, read.dataset)]
    hidden = {_source_key(read) for view in views for read in _reads_below(graph, view)}
    return tuple(read for read in flow.reads if _source_key(read) not in hidden)


def _reads_below(graph: DataflowGraph, view: QualifiedName) -> Iterator[Read]:
    """What the flows of a view read; the graph lists reads through views at each flow already."""
    for flow in graph.flows_into(view):
        yield from flow.reads


def _is_view(graph: DataflowGraph, name: QualifiedName) -> bool:
    dataset = graph.dataset(name)
    return dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW


def _source_key(read: Read) -> str:
    return f"external {read.text}" if read.dataset is None else f"dataset {read.dataset}"


def _external_node(text: str) -> Node:
    return Node(key=f"external {text}", kind=NodeKind.EXTERNAL, title=text.replace("`", ""), full_name=text)


def _dataset_node(dataset: GraphDataset, short: ShortNames) -> Node:
    kind = _KINDS[dataset.kind]
    count = column_count(dataset)
    parts = ["private " if dataset.spec.private and dataset.is_table else "", kind.value]
    parts += [f" · {count} column{'' if count == 1 else 's'}"] if count is not None else []
    return Node(
        key=f"dataset {dataset.name}",
        kind=kind,
        title=short(dataset.name),
        note="".join(parts),
        full_name=str(dataset.name),
    )


def _draw_flow(graph: DataflowGraph, flow: GraphFlow, short: ShortNames) -> tuple[list[Node], list[Edge]]:
    """The edges of one flow, and the nodes that they need besides the datasets."""
    label = flow_label(flow, short)
    target = f"dataset {flow.spec.target}"
    nodes: list[Node] = []
    sources: dict[str, bool] = {}
    for read in direct_reads(graph, flow):
        key = _source_key(read)
        sources[key] = sources.get(key, False) or read.streaming
    sources.pop(target, None)
    if flow.opaque_sources:
        key = f"source of {flow.spec.name}"
        nodes.append(Node(key=key, kind=NodeKind.EXTERNAL, title="stream", full_name=f"a source of {flow.spec.name}"))
        sources[key] = True
    if not label.text or len(sources) == 1:
        edges = [Edge(source=key, target=target, streaming=on, label=label) for key, on in sources.items()]
        return nodes, edges
    key = f"flow {flow.spec.name}"
    nodes.append(Node(key=key, kind=NodeKind.FLOW, title=label.text, full_name=str(flow.spec.name)))
    edges = [Edge(source=source, target=key, streaming=on) for source, on in sources.items()]
    return nodes, [*edges, Edge(source=key, target=target, streaming=flow.streaming)]
