"""The shape of one entry of the catalogue."""

from __future__ import annotations

from typing import NamedTuple


class Condition(NamedTuple):
    """A text for what happened and one for what to do next, both format strings over the fields."""

    what: str
    remedy: str
