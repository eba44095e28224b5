"""The nodes and edges of the picture of a graph."""

from __future__ import annotations

from dataclasses import replace

from framework.diagrams.picture import Edge, NodeKind, picture_of
from framework.graph.graph import DataflowGraph
from framework.sources.port import SourceReference, SourceShape
from framework.views.graph import Label


def test_every_dataset_and_source_is_a_box_of_its_kind(flights_graph: DataflowGraph) -> None:
    """Each dataset is one box with kind and column count, and each external source is a box, too."""
    boxes = [(node.title, node.kind, node.note) for node in picture_of(flights_graph).nodes]
    expected = [
        ("ref.schedule", NodeKind.EXTERNAL, ""),
        ("stream", NodeKind.EXTERNAL, "not a table"),
        ("schedule", NodeKind.TEMPORARY_VIEW, "view · 9 columns"),
        ("events", NodeKind.TEMPORARY_VIEW, "view · 11 columns"),
        ("flights", NodeKind.STREAMING_TABLE, "streaming table · 19 columns"),
        ("delays", NodeKind.MATERIALIZED_VIEW, "materialized view · 1 column"),
        ("alerts", NodeKind.SINK, "sink"),
        ("alerting", NodeKind.FLOW, ""),
    ]
    assert expected == boxes


def test_flows_are_edges_with_their_names_and_marks(flights_graph: DataflowGraph) -> None:
    """The label of a named flow has its name, AUTO CDC and once; a dataset's own query has no label."""
    picture = picture_of(flights_graph)
    into_flights = [edge for edge in picture.edges if edge.target == "dataset main.flights.flights"]
    expected = [
        Edge(
            source="dataset main.flights.schedule",
            target="dataset main.flights.flights",
            streaming=False,
            label=Label(name="snapshot", marks=("AUTO CDC", "once")),
        ),
        Edge(
            source="dataset main.flights.events",
            target="dataset main.flights.flights",
            streaming=True,
            label=Label(name="changes", marks=("AUTO CDC",)),
        ),
    ]
    assert expected == into_flights
    own_query = [edge for edge in picture.edges if edge.target == "dataset main.flights.delays"]
    assert own_query == [
        Edge(source="dataset main.flights.flights", target="dataset main.flights.delays", streaming=False)
    ]


def test_a_read_through_a_view_is_drawn_at_the_view_only(flights_graph: DataflowGraph) -> None:
    """The graph lists what a flow reads through a view; the picture has it once, at the view."""
    picture = picture_of(flights_graph)
    from_outside = [edge.target for edge in picture.edges if edge.source == "external ref.`schedule`"]
    assert from_outside == ["dataset main.flights.schedule"]


def test_a_named_flow_of_several_reads_is_one_node(flights_graph: DataflowGraph) -> None:
    """A flow's name is drawn once, for any number of reads."""
    edges = [
        edge for edge in picture_of(flights_graph).edges if "flow main.flights.alerting" in (edge.source, edge.target)
    ]
    ends = [(edge.source, edge.target, edge.streaming) for edge in edges]
    expected = [
        ("dataset main.flights.events", "flow main.flights.alerting", True),
        ("dataset main.flights.flights", "flow main.flights.alerting", False),
        ("flow main.flights.alerting", "dataset main.flights.alerts", True),
    ]
    assert expected == ends


def test_a_folder_is_one_source_for_all_its_reads(flights_graph: DataflowGraph) -> None:
    """Two flows of one folder share its box, titled by the end of its path; behind a view it is the view's."""
    folder = "/lake/raw/events"
    source = SourceReference(kind="files", shape=SourceShape.FOLDER, location=folder)
    flows = tuple(replace(each, sources=(source,)) for each in flights_graph.flows[1:5])
    picture = picture_of(replace(flights_graph, flows=flows))
    boxes = [(node.title, node.note, node.full_name) for node in picture.nodes if node.key == f"folder {folder}"]
    assert boxes == [("raw/events", "files", folder)]
    readers = [edge.target for edge in picture.edges if edge.source == f"folder {folder}"]
    assert readers == [
        "dataset main.flights.events",
        "flow main.flights.snapshot",
        "dataset main.flights.delays",
    ]
