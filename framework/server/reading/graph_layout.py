"""The stored graph of a pipeline with its layout, as the page draws it."""

from __future__ import annotations

from typing import Any

from framework.diagrams.layout import Box, lay_out
from framework.diagrams.picture import Edge, Node, Picture, dataset_key, picture_of
from framework.diagrams.svg import edge_path
from framework.graph.graph import DataflowGraph
from framework.server.pipelines import PipelineEntry
from framework.views.graph import graph_json, sources_of
from framework.views.stored_graph import stored_graph


class GraphLayouts:
    """Layouts of stored graphs; the layout of a graph is computed once, as long as its file stays the same."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[DataflowGraph, dict[str, Any]]] = {}

    def of(self, entry: PipelineEntry) -> dict[str, Any]:
        """Return `graph` and `layout` of a pipeline as JSON values.

        Raises:
            UserError: GRAPH_NOT_STORED.
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
        """
        graph = stored_graph(entry.storage, entry.name)
        kept = self._kept.get(entry.pipeline_id)
        if kept is None or kept[0] != graph:
            kept = self._kept[entry.pipeline_id] = (graph, _content(graph))
        return kept[1]


def _content(graph: DataflowGraph) -> dict[str, Any]:
    picture = picture_of(graph)
    layout = lay_out(picture)
    ids = {node.key: _id(node) for node in picture.nodes}
    flows = _flows(graph, picture)
    return {
        "graph": graph_json(graph),
        "layout": {
            "width": round(layout.width, 1),
            "height": round(layout.height, 1),
            "nodes": [_node(node, box) for node, box in layout.boxes],
            "edges": [
                {
                    "from": ids[edge.source],
                    "to": ids[edge.target],
                    "kind": "stream" if edge.streaming else "batch",
                    "path": edge_path(points),
                    "label": edge.label.text,
                    "flow": flows.get((edge.source, edge.target)),
                }
                for edge, points in layout.lines
            ],
        },
    }


def _node(node: Node, box: Box) -> dict[str, Any]:
    parts = node.full_name.split(".")
    return {
        "id": _id(node), "kind": node.kind.value, "title": node.title, "note": node.note,
        "x": round(box.left, 1), "y": round(box.middle - box.height / 2, 1),
        "w": round(box.width, 1), "h": round(box.height, 1),
        "group": ".".join(parts[:2]) if len(parts) == 3 and node.key.startswith("dataset ") else node.kind.value,
    }  # fmt: skip


def _id(node: Node) -> str:
    return node.full_name if node.key.startswith("dataset ") else node.key


def _flows(graph: DataflowGraph, picture: Picture) -> dict[tuple[str, str], str]:
    """Return the flow of each edge that belongs to one flow only."""
    found: dict[tuple[str, str], list[str]] = {}
    for flow in graph.flows:
        name, target = str(flow.spec.name), dataset_key(flow.spec.target)
        node = f"flow {name}"
        for source in sources_of(graph, flow):
            found.setdefault((source.key, target), []).append(name)
            found.setdefault((source.key, node), []).append(name)
        found.setdefault((node, target), []).append(name)
    edges: set[tuple[str, str]] = {_ends(edge) for edge in picture.edges}
    return {ends: names[0] for ends, names in found.items() if len(names) == 1 and ends in edges}


def _ends(edge: Edge) -> tuple[str, str]:
    return edge.source, edge.target
