"""The layered drawing of a picture from left to right, in three stages, as in the method of Sugiyama.

1. `assign_layers`: each edge leads to a later layer, and dummy vertices divide it into segments of one layer.
2. `order_layers`: sweeps from left to right and back sort each layer by the mean position of its neighbours. The order
   with the fewest crossings is kept.
3. `vertical_positions`: edges become short and straight. For a fixed order, the optimal positions of a layer (least
   squares to the neighbours' positions, with minimum distances) are an isotonic regression, which the
   pool-adjacent-violators algorithm solves exactly.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from framework.diagrams.picture import Edge, Picture
from framework.views.graph import NO_LABEL, Label

_ORDER_SWEEPS = 16
_ORDER_SWEEPS_OF_LARGE = 4
_LARGE = 1_500
_POSITION_SWEEPS = 24
_STRAIGHT = 6.0
"""The weight of a segment between two dummy vertices of one edge."""

Order = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A vertex of a layer: a node, or a dummy vertex of an edge.

    `label` is set at the one dummy vertex of a labelled edge at which the label is drawn.
    """

    key: str
    layer: int
    is_dummy: bool = False
    label: Label = NO_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePath:
    """An edge and the keys of its dummy vertices."""

    edge: Edge
    dummies: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all its vertices, including both ends."""
        return (self.edge.source, *self.dummies, self.edge.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """Vertices by layer, and each edge with its vertices."""

    layers: tuple[tuple[Vertex, ...], ...]
    paths: tuple[EdgePath, ...]

    def neighbours(self) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
        """Return the adjacent vertices of each vertex in the layer before it and in the layer after it."""
        every = [vertex.key for layer in self.layers for vertex in layer]
        before: dict[str, list[str]] = {key: [] for key in every}
        after: dict[str, list[str]] = {key: [] for key in every}
        for path in self.paths:
            for left, right in pairwise(path.keys):
                before[right].append(left)
                after[left].append(right)
        return before, after


def assign_layers(picture: Picture) -> Layered:
    """Assign a layer to each node and divide the edges; sources are in the layer right before their targets.

    An edge that closes a cycle is omitted; a valid graph has none.
    """
    edges, order = _acyclic(picture)
    layer_of = _longest_paths(order, edges)
    _pull_towards_targets(order, edges, layer_of)
    first = min(layer_of.values(), default=0)
    vertices = [Vertex(key=key, layer=layer_of[key] - first) for key in order]
    paths = []
    for number, edge in enumerate(edges):
        dummies = _dummies(number, edge, layer_of[edge.source] - first, layer_of[edge.target] - first)
        vertices += dummies
        paths.append(EdgePath(edge=edge, dummies=tuple(vertex.key for vertex in dummies)))
    count = max((vertex.layer for vertex in vertices), default=-1) + 1
    layers = tuple(tuple(vertex for vertex in vertices if vertex.layer == layer) for layer in range(count))
    return Layered(layers=layers, paths=tuple(paths))


def _acyclic(picture: Picture) -> tuple[tuple[Edge, ...], tuple[str, ...]]:
    """Return the edges without those that close a cycle, and the keys in topological order."""
    edges = list(picture.edges)
    while True:
        sorter: TopologicalSorter[str] = TopologicalSorter({node.key: () for node in picture.nodes})
        for edge in edges:
            sorter.add(edge.target, edge.source)
        try:
            return tuple(edges), tuple(sorter.static_order())
        except CycleError as error:
            ring = error.args[1]
            edges = [edge for edge in edges if (edge.source, edge.target) != (ring[0], ring[1])]


def _span(edge: Edge) -> int:
    """Return the number of layers that an edge needs: one, and one more for a label."""
    return 2 if edge.label.text else 1


def _longest_paths(order: tuple[str, ...], edges: tuple[Edge, ...]) -> dict[str, int]:
    incoming: dict[str, list[Edge]] = {key: [] for key in order}
    for edge in edges:
        incoming[edge.target].append(edge)
    layer_of: dict[str, int] = {}
    for key in order:
        layer_of[key] = max((layer_of[edge.source] + _span(edge) for edge in incoming[key]), default=0)
    return layer_of


def _pull_towards_targets(order: tuple[str, ...], edges: tuple[Edge, ...], layer_of: dict[str, int]) -> None:
    """Move a node to the right if more edges get shorter than longer."""
    outgoing: dict[str, list[Edge]] = {key: [] for key in order}
    incoming = dict.fromkeys(order, 0)
    for edge in edges:
        outgoing[edge.source].append(edge)
        incoming[edge.target] += 1
    for key in reversed(order):
        if len(outgoing[key]) > incoming[key]:
            layer_of[key] = min(layer_of[edge.target] - _span(edge) for edge in outgoing[key])


def _dummies(number: int, edge: Edge, first: int, last: int) -> list[Vertex]:
    """Return the dummy vertices of an edge; the label is at the one next to the target."""
    return [
        Vertex(
            key=f"edge {number} layer {layer}",
            layer=layer,
            is_dummy=True,
            label=edge.label if layer == last - 1 else NO_LABEL,
        )
        for layer in range(first + 1, last)
    ]


def order_layers(layered: Layered) -> Layered:
    """Return the same vertices, with each layer in an order that has few crossings; deterministic."""
    order = _fewest_crossings([[vertex.key for vertex in layer] for layer in layered.layers], layered)
    vertices: dict[str, Vertex] = {vertex.key: vertex for layer in layered.layers for vertex in layer}
    return replace(layered, layers=tuple(tuple(vertices[key] for key in layer) for layer in order))


def _fewest_crossings(order: Order, layered: Layered) -> Order:
    """Return the best order of a bounded number of sweeps."""
    before, after = layered.neighbours()
    best, fewest = order, _crossings(order, after)
    large = sum(len(layer) for layer in order) > _LARGE
    for sweep in range(_ORDER_SWEEPS_OF_LARGE if large else _ORDER_SWEEPS):
        if fewest == 0:
            break
        forward = sweep % 2 == 0
        order = _sweep(order, before if forward else after, forward=forward)
        found = _crossings(order, after)
        if found < fewest:
            best, fewest = order, found
    return best


def _sweep(order: Order, neighbours: Mapping[str, list[str]], *, forward: bool) -> Order:
    """Sort every layer by the mean position of its neighbours in the layer before (or after) it."""
    swept = [list(layer) for layer in order]
    indexes = range(1, len(order)) if forward else range(len(order) - 2, -1, -1)
    for index in indexes:
        fixed = {key: position for position, key in enumerate(swept[index - 1 if forward else index + 1])}
        own = {key: float(position) for position, key in enumerate(swept[index])}
        for key in swept[index]:
            positions = [fixed[neighbour] for neighbour in neighbours[key]]
            if positions:
                own[key] = sum(positions) / len(positions)
        swept[index].sort(key=own.__getitem__)
    return swept


def _crossings(order: Order, after: Mapping[str, list[str]]) -> int:
    """Return the number of pairs of edges that cross, over all pairs of adjacent layers."""
    total = 0
    for left, right in pairwise(order):
        position = {key: index for index, key in enumerate(right)}
        seen: list[int] = []
        for key in left:
            ends = sorted(position[end] for end in after[key])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def vertical_positions(layered: Layered, heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Return the vertical middle of each vertex, with the topmost edge at zero.

    Args:
        layered: layers in their final order.
        heights: the height of each vertex.
        gap: the minimum distance between two vertices of a layer.
    """
    before, after = layered.neighbours()
    dummies = {vertex.key for layer in layered.layers for vertex in layer if vertex.is_dummy}
    middle: dict[str, float] = {}
    for layer in layered.layers:
        middle.update(_settle(layer, [0.0] * len(layer), [1.0] * len(layer), heights, gap))
    for sweep in range(_POSITION_SWEEPS):
        forward = sweep % 2 == 0
        near = _both(before, after) if sweep >= _POSITION_SWEEPS // 2 else before if forward else after
        for layer in layered.layers if forward else layered.layers[::-1]:
            preferred = [
                _preferred(vertex, near[vertex.key] or before[vertex.key] + after[vertex.key], middle, dummies)
                for vertex in layer
            ]
            middle.update(
                _settle(
                    layer, [position for position, _ in preferred], [weight for _, weight in preferred], heights, gap
                )
            )
    top = min((middle[key] - heights[key] / 2 for key in middle), default=0.0)
    return {key: value - top for key, value in middle.items()}


