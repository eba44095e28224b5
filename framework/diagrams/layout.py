"""The layout of a picture in pixels: a rectangle per node and label, a line per edge.

Texts are measured without a font, by the widths of a wide sans-serif font, so that a text fits into its box
with the viewer's font.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace

from framework.diagrams.layered import EdgePath, Layered, Vertex, assign_layers, order_layers, vertical_positions
from framework.diagrams.picture import Edge, Node, NodeKind, Picture
from framework.foundation.wording import printable
from framework.views.graph import Label

TITLE_SIZE = 13.0
NOTE_SIZE = 11.0
ICON_WIDTH = 30.0
BADGE_WIDTH = 22.0
LONGEST_TITLE = 44

_BOX_HEIGHT = 46.0
_LABEL_HEIGHT = 22.0
_LABEL_PADDING = 9.0
_POINT_HEIGHT = 6.0
_SIDE_PADDING = 14.0
_GAP_DOWN = 20.0
_GAP_ACROSS = 42.0
_LEAST_BOX = 100.0

# Widths of letters in thousandths of the font size.
_NARROW = "ijl|!'.,:;`I "
_SLIM = 'frt()[]{}-/\\"*'
_WIDE = "mwMW@%—"
_WIDTHS = {**dict.fromkeys(_NARROW, 330), **dict.fromkeys(_SLIM, 430), **dict.fromkeys(_WIDE, 960)}
_CAPITAL = 720
_LETTER = 628
_FULL_WIDTH = 1_050


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle: its left edge, its vertical middle, its width and height."""

    left: float
    middle: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.middle - self.height / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A picture with the positions of nodes and labels, and the points of each edge."""

    width: float
    height: float
    boxes: tuple[tuple[Node, Box], ...]
    labels: tuple[tuple[Label, Box], ...]
    lines: tuple[tuple[Edge, tuple[tuple[float, float], ...]], ...]


def lay_out(picture: Picture) -> Layout:
    """Compute the positions of nodes, labels and edges; the layout is deterministic."""
    nodes = {node.key: node for node in picture.nodes}
    layered = order_layers(assign_layers(picture))
    vertices = [vertex for layer in layered.layers for vertex in layer]
    heights = {vertex.key: _height(vertex, nodes) for vertex in vertices}
    columns = _columns(layered, nodes, heights)
    boxes = {vertex.key: _narrowed(columns[vertex.key], vertex, nodes) for vertex in vertices}
    return Layout(
        width=max((box.right for box in columns.values()), default=0.0),
        height=max((box.top + box.height for box in columns.values()), default=0.0),
        boxes=tuple((nodes[vertex.key], boxes[vertex.key]) for vertex in vertices if not vertex.is_dummy),
        labels=tuple((vertex.label, boxes[vertex.key]) for vertex in vertices if vertex.label.text),
        lines=tuple((path.edge, _line(path, columns, boxes)) for path in layered.paths),
    )


def _height(vertex: Vertex, nodes: Mapping[str, Node]) -> float:
    if not vertex.is_dummy:
        return _LABEL_HEIGHT if nodes[vertex.key].kind is NodeKind.FLOW else _BOX_HEIGHT
    return _LABEL_HEIGHT if vertex.label.text else _POINT_HEIGHT


def _width(vertex: Vertex, nodes: Mapping[str, Node]) -> float:
    if vertex.is_dummy:
        return _pill_width(vertex.label.text) if vertex.label.text else 0.0
    node = nodes[vertex.key]
    if node.kind is NodeKind.FLOW:
        return _pill_width(node.title)
    title = shorten(node.title, LONGEST_TITLE)
    needed = max(text_width(title, TITLE_SIZE) * 1.04, text_width(node.note, NOTE_SIZE))
    badge = BADGE_WIDTH if node.outcome is not None else 0.0
    return max(_LEAST_BOX, needed + ICON_WIDTH + _SIDE_PADDING + badge)


def _pill_width(text: str) -> float:
    return text_width(shorten(text, LONGEST_TITLE), NOTE_SIZE) + 2 * _LABEL_PADDING


def _columns(layered: Layered, nodes: Mapping[str, Node], heights: Mapping[str, float]) -> dict[str, Box]:
    """Return a box with the width of its layer for every vertex, so that long edges are horizontal beside boxes."""
    middles = vertical_positions(layered, heights, _GAP_DOWN)
    columns: dict[str, Box] = {}
    left = 0.0
    for layer in layered.layers:
        width = max((_width(vertex, nodes) for vertex in layer), default=0.0)
        for vertex in layer:
            columns[vertex.key] = Box(left=left, middle=middles[vertex.key], width=width, height=heights[vertex.key])
        left += width + _GAP_ACROSS
    return columns


def _narrowed(column: Box, vertex: Vertex, nodes: Mapping[str, Node]) -> Box:
    """Return the column's box for a dataset; labels and flows keep their own width and are centred."""
    if not vertex.is_dummy and nodes[vertex.key].kind is not NodeKind.FLOW:
        return column
    width = _width(vertex, nodes)
    return replace(column, left=column.left + (column.width - width) / 2, width=width)


def _line(path: EdgePath, columns: Mapping[str, Box], boxes: Mapping[str, Box]) -> tuple[tuple[float, float], ...]:
    """Return the points of an edge: horizontal through each layer, from the source's right to the target's left."""
    middle = columns[path.edge.source].middle
    points = [(boxes[path.edge.source].right, middle), (columns[path.edge.source].right, middle)]
    for key in path.dummies:
        points += [(columns[key].left, columns[key].middle), (columns[key].right, columns[key].middle)]
    middle = columns[path.edge.target].middle
    points += [(columns[path.edge.target].left, middle), (boxes[path.edge.target].left, middle)]
    return tuple(dict.fromkeys(points))


def text_width(text: str, size: float) -> float:
    """Return the width of a text at a font size, in the unit of the size."""
    return sum(_letter_width(letter) for letter in text) * size / 1_000


def shorten(text: str, limit: int) -> str:
    """Return the text with escapes, and its middle replaced by an ellipsis if it has more than `limit` characters.

    Examples:
        >>> shorten("a_rather_long_name", 9)
        'a_ra…name'
    """
    text = printable(text)  # here, so that the box of an escape is as wide as the escape
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[-tail:]}"


def _letter_width(letter: str) -> int:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.east_asian_width(letter) in "WF":
        return _FULL_WIDTH
    return _CAPITAL if letter.isupper() else _LETTER
