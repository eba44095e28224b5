"""The result of a comparison of two tables, as values; no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class DifferenceKind(StrEnum):
    """How the rows of one key differ."""

    ONLY_FIRST = "only in the first"
    ONLY_SECOND = "only in the second"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTable:
    """One of the two tables, as it was read.

    Args:
        name: as the user wrote it.
        rows: number of rows compared.
        version: the version of the Delta table; None if it is no Delta table.
        position: the position of a source database's log at which it was read; None for other tables.
    """

    name: str
    rows: int
    version: int | None = None
    position: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFinding:
    """A column that can't be compared; a type is None if its table does not have the column."""

    name: str
    first_type: str | None
    second_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """A key whose rows differ.

    Args:
        kind: how they differ.
        key: the values of the key columns.
        columns: the columns whose values differ; () unless the kind is DIFFERENT.
        first_rows: number of rows with the key in the first table; `second_rows` in the second.
    """

    kind: DifferenceKind
    key: tuple[Any, ...]
    columns: tuple[str, ...]
    first_rows: int
    second_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Exact numbers of the keys that differ.

    Args:
        only_first: keys without a row in the second table.
        only_second: keys without a row in the first table.
        different: keys with different rows in the two tables.
        duplicate: keys among these that have several rows in a table.
        columns: each column with a difference, and the number of DIFFERENT keys in which it differs.
    """

    only_first: int = 0
    only_second: int = 0
    different: int = 0
    duplicate: int = 0
    columns: tuple[tuple[str, int], ...] = ()

    @property
    def keys(self) -> int:
        """The number of all keys that differ."""
        return self.only_first + self.only_second + self.different


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of a comparison.

    Args:
        keys: the key columns; () if whole rows were compared.
        columns: the other columns that were compared.
        findings: the columns that could not be compared.
        totals: exact numbers.
        differences: the first differing keys in the order of the key, at most as many as the limit.
        uncertain: why a difference may be a change that the copy does not have yet, as one sentence; None if every
            difference is certain.
    """

    first: ComparedTable
    second: ComparedTable
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    findings: tuple[ColumnFinding, ...]
    totals: Totals
    differences: tuple[KeyDifference, ...]
    uncertain: str | None = None

    @property
    def is_equal(self) -> bool:
        """Whether both tables have the same columns and the same rows."""
        return self.totals.keys == 0 and not self.findings
