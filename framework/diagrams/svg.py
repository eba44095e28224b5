"""The picture of a dataflow as SVG: self-contained, without scripts, readable in light and dark themes."""

from __future__ import annotations

from framework.diagrams.escaping import escape
from framework.diagrams.layout import BADGE_WIDTH, ICON_WIDTH, LONGEST_TITLE, Box, lay_out, shorten, text_width
from framework.diagrams.picture import Edge, Node, NodeKind, Outcome, Picture
from framework.diagrams.theme import BADGES, BATCH_LINE, FLOW_LINE, ICONS, css_class, svg_style
from framework.views.graph import Label

_MARGIN = 12.0
_LEGEND_HEIGHT = 34.0
_LEGEND_SIZE = 11.0


def svg(picture: Picture) -> str:
    """Return the picture as one `<svg>` element; its size depends on its content."""
    layout = lay_out(picture)
    legend, legend_width = _legend(picture, layout.height + _LEGEND_HEIGHT)
    width = max(layout.width, legend_width) + 2 * _MARGIN
    height = layout.height + _LEGEND_HEIGHT + 2 * _MARGIN
    flows = {node.key for node in picture.nodes if node.kind is NodeKind.FLOW}
    size = f'width="{width:.0f}" height="{height:.0f}"'
    view = f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sluice-graph" role="img" {size} {view}>',
        f"<title>Dataflow of {escape(picture.title)}</title>",
        f"<style>{svg_style()}</style>",
        f"<defs>{_arrow('stream', FLOW_LINE)}{_arrow('batch', BATCH_LINE)}</defs>",
        *(_edge(edge, points, pointed=edge.target not in flows) for edge, points in layout.lines),
        *(_label(label, box) for label, box in layout.labels),
        *(_node(node, box) for node, box in layout.boxes),
        legend,
        "</svg>",
    ]
    return "\n".join(parts)


def _arrow(name: str, colour: str) -> str:
    return (
        f'<marker id="sluice-{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6.5" markerHeight="6.5" '
        f'orient="auto"><path d="M0 .6L8 4L0 7.4z" fill="{colour}"/></marker>'
    )


def _edge(edge: Edge, points: tuple[tuple[float, float], ...], *, pointed: bool) -> str:
    kind = "stream" if edge.streaming else "batch"
    arrow = f' marker-end="url(#sluice-{kind})"' if pointed else ""
    return f'<path class="edge {kind}" d="{edge_path(points)}"{arrow}/>'


def edge_path(points: tuple[tuple[float, float], ...]) -> str:
    """Return the path of an edge: horizontal through labels and beside boxes, with curves between them."""
    (x, y), *rest = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        if y == to_y:
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            half = (x + to_x) / 2
            path.append(f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(path)


def _label(label: Label, box: Box) -> str:
    return _pill(shorten(label.text, LONGEST_TITLE), label.text, box)


def _pill(text: str, full: str, box: Box) -> str:
    across, down = box.left + box.width / 2, box.middle + 3.8
    return (
        f'<g class="label {css_class(NodeKind.FLOW)}"><title>{escape(full)}</title>{_rectangle(box, box.height / 2)}'
        f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="middle">{escape(text)}</text></g>'
    )


def _rectangle(box: Box, radius: float) -> str:
    geometry = f'x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
    return f'<rect {geometry} rx="{radius:.0f}"/>'


def _node(node: Node, box: Box) -> str:
    title = shorten(node.title, LONGEST_TITLE)
    if node.kind is NodeKind.FLOW:
        return _pill(title, node.full_name, box)
    left = box.left + ICON_WIDTH
    first = box.middle - 3 if node.note else box.middle + 4.5
    note = (
        f'<text class="note" x="{left:.1f}" y="{box.middle + 13:.1f}">{escape(node.note)}</text>' if node.note else ""
    )
    return (
        f'<g class="node {css_class(node.kind)}"><title>{escape(node.full_name)}</title>{_rectangle(box, 7)}'
        f"{_icon(node.kind, box.left + 9, box.middle - 7)}"
        f'<text class="title" x="{left:.1f}" y="{first:.1f}">{escape(title)}</text>{note}'
        f"{_badge(node.outcome, box)}</g>"
    )


def _icon(kind: NodeKind, left: float, top: float) -> str:
    return f'<path class="icon" transform="translate({left:.1f} {top:.1f})" d="{ICONS[kind]}"/>'


def _badge(outcome: Outcome | None, box: Box) -> str:
    if outcome is None:
        return ""
    position = f"translate({box.right - BADGE_WIDTH + 5:.1f} {box.middle:.1f})"
    return f'<g class="badge {outcome}" transform="{position}"><circle r="8"/><path d="{BADGES[outcome]}"/></g>'


def _legend(picture: Picture, middle: float) -> tuple[str, float]:
    """Return the legend and its width: one entry per kind of node and of edge in the picture."""
    parts: list[str] = []
    left = 0.0
    present = {node.kind for node in picture.nodes} - {NodeKind.FLOW}
    for kind in NodeKind:
        if kind in present:
            icon = f'<g class="{css_class(kind)}">{_icon(kind, left, middle - 7)}</g>'
            parts.append(f'{icon}<text x="{left + 19:.1f}" y="{middle + 4:.1f}">{kind.value}</text>')
            left += 19 + text_width(kind.value, _LEGEND_SIZE) + 18
    for line, word in (("stream", "streaming read"), ("batch", "batch read")):
        if any(edge.streaming == (line == "stream") for edge in picture.edges):
            parts.append(
                f'<path class="edge {line}" d="M{left:.1f} {middle:.1f}h24" marker-end="url(#sluice-{line})"/>'
                f'<text x="{left + 31:.1f}" y="{middle + 4:.1f}">{word}</text>'
            )
            left += 31 + text_width(word, _LEGEND_SIZE) + 18
    return f'<g class="legend">{"".join(parts)}</g>', left
