"""The request of a comparison, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypedDict, Unpack

MOST_KEYS = 20
"""The default limit of differing keys in a comparison."""


class ComparisonOptions(TypedDict, total=False):
    """The options of a comparison; see `ComparisonRequest`."""

    keys: Sequence[str]
    columns: Sequence[str]
    where: str | None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """The tables and columns to compare.

    Args:
        first: a dataset, a table, a folder or a table of a source database; see `parse_reference`.
        second: likewise.
        keys: names of the columns that identify a row; () to use the key of the dataset or of the source table.
        columns: names of the other columns to compare; () for all.
        where: a SQL condition of Spark that selects the rows of both tables; None for all.
        limit: the largest number of differing keys to return; the totals are exact.
    """

    first: str
    second: str
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    where: str | None = None
    limit: int = MOST_KEYS

    @classmethod
    def of(cls, first: str, second: str, **options: Unpack[ComparisonOptions]) -> Self:
        """Create the request for two tables and options."""
        return cls(
            first=first,
            second=second,
            keys=tuple(options.get("keys", ())),
            columns=tuple(options.get("columns", ())),
            where=options.get("where"),
            limit=options.get("limit", MOST_KEYS),
        )
