"""The picture of a dataflow, independent of its output format: nodes, and edges with labels.

A flow is an edge from its source to its target. A labelled flow with several sources, or without one, is a
small node of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from framework.declare.specs import DatasetKind
from framework.foundation.names import QualifiedName, ShortNames
from framework.foundation.wording import counted, rows_text
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.run.update.results import FlowResult, FlowState
from framework.views.flow_board import FlowProgress, qualified
from framework.views.graph import NO_LABEL, Label, Source, column_count, flow_label, sources_of


class NodeKind(StrEnum):
    """The kind of a node; the value is the text in the legend."""

    STREAMING_TABLE = "streaming table"
    MATERIALIZED_VIEW = "materialized view"
    TEMPORARY_VIEW = "view"
    SINK = "sink"
    EXTERNAL = "external"
    FLOW = "flow"


class Outcome(StrEnum):
    """The outcome of the last update of a dataset, for the badge on its box."""

    GOOD = "good"
    BAD = "bad"
    UNCHANGED = "unchanged"
    RUNNING = "running"


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

# By precedence: a dataset with several flows has the first of these states that one of them has.
_STATE_TEXTS = {
    FlowState.FAILED: "failed",
    FlowState.SKIPPED: "skipped",
    FlowState.STOPPED: "stopped",
    FlowState.RUNNING: "running",
    FlowState.STARTING: "starting",
    FlowState.QUEUED: "queued",
    FlowState.COMPLETED: "completed",
    FlowState.IDLE: "nothing new",
    FlowState.EXCLUDED: "not selected",
}
_OUTCOMES = {
    FlowState.FAILED: Outcome.BAD,
    FlowState.SKIPPED: Outcome.BAD,
    FlowState.STOPPED: Outcome.BAD,
    FlowState.RUNNING: Outcome.RUNNING,
    FlowState.STARTING: Outcome.RUNNING,
    FlowState.QUEUED: None,
    FlowState.COMPLETED: Outcome.GOOD,
    FlowState.IDLE: Outcome.UNCHANGED,
    FlowState.EXCLUDED: Outcome.UNCHANGED,
}


def picture_of(graph: DataflowGraph) -> Picture:
    """Return the picture of a graph: a box per dataset and per external source, an edge per source of a flow."""
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


def outcome_picture(graph: DataflowGraph, flows: Sequence[FlowResult]) -> Picture:
    """Return the picture of a graph with a badge and a note on the datasets that the flows write to."""
    picture = picture_of(graph)
    by_key: dict[str, list[FlowResult]] = {}
    for flow in flows:
        by_key.setdefault(dataset_key(flow.dataset), []).append(flow)
    nodes = []
    for node in picture.nodes:
        state = _state(by_key.get(node.key, ()))
        if state is not None:
            node = replace(node, outcome=_OUTCOMES[state], note=_outcome_note(state, by_key[node.key]))  # noqa: PLW2901 - the same node
        nodes.append(node)
    return replace(picture, nodes=tuple(nodes))


def board_picture(graph: DataflowGraph, flows: Sequence[FlowProgress]) -> Picture:
    """Return the picture of a graph with a badge and a note on the datasets of a running update's flows."""
    return outcome_picture(graph, [result for flow in flows if (result := _result_of(flow)) is not None])


def _result_of(flow: FlowProgress) -> FlowResult | None:
    """Return a flow's progress as a result so far; None for a flow that no graph has."""
    name, dataset = qualified(flow.flow), qualified(flow.dataset)
    if name is None or dataset is None:
        return None
    return FlowResult(
        flow=name,
        dataset=dataset,
        state=FlowState.FAILED if flow.state == "DEGRADED" else FlowState(flow.state),
        reason=flow.reason,
        rows_written=flow.written,
        rows_upserted=flow.upserted,
        rows_deleted=flow.deleted,
    )


def dataset_key(name: QualifiedName) -> str:
    """Return the key of a dataset's node."""
    return f"dataset {name}"


def _external_node(source: Source, short: ShortNames) -> Node:
    title = source.title(short)
    return Node(key=source.key, kind=NodeKind.EXTERNAL, title=title, note=source.note, full_name=source.full_name)


def _dataset_node(dataset: GraphDataset, short: ShortNames) -> Node:
    kind = _KINDS[dataset.kind]
    count = column_count(dataset)
    parts = ["private " if dataset.spec.private and dataset.is_table else "", kind.value]
    parts += [f" · {counted(count, 'column')}"] if count is not None else []
    return Node(
        key=dataset_key(dataset.name),
        kind=kind,
        title=short(dataset.name),
        note="".join(parts),
        full_name=str(dataset.name),
    )


def _draw_flow(flow: GraphFlow, sources: Sequence[Source], short: ShortNames) -> tuple[list[Node], list[Edge]]:
    """Return the edges of one flow, and its node if it has a label and not exactly one source."""
    label = flow_label(flow, short)
    target = dataset_key(flow.spec.target)
    if not label.text or len(sources) == 1:
        return [], [Edge(source=each.key, target=target, streaming=each.streaming, label=label) for each in sources]
    node = Node(key=f"flow {flow.spec.name}", kind=NodeKind.FLOW, title=label.text, full_name=str(flow.spec.name))
    edges = [Edge(source=each.key, target=node.key, streaming=each.streaming) for each in sources]
    return [node], [*edges, Edge(source=node.key, target=target, streaming=flow.streaming)]


def _state(flows: Sequence[FlowResult]) -> FlowState | None:
    states = {flow.state for flow in flows}
    return next((state for state in _STATE_TEXTS if state in states), None)


def _outcome_note(state: FlowState, flows: Sequence[FlowResult]) -> str:
    """Return the state, and the number of rows that the flows have written if they completed or run."""
    if state not in {FlowState.COMPLETED, FlowState.RUNNING}:
        return _STATE_TEXTS[state]
    counted = [flow.rows_written for flow in flows if flow.rows_written is not None]
    upserted, deleted = sum(flow.rows_upserted for flow in flows), sum(flow.rows_deleted for flow in flows)
    text = rows_text(sum(counted) if counted else None, upserted, deleted)
    unit = "" if upserted or deleted else " row" if text == "1" else " rows"
    return f"{_STATE_TEXTS[state]} · {text}{unit}" if text else _STATE_TEXTS[state]
