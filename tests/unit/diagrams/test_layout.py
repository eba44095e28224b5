"""The layout of any acyclic picture: nothing overlaps, and everything flows from left to right."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.diagrams.layered import assign_layers
from framework.diagrams.layout import Box, Layout, lay_out
from framework.diagrams.picture import Edge, Node, NodeKind, Picture
from framework.views.graph import Label


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """Pictures of up to fourteen nodes; edges lead from earlier to later ones, some with labels."""
    count = draw(st.integers(1, 14))
    kinds = draw(st.lists(st.sampled_from(NodeKind), min_size=count, max_size=count))
    nodes = [Node(key=str(i), kind=kind, title=f"dataset_{i}" * (1 + i % 3)) for i, kind in enumerate(kinds)]
    pairs = [(a, b) for a, b in combinations(range(count), 2)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=24)) if pairs else []
    edges = [
        Edge(
            source=str(a),
            target=str(b),
            streaming=draw(st.booleans()),
            label=Label(name=draw(st.sampled_from(["", "a_flow"]))),
        )
        for a, b in chosen
    ]
    return Picture(title="any", nodes=tuple(nodes), edges=tuple(edges))


def every_box(layout: Layout) -> list[Box]:
    """The boxes of nodes and of labels."""
    return [box for _, box in (*layout.boxes, *layout.labels)]


@settings(max_examples=150, deadline=None)
@given(pictures())
def test_boxes_and_labels_never_overlap(picture: Picture) -> None:
    """No two boxes or labels overlap, and all are inside of the picture."""
    layout = lay_out(picture)
    for one, other in combinations(every_box(layout), 2):
        apart_across = one.right <= other.left or other.right <= one.left
        apart_down = one.top + one.height <= other.top + 1e-6 or other.top + other.height <= one.top + 1e-6
        assert apart_across or apart_down
    for box in every_box(layout):
        assert box.left >= 0
        assert box.top >= -1e-6
        assert box.right <= layout.width + 1e-6
        assert box.top + box.height <= layout.height + 1e-6


@settings(max_examples=150, deadline=None)
@given(pictures())
def test_edges_lead_from_left_to_right_between_their_boxes(picture: Picture) -> None:
    """Each edge is drawn once, from its source's right to its target's left, and never turns back."""
    layout = lay_out(picture)
    boxes = {node.key: box for node, box in layout.boxes}
    assert sorted(picture.edges, key=str) == sorted((edge for edge, _ in layout.lines), key=str)
    for edge, points in layout.lines:
        across = [x for x, _ in points]
        assert across == sorted(across)
        assert points[0] == (boxes[edge.source].right, boxes[edge.source].middle)
        assert points[-1] == (boxes[edge.target].left, boxes[edge.target].middle)


@settings(max_examples=100, deadline=None)
@given(pictures())
def test_each_label_is_drawn_once_between_its_ends(picture: Picture) -> None:
    """Every label with a text has exactly one box."""
    labels = [label for label, _ in lay_out(picture).labels]
    assert sorted(edge.label.text for edge in picture.edges if edge.label.text) == sorted(
        label.text for label in labels
    )


def test_a_cycle_is_drawn_without_the_edge_that_closes_it() -> None:
    """A picture with a cycle has a layout, too."""
    nodes = tuple(Node(key=key, kind=NodeKind.SINK, title=key) for key in "ab")
    edges = (Edge(source="a", target="b", streaming=False), Edge(source="b", target="a", streaming=False))
    layered = assign_layers(Picture(title="ring", nodes=nodes, edges=edges))
    assert len(layered.paths) == 1


def test_a_source_is_in_the_layer_before_its_target() -> None:
    """A table read only by the last dataset is drawn beside it, not at the far left."""
    nodes = tuple(Node(key=key, kind=NodeKind.SINK, title=key) for key in "abcx")
    pairs = (("a", "b"), ("b", "c"), ("x", "c"))
    edges = tuple(Edge(source=source, target=target, streaming=False) for source, target in pairs)
    layered = assign_layers(Picture(title="line", nodes=nodes, edges=edges))
    assert [{vertex.key for vertex in layer} for layer in layered.layers] == [{"a"}, {"b", "x"}, {"c"}]


def test_two_crossed_pairs_are_uncrossed() -> None:
    """The order within layers avoids a crossing."""
    nodes = tuple(Node(key=key, kind=NodeKind.SINK, title=key) for key in "abcd")
    edges = (Edge(source="a", target="d", streaming=False), Edge(source="b", target="c", streaming=False))
    boxes = {node.key: box for node, box in lay_out(Picture(title="x", nodes=nodes, edges=edges)).boxes}
    assert boxes["a"].middle == boxes["d"].middle
    assert boxes["b"].middle == boxes["c"].middle
