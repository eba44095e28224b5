"""Rows of changes between the reader of a log and the spool: a dialect fills them, and the spool writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from framework.sources.databases.tables import TableName


class Transaction(Protocol):
    """A transaction in a log."""

    @property
    def position(self) -> int:
        """The position of all its rows; positions sort transactions in commit order."""
        ...

    @property
    def commit_microseconds(self) -> int:
        """When it was committed, since 1970 in UTC."""
        ...


class RowShape(Protocol):
    """A table with its columns at the time when the log was written."""

    @property
    def table(self) -> TableName:
        """The table."""
        ...

    @property
    def schema_version(self) -> int:
        """A number that changes if the columns or their types change."""
        ...


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """The common properties of rows: table, operation and schema."""

    relation: RowShape
    operation: str


class ChangeBuffer:
    """Rows of changes that are not written yet: for each, the index of its kind and its payload.

    `pending` has the rows with incomplete payloads, in a form of the dialect.
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
