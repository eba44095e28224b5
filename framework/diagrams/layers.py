"""The layer of each node of a picture, and the intermediate points of long edges.

The first stage of the layered drawing from left to right: each edge leads to a later layer, and is
divided into segments of one layer by intermediate points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from framework.diagrams.picture import NO_LABEL, Edge, Label, Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An element of a layer: a node, or an intermediate point of an edge.

    `label` is set at the one point of a labelled edge where the label is drawn.
    """

    key: str
    layer: int
    point: bool = False
    label: Label = NO_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """An edge and the keys of its intermediate points."""

    edge: Edge
    points: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all its places, including both ends."""
        return (self.edge.source, *self.points, self.edge.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """Places by layer, and each edge with its places."""

    layers: tuple[tuple[Place, ...], ...]
    chains: tuple[Chain, ...]

    def neighbours(self) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
        """The adjacent places of each place in the layer before it and in the layer behind it."""
        every = [place.key for layer in self.layers for place in layer]
        before: dict[str, list[str]] = {key: [] for key in every}
        behind: dict[str, list[str]] = {key: [] for key in every}
        for chain in self.chains:
            for left, right in pairwise(chain.keys):
                before[right].append(left)
                behind[left].append(right)
        return before, behind


def assign_layers(picture: Picture) -> Layered:
    """Assign a layer to each node and divide the edges; sources are in the layer right before their targets.

    An edge that closes a cycle is omitted; a valid graph has none.
    """
    edges, order = _acyclic(picture)
    layer_of = _longest_paths(order, edges)
    _pull_towards_targets(order, edges, layer_of)
    first = min(layer_of.values(), default=0)
    places = [Place(key=key, layer=layer_of[key] - first) for key in order]
    chains = []
    for number, edge in enumerate(edges):
        points = _points(number, edge, layer_of[edge.source] - first, layer_of[edge.target] - first)
        places += points
        chains.append(Chain(edge=edge, points=tuple(point.key for point in points)))
    count = max((place.layer for place in places), default=-1) + 1
    layers = tuple(tuple(place for place in places if place.layer == layer) for layer in range(count))
    return Layered(layers=layers, chains=tuple(chains))


def _acyclic(picture: Picture) -> tuple[tuple[Edge, ...], tuple[str, ...]]:
    """The edges without those that close a cycle, and the keys in topological order."""
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
    """The number of layers that an edge needs: one, and one more for a label."""
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


def _points(number: int, edge: Edge, first: int, last: int) -> list[Place]:
    """The intermediate points of an edge; the label is at the one next to the target."""
    return [
        Place(
            key=f"edge {number} layer {layer}",
            layer=layer,
            point=True,
            label=edge.label if layer == last - 1 else NO_LABEL,
        )
        for layer in range(first + 1, last)
    ]
