"""The stored graph of a pipeline, compared with the graph of its last resolution."""

from __future__ import annotations

from dataclasses import replace

from framework import Pipeline
from framework.diagrams.page import graph_page
from framework.graph.graph import DataflowGraph
from framework.graph.stored_graph import shown
from framework.views.graph import graph_json
from framework.views.stored_graph import stored_graph


def without_faults(graph: DataflowGraph) -> DataflowGraph:
    """A graph whose faults, which are compared as texts, are left out."""
    return replace(graph, datasets=tuple(replace(each, fault=None) for each in graph.datasets))


def check_stored(pipeline: Pipeline) -> None:
    """Assert that the stored graph of a pipeline is that of its last resolution: its values, its JSON and its page."""
    found, graph = stored_graph(pipeline.storage, pipeline.name), pipeline.graph
    assert without_faults(shown(graph)) == without_faults(found)
    assert [each.render() for each in graph.faults] == [each.render() for each in found.faults]
    assert graph_json(graph) == graph_json(found)
    assert graph_page(graph) == graph_page(found)
