"""The renderings of a small dataflow as text: Mermaid, DOT, SVG and HTML."""

from __future__ import annotations

from collections.abc import Callable

from framework.diagrams.dot import dot
from framework.diagrams.mermaid import mermaid
from framework.diagrams.picture import Edge, Node, NodeKind, Picture
from framework.views.graph import Label

PICTURE = Picture(
    title="orders",
    nodes=(
        Node(key="external raw.orders", kind=NodeKind.EXTERNAL, title="raw.orders", full_name="raw.orders"),
        Node(
            key="dataset main.shop.orders",
            kind=NodeKind.STREAMING_TABLE,
            title="orders",
            note="streaming table · 4 columns",
            full_name="main.shop.orders",
        ),
        Node(
            key="dataset main.shop.by_day",
            kind=NodeKind.MATERIALIZED_VIEW,
            title="by_day",
            note="materialized view · 2 columns",
            full_name="main.shop.by_day",
        ),
        Node(key="dataset main.shop.feed", kind=NodeKind.SINK, title="feed", note="sink", full_name="main.shop.feed"),
    ),
    edges=(
        Edge(
            source="external raw.orders",
            target="dataset main.shop.orders",
            streaming=True,
            label=Label(name="changes", marks=("AUTO CDC", "once")),
        ),
        Edge(source="dataset main.shop.orders", target="dataset main.shop.by_day", streaming=False),
        Edge(
            source="dataset main.shop.orders", target="dataset main.shop.feed", streaming=True, label=Label(name="out")
        ),
    ),
)


def test_mermaid_text(golden: Callable[[str, str], None]) -> None:
    """Mermaid: a node per box, a labelled arrow per flow, a class per kind."""
    golden("graph.mmd", mermaid(PICTURE))


def test_dot_text(golden: Callable[[str, str], None]) -> None:
    """Graphviz: a node per box, a labelled arrow per flow."""
    golden("graph.dot", dot(PICTURE))
