"""A graph as rows and as JSON."""

from __future__ import annotations

import json
from typing import Any

from framework.diagrams.picture import column_count, flow_label
from framework.diagrams.sources import sources_of
from framework.foundation.names import QualifiedName, ShortNames
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow


def dataset_rows(graph: DataflowGraph) -> list[dict[str, Any]]:
    """Return a row per dataset in the order of an update: its kind, named flows, reads and number of columns."""
    short = ShortNames.of(dataset.name for dataset in graph.datasets)
    datasets = [dataset for name in graph.order() if (dataset := graph.dataset(name)) is not None]
    return [_row(graph, dataset, short) for dataset in datasets]


def graph_json(graph: DataflowGraph) -> dict[str, Any]:
    """Return the graph as JSON values, with full names."""
    return {
        "pipeline": graph.pipeline,
        "datasets": [_dataset_json(dataset) for dataset in graph.datasets],
        "flows": [_flow_json(flow) for flow in graph.flows],
        "external": list(graph.external),
    }


def _row(graph: DataflowGraph, dataset: GraphDataset, short: ShortNames) -> dict[str, Any]:
    flows = graph.flows_into(dataset.name)
    labels = [label for flow in flows if (label := flow_label(flow, short).text)]
    reads = [source.title(short) for flow in flows for source in sources_of(graph, flow)]
    return {
        "dataset": short(dataset.name),
        "kind": dataset.kind.value.replace("_", " "),
        "flows": ", ".join(labels),
        "reads": ", ".join(dict.fromkeys(reads)),
        "columns": column_count(dataset) or "",
    }


def _dataset_json(dataset: GraphDataset) -> dict[str, Any]:
    return {
        "name": str(dataset.name),
        "kind": dataset.kind.value,
        "private": dataset.spec.private,
        "comment": dataset.spec.comment,
        "schema": None if dataset.schema is None else json.loads(dataset.schema),
        "expectations": [
            {"name": each.name, "condition": each.condition, "action": each.action.value}
            for each in dataset.spec.expectations
        ],
        "declared_at": _text(dataset.spec.location),
    }


def _flow_json(flow: GraphFlow) -> dict[str, Any]:
    return {
        "name": str(flow.spec.name),
        "target": str(flow.spec.target),
        "once": flow.spec.once,
        "streaming": flow.streaming,
        "auto_cdc": flow.spec.cdc is not None,
        "reads": [{"name": _text(read.dataset) or read.text, "streaming": read.streaming} for read in flow.reads],
        "declared_at": _text(flow.spec.location),
    }


def _text(value: QualifiedName | object | None) -> str | None:
    return None if value is None else str(value)
