"""How the rows of a table differ from those that a test expects, as a value."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Values = tuple[Any, ...]
RowKey = tuple[Hashable, ...]
"""The comparable form of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPair:
    """An expected row and the row that was found in its place.

    Args:
        expected: the values of the expected row.
        found: the values of the row of the table.
        columns: the positions of the columns in which they differ.
        place: the position in both sequences, from 1; None unless the order is compared.
    """

    expected: Values
    found: Values
    columns: tuple[int, ...]
    place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneRow:
    """A row that was found more or less often than it is expected.

    Args:
        values: its values.
        expected: how often it is expected.
        found: how often it was found.
    """

    values: Values
    expected: int
    found: int

    @property
    def is_single(self) -> bool:
        """Whether it is one row, and none like it is on the other side."""
        return {self.expected, self.found} == {0, 1}

    @property
    def count(self) -> int:
        """The number of missing or unexpected rows with these values."""
        return abs(self.expected - self.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """How the rows of a table differ from the expected rows.

    Args:
        schema: the compared columns.
        keys: the columns that identify a row, if they are known.
        expected: the number of expected rows.
        found: the number of rows of the table.
        pairs: rows that were found with other values.
        missing: rows that were not found as often as expected.
        unexpected: rows that were found more often than expected.
        moved: rows by position, if all rows are as expected, but in another order.
    """

    schema: StructType
    keys: tuple[str, ...]
    expected: int
    found: int
    pairs: tuple[RowPair, ...] = ()
    missing: tuple[LoneRow, ...] = ()
    unexpected: tuple[LoneRow, ...] = ()
    moved: tuple[RowPair, ...] = ()
