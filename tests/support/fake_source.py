"""A source database in memory, for what begins before the flows of an update: positions, and the tables of its log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from framework.sources.databases.position import Position
from framework.sources.databases.source_session import LogName
from framework.sources.databases.tables import KeyKind, SourceTable, TableName

TABLE = "7"
"""What identifies each table of the source."""


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

    def settled_position(self, _log: LogName, _after: str | None = None) -> Position:
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

    def has_table(self, name: TableName) -> bool:
        """Whether a table is published."""
        return name in self.published

    def continuity(self, source: SourceTable) -> str:
        """Return what identifies a table and its membership."""
        return continuity(source.identity, self._member if source.name in self.published else 0)

    def read_tables(self, names: Sequence[TableName]) -> dict[TableName, SourceTable]:
        """Return tables, with one identity."""
        return {
            name: SourceTable(
                name=name, columns=(), key=("id",), key_kind=KeyKind.PRIMARY, storage_id="", estimated_rows=0,
                estimated_bytes=0, identity=TABLE,
            )
            for name in names
        }  # fmt: skip


def continuity(identity: str, member: int) -> str:
    """Return what a source has of a table: its number, and that of its membership of the log."""
    return f"table {identity}, member {member}"