def _both(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the neighbours of each vertex on both sides."""
    return {key: [*before[key], *after[key]] for key in before}


def _preferred(
    vertex: Vertex, near: Sequence[str], middle: Mapping[str, float], dummies: set[str]
) -> tuple[float, float]:
    """Return the preferred vertical position of a vertex, and its weight.

    Adjacent dummy vertices have a higher weight, so that the edge is straight.
    """
    if not near:
        return middle[vertex.key], 0.1
    pulls = [_STRAIGHT if vertex.is_dummy and key in dummies else 1.0 for key in near]
    return sum(middle[key] * pull for key, pull in zip(near, pulls, strict=True)) / sum(pulls), sum(pulls)


def _settle(
    layer: Sequence[Vertex],
    positions: Sequence[float],
    weights: Sequence[float],
    heights: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    """Return the positions closest to the preferred ones that keep the layer's order and minimum distances."""
    offsets = [0.0]
    for upper, lower in pairwise(layer):
        offsets.append(offsets[-1] + (heights[upper.key] + heights[lower.key]) / 2 + gap)
    pools: list[tuple[float, float, int]] = []
    for position, weight, offset in zip(positions, weights, offsets, strict=False):
        mean, total, count = position - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, other_total, other_count = pools.pop()
            mean = (mean * total + other * other_total) / (total + other_total)
            total, count = total + other_total, count + other_count
        pools.append((mean, total, count))
    settled = [mean for mean, _, count in pools for _ in range(count)]
    return {vertex.key: value + offset for vertex, value, offset in zip(layer, settled, offsets, strict=False)}
