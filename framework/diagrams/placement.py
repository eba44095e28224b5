"""The vertical positions of places within layers, such that edges are short and straight.

The last stage of the layered drawing. For a fixed order, the optimal positions of a layer (least
squares to the neighbours' positions, with minimum distances) are an isotonic regression, which the
pool-adjacent-violators algorithm solves exactly. Several sweeps of it place the whole drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from framework.diagrams.layers import Layered, Place

_SWEEPS = 24
_STRAIGHT = 6.0


def place_heights(layered: Layered, heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """The vertical middle of each place, with the topmost edge at zero.

    Args:
        layered: layers in their final order.
        heights: the height of each place.
        gap: the minimum distance between two places of a layer.
    """
    before, behind = layered.neighbours()
    points = {place.key for layer in layered.layers for place in layer if place.point}
    middle: dict[str, float] = {}
    for layer in layered.layers:
        middle.update(_settle(layer, [0.0] * len(layer), [1.0] * len(layer), heights, gap))
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        near = _both(before, behind) if sweep >= _SWEEPS // 2 else before if forward else behind
        for layer in layered.layers if forward else layered.layers[::-1]:
            wishes = [
                _wish(place, near[place.key] or before[place.key] + behind[place.key], middle, points)
                for place in layer
            ]
            middle.update(_settle(layer, [wish for wish, _ in wishes], [weight for _, weight in wishes], heights, gap))
    top = min((middle[key] - heights[key] / 2 for key in middle), default=0.0)
    return {key: value - top for key, value in middle.items()}


def _both(before: Mapping[str, list[str]], behind: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The neighbours of each place on both sides."""
    return {key: [*before[key], *behind[key]] for key in before}


def _wish(place: Place, near: Sequence[str], middle: Mapping[str, float], points: set[str]) -> tuple[float, float]:
    """The preferred vertical position of a place, and its weight.

    Adjacent points of one long edge have a higher weight, so that the edge is straight.
    """
    if not near:
        return middle[place.key], 0.1
    pulls = [_STRAIGHT if place.point and key in points else 1.0 for key in near]
    return sum(middle[key] * pull for key, pull in zip(near, pulls, strict=True)) / sum(pulls), sum(pulls)


def _settle(
    layer: Sequence[Place], wished: Sequence[float], weights: Sequence[float], heights: Mapping[str, float], gap: float
) -> dict[str, float]:
    """The positions closest to the preferred ones that keep the layer's order and minimum distances."""
    offsets = [0.0]
    for upper, lower in pairwise(layer):
        offsets.append(offsets[-1] + (heights[upper.key] + heights[lower.key]) / 2 + gap)
    pools: list[tuple[float, float, int]] = []
    for wish, weight, offset in zip(wished, weights, offsets, strict=False):
        mean, total, count = wish - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, other_total, other_count = pools.pop()
            mean = (mean * total + other * other_total) / (total + other_total)
            total, count = total + other_total, count + other_count
        pools.append((mean, total, count))
    settled = [mean for mean, _, count in pools for _ in range(count)]
    return {place.key: value + offset for place, value, offset in zip(layer, settled, offsets, strict=False)}
