"""A source database in memory, for what begins before the flows of an update: positions, and the tables of its log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from framework.sources.databases.position import Position
from framework.sources.databases.source_session import LogName
from framework.sources.databases.tables import TableName


class FakeSource:
    """A session of the port; the log of its source ends at position 42.

    Args:
        has_log: whether the gateway has a position at the source.
        member: what identifies the membership of a table that was published.
    """

    def __init__(self, *, has_log: bool = True, member: int = 90) -> None:
        self.has_log = has_log
        self.published: list[TableName] = []
        self.calls: list[str] = []
        self._member = member

    def open(self, *_: object, **__: object) -> nullcontext[Any]:
        """Stand for `open_gateway`."""
        return nullcontext(self)

    def settled_position(self, _log: LogName) -> Position:
        """Return the end of the log."""
        return Position(order=42, text="0/2A")

    def ensure_position(self, _log: LogName, names: Sequence[TableName], *, reader: str = "") -> Position:
        """Publish tables."""
        del reader
        self.calls.append("create")
        self.published += names
        return Position(order=42, text="0/2A")

    def drop_position(self, _log: LogName, *, reader: str = "") -> None:
        """Drop the position."""
        del reader
        self.calls.append("drop")

    def logged_tables(self, _log: LogName) -> FakeSource:
        """Return the tables of the log."""
        return self

    def membership(self, name: TableName) -> int:
        """Return whether a table is published."""
        return self._member if name in self.published else 0
