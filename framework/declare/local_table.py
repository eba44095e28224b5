"""The local copy of a table of another catalog, as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass

from framework.declare.specs import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTable:
    """A table that the pipeline does not declare, and the place of its rows on this machine.

    Args:
        name: its full name, as written.
        options: `format`, `path` or `pipeline`, and options of the reader; paths are absolute.
    """

    name: str
    options: Pairs
