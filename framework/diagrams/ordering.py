"""The vertical order of places within each layer, with few edge crossings.

The second stage of the layered drawing: sweeps from left to right and back sort each layer by the
mean position of its neighbours, and the order with the fewest crossings is kept.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from framework.diagrams.layers import Layered, Place

_SWEEPS = 16
_SWEEPS_OF_LARGE = 4
_LARGE = 1_500

Order = list[list[str]]


def order_layers(layered: Layered) -> Layered:
    """The same places, with each layer in an order that has few crossings; deterministic."""
    order = _fewest_crossings([[place.key for place in layer] for layer in layered.layers], layered)
    places: dict[str, Place] = {place.key: place for layer in layered.layers for place in layer}
    return replace(layered, layers=tuple(tuple(places[key] for key in layer) for layer in order))


def _fewest_crossings(order: Order, layered: Layered) -> Order:
    """The best order of a bounded number of sweeps."""
    before, behind = layered.neighbours()
    best, fewest = order, _crossings(order, behind)
    large = sum(len(layer) for layer in order) > _LARGE
    for sweep in range(_SWEEPS_OF_LARGE if large else _SWEEPS):
        if fewest == 0:
            break
        forward = sweep % 2 == 0
        order = _sweep(order, before if forward else behind, forward=forward)
        found = _crossings(order, behind)
        if found < fewest:
            best, fewest = order, found
    return best


def _sweep(order: Order, neighbours: Mapping[str, list[str]], *, forward: bool) -> Order:
    """Sort every layer by the mean position of its neighbours in the layer before (or behind) it."""
    swept = [list(layer) for layer in order]
    indexes = range(1, len(order)) if forward else range(len(order) - 2, -1, -1)
    for index in indexes:
        fixed = {key: place for place, key in enumerate(swept[index - 1 if forward else index + 1])}
        mine = {key: float(place) for place, key in enumerate(swept[index])}
        for key in swept[index]:
            places = [fixed[neighbour] for neighbour in neighbours[key]]
            if places:
                mine[key] = sum(places) / len(places)
        swept[index].sort(key=mine.__getitem__)
    return swept


def _crossings(order: Order, behind: Mapping[str, list[str]]) -> int:
    """The number of pairs of edges that cross, over all pairs of adjacent layers."""
    total = 0
    for left, right in pairwise(order):
        place = {key: index for index, key in enumerate(right)}
        seen: list[int] = []
        for key in left:
            ends = sorted(place[end] for end in behind[key])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
