"""Rows of changes between the reader of a log and the spool: what a dialect fills and the spool writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from framework.sources.databases.tables import TableName


class Transaction(Protocol):
    """A transaction in a log."""

    @property
    def position(self) -> int:
        """The position of all its rows: it sorts transactions in the order of their commits."""
        ...

    @property
    def commit_microseconds(self) -> int:
        """When it was committed, since 1970 in UTC."""
        ...


class RowShape(Protocol):
    """A table with its columns, as they were when the log was written."""

    @property
    def table(self) -> TableName:
        """The table."""
        ...

    @property
    def schema_version(self) -> int:
        """A number that differs if the columns or their types differ."""
        ...


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """What rows have in common: table, operation and schema."""

    relation: RowShape
    operation: str


class ChangeBuffer:
    """Rows of changes that are not written yet: one index of a kind and one payload for each.

    `pending` has the rows whose payloads are not complete, in a form of the dialect.
    """

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.payloads: list[str | None] = []
        self.pending: list[Any] = []

    def clear(self) -> None:
        """Remove the rows; the lists stay the same objects."""
        self.kinds.clear()
        self.payloads.clear()
        self.pending.clear()
