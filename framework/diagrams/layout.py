"""The layout of a picture in pixels: a rectangle per node and label, a line per edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from framework.diagrams.layers import Chain, Layered, Place, assign_layers
from framework.diagrams.ordering import order_layers
from framework.diagrams.picture import Edge, Label, Node, NodeKind, Picture
from framework.diagrams.placement import place_heights
from framework.diagrams.text_width import shorten, text_width

TITLE_SIZE = 13.0
NOTE_SIZE = 11.0
ICON_ROOM = 30.0
BADGE_ROOM = 22.0
LONGEST = 44

_BOX_HEIGHT = 46.0
_LABEL_HEIGHT = 22.0
_LABEL_PADDING = 9.0
_POINT_HEIGHT = 6.0
_SIDE_PADDING = 14.0
_GAP_DOWN = 20.0
_GAP_ACROSS = 42.0
_LEAST_BOX = 100.0


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
    places = [place for layer in layered.layers for place in layer]
    heights = {place.key: _height(place, nodes) for place in places}
    columns = _columns(layered, nodes, heights)
    boxes = {place.key: _narrowed(columns[place.key], place, nodes) for place in places}
    return Layout(
        width=max((box.right for box in columns.values()), default=0.0),
        height=max((box.top + box.height for box in columns.values()), default=0.0),
        boxes=tuple((nodes[place.key], boxes[place.key]) for place in places if not place.point),
        labels=tuple((place.label, boxes[place.key]) for place in places if place.label.text),
        lines=tuple((chain.edge, _line(chain, columns, boxes)) for chain in layered.chains),
    )


def _height(place: Place, nodes: Mapping[str, Node]) -> float:
    if not place.point:
        return _LABEL_HEIGHT if nodes[place.key].kind is NodeKind.FLOW else _BOX_HEIGHT
    return _LABEL_HEIGHT if place.label.text else _POINT_HEIGHT


def _width(place: Place, nodes: Mapping[str, Node]) -> float:
    if place.point:
        return _pill_width(place.label.text) if place.label.text else 0.0
    node = nodes[place.key]
    if node.kind is NodeKind.FLOW:
        return _pill_width(node.title)
    title = shorten(node.title, LONGEST)
    needed = max(text_width(title, TITLE_SIZE) * 1.04, text_width(node.note, NOTE_SIZE))
    badge = BADGE_ROOM if node.outcome is not None else 0.0
    return max(_LEAST_BOX, needed + ICON_ROOM + _SIDE_PADDING + badge)


def _pill_width(text: str) -> float:
    return text_width(shorten(text, LONGEST), NOTE_SIZE) + 2 * _LABEL_PADDING


def _columns(layered: Layered, nodes: Mapping[str, Node], heights: Mapping[str, float]) -> dict[str, Box]:
    """A box with the width of its layer for every place, so that long edges are horizontal beside boxes."""
    middles = place_heights(layered, heights, _GAP_DOWN)
    columns: dict[str, Box] = {}
    left = 0.0
    for layer in layered.layers:
        width = max((_width(place, nodes) for place in layer), default=0.0)
        for place in layer:
            columns[place.key] = Box(left=left, middle=middles[place.key], width=width, height=heights[place.key])
        left += width + _GAP_ACROSS
    return columns


def _narrowed(column: Box, place: Place, nodes: Mapping[str, Node]) -> Box:
    """The column's box for a dataset; labels and flows keep their own width and are centred."""
    if not place.point and nodes[place.key].kind is not NodeKind.FLOW:
        return column
    width = _width(place, nodes)
    return replace(column, left=column.left + (column.width - width) / 2, width=width)


def _line(chain: Chain, columns: Mapping[str, Box], boxes: Mapping[str, Box]) -> tuple[tuple[float, float], ...]:
    """The points of an edge: horizontal through each layer, from the source's right to the target's left."""
    middle = columns[chain.edge.source].middle
    points = [(boxes[chain.edge.source].right, middle), (columns[chain.edge.source].right, middle)]
    for key in chain.points:
        points += [(columns[key].left, columns[key].middle), (columns[key].right, columns[key].middle)]
    middle = columns[chain.edge.target].middle
    points += [(columns[chain.edge.target].left, middle), (boxes[chain.edge.target].left, middle)]
    return tuple(dict.fromkeys(points))
