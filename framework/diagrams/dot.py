"""The picture of a dataflow in Graphviz' DOT language."""

from __future__ import annotations

from framework.diagrams.picture import Edge, Node, NodeKind, Picture
from framework.diagrams.theme import BATCH_LINE, FLOW_LINE, LIGHT, ON_PAGE
from framework.foundation.wording import printable_lines

_SHAPES = {
    NodeKind.STREAMING_TABLE: "cylinder",
    NodeKind.MATERIALIZED_VIEW: "box",
    NodeKind.TEMPORARY_VIEW: "box",
    NodeKind.SINK: "cds",
    NodeKind.EXTERNAL: "box",
    NodeKind.FLOW: "box",
}


def dot(picture: Picture) -> str:
    """Return the picture as a digraph, from left to right; node ids are the full names."""
    lines = [
        f"digraph {_quoted(picture.title)} {{",
        '  graph [rankdir=LR, bgcolor="transparent", nodesep=0.3, ranksep=0.6];',
        '  node [fontname="Helvetica", fontsize=11, margin="0.15,0.08"];',
        f'  edge [fontname="Helvetica", fontsize=9, arrowsize=0.7, fontcolor="{ON_PAGE}"];',
        *(f"  {_quoted(node.key)} [{_node(node)}];" for node in picture.nodes),
        *(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{_edge(edge)}];" for edge in picture.edges),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _node(node: Node) -> str:
    tone = LIGHT[node.kind]
    styles = "filled,rounded" if _SHAPES[node.kind] == "box" else "filled"
    styles += ",dashed" if node.kind is NodeKind.EXTERNAL else ""
    label = _quoted(f"{node.title}\n{node.note}" if node.note else node.title)
    colours = f'fillcolor="{tone.fill}", color="{tone.border}", fontcolor="{tone.text}"'
    return f'label={label}, tooltip={_quoted(node.full_name)}, shape={_SHAPES[node.kind]}, style="{styles}", {colours}'


def _edge(edge: Edge) -> str:
    label = f"label={_quoted(edge.label.text)}, " if edge.label.text else ""
    return f'{label}color="{FLOW_LINE if edge.streaming else BATCH_LINE}"'


def _quoted(text: str) -> str:
    """Return a quoted string; backslashes are doubled, because Graphviz interprets backslash escapes in labels."""
    escaped = printable_lines(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
