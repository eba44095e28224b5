"""The picture of a dataflow, independent of its output format: nodes, and edges with labels.

A flow is an edge from its source to its target. A labelled flow with several sources, or without one, is a
small node of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from framework.declare.specs import DatasetKind
from framework.diagrams.sources import Source, sources_of
from framework.foundation.names import QualifiedName, ShortNames
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow


class NodeKind(StrEnum):
    """The kind of a node; the value is the text in the legend."""

    STREAMING_TABLE = "streaming table"
    MATERIALIZED_VIEW = "materialized view"
    TEMPORARY_VIEW = "view"
    SINK = "sink"
    EXTERNAL = "outside the pipeline"
    FLOW = "flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of a flow: its name if that is not the target's, and its marks."""

    name: str = ""
    marks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Name and marks on one line; empty if there are none."""
        return " · ".join(part for part in (self.name, *self.marks) if part)


NO_LABEL = Label()


class Outcome(StrEnum):
    """The outcome of the last update of a dataset, for the badge on its box."""

    GOOD = "good"
    BAD = "bad"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box: `title` is its short name, `note` a second line, `full_name` its tooltip."""

    key: str
    kind: NodeKind
    title: str
    note: str = ""
    full_name: str = ""
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge from one node's key to another's."""

    source: str
    target: str
    streaming: bool
    label: Label = NO_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A dataflow to draw; keys are unique, and edges connect keys of its nodes."""

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
    """The picture of a graph: a box per dataset and per external source, an edge per source of a flow."""
    short = ShortNames.of(dataset.name for dataset in graph.datasets)
    outside: dict[str, Node] = {}
    flows: list[Node] = []
    edges: list[Edge] = []
    for flow in graph.flows:
        sources = [source for source in sources_of(graph, flow) if source.dataset != flow.spec.target]
        outside |= {source.key: _external_node(source, short) for source in sources if source.dataset is None}
        nodes, more = _draw_flow(flow, sources, short)
        flows += nodes
        edges += more
    datasets = [_dataset_node(dataset, short) for dataset in graph.datasets]
    return Picture(title=graph.pipeline, nodes=(*outside.values(), *datasets, *flows), edges=tuple(edges))


def flow_label(flow: GraphFlow, short: ShortNames) -> Label:
    """The label of a flow; the flow of a dataset's own query has no name in it."""
    marks = []
    if flow.spec.cdc is not None:
        marks.append("AUTO CDC" if flow.spec.cdc.scd_type == 1 else f"AUTO CDC, SCD {flow.spec.cdc.scd_type}")
    if flow.spec.once:
        marks.append("once")
    name = "" if flow.spec.name == flow.spec.target else short(flow.spec.name)
    return Label(name=name, marks=tuple(marks))


def column_count(dataset: GraphDataset) -> int | None:
    """The number of columns of a dataset; None if it has no schema, as for sinks."""
    if dataset.schema is None:
        return None
    return len(json.loads(dataset.schema).get("fields", ()))


def dataset_key(name: QualifiedName) -> str:
    """The key of a dataset's node."""
    return f"dataset {name}"


def _external_node(source: Source, short: ShortNames) -> Node:
    title = source.title(short)
    return Node(key=source.key, kind=NodeKind.EXTERNAL, title=title, note=source.note, full_name=source.full_name)


def _dataset_node(dataset: GraphDataset, short: ShortNames) -> Node:
    kind = _KINDS[dataset.kind]
    count = column_count(dataset)
    parts = ["private " if dataset.spec.private and dataset.is_table else "", kind.value]
    parts += [f" · {count} column{'' if count == 1 else 's'}"] if count is not None else []
    return Node(
        key=dataset_key(dataset.name),
        kind=kind,
        title=short(dataset.name),
        note="".join(parts),
        full_name=str(dataset.name),
    )


def _draw_flow(flow: GraphFlow, sources: Sequence[Source], short: ShortNames) -> tuple[list[Node], list[Edge]]:
    """The edges of one flow, and its node if it has a label and not exactly one source."""
    label = flow_label(flow, short)
    target = dataset_key(flow.spec.target)
    if not label.text or len(sources) == 1:
        return [], [Edge(source=each.key, target=target, streaming=each.streaming, label=label) for each in sources]
    node = Node(key=f"flow {flow.spec.name}", kind=NodeKind.FLOW, title=label.text, full_name=str(flow.spec.name))
    edges = [Edge(source=each.key, target=node.key, streaming=each.streaming) for each in sources]
    return [node], [*edges, Edge(source=node.key, target=target, streaming=flow.streaming)]
