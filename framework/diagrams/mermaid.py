"""The picture of a dataflow as a Mermaid flowchart, which many hosts render in Markdown pages."""

from __future__ import annotations

from framework.diagrams.picture import Edge, Node, NodeKind, Picture
from framework.diagrams.theme import BATCH_LINE, FLOW_LINE, LIGHT, css_class
from framework.foundation.wording import printable

_SHAPES = {
    NodeKind.STREAMING_TABLE: ("[(", ")]"),
    NodeKind.MATERIALIZED_VIEW: ("[", "]"),
    NodeKind.TEMPORARY_VIEW: ("([", "])"),
    NodeKind.SINK: ("[/", "/]"),
    NodeKind.EXTERNAL: ("[", "]"),
    NodeKind.FLOW: ("([", "])"),
}


def mermaid(picture: Picture) -> str:
    """Return the picture as Mermaid text, from left to right; ids are generated, so names may have any letters."""
    ids = {node.key: f"n{number}" for number, node in enumerate(picture.nodes)}
    lines = ["flowchart LR"]
    lines += [f"  {ids[node.key]}{_node(node)}:::{css_class(node.kind)}" for node in picture.nodes]
    lines += [f"  {ids[edge.source]} -->{_label(edge)} {ids[edge.target]}" for edge in picture.edges]
    present = sorted({node.kind for node in picture.nodes}, key=list(NodeKind).index)
    lines += [f"  classDef {css_class(kind)} {_style(kind)}" for kind in present]
    lines += _link_styles(picture)
    return "\n".join(lines) + "\n"


def _node(node: Node) -> str:
    begin, end = _SHAPES[node.kind]
    note = f"<br><small>{_escaped(node.note)}</small>" if node.note else ""
    return f'{begin}"{_escaped(node.title)}{note}"{end}'


def _label(edge: Edge) -> str:
    return f'|"{_escaped(edge.label.text)}"|' if edge.label.text else ""


def _style(kind: NodeKind) -> str:
    tone = LIGHT[kind]
    dashes = ",stroke-dasharray:5 3" if kind is NodeKind.EXTERNAL else ""
    return f"fill:{tone.fill},stroke:{tone.border},color:{tone.text}{dashes}"


def _link_styles(picture: Picture) -> list[str]:
    """Return one line per colour, with the numbers of its edges."""
    lines = []
    for streaming, colour in ((True, FLOW_LINE), (False, BATCH_LINE)):
        numbers = [str(number) for number, edge in enumerate(picture.edges) if edge.streaming == streaming]
        if numbers:
            lines.append(f"  linkStyle {','.join(numbers)} stroke:{colour}")
    return lines


def _escaped(text: str) -> str:
    """Return the text with character codes for all characters that may be syntax in Mermaid or HTML."""
    return "".join(
        letter if letter.isalnum() or letter in "_-. ·,…" else f"#{ord(letter)};" for letter in printable(text)
    )
