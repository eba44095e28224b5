"""The shape of one entry of the catalogue."""

from __future__ import annotations

from typing import NamedTuple


class Condition(NamedTuple):
    """The texts of a condition, what happened and what to do next: format strings over its fields."""

    what: str
    remedy: str
