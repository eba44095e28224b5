"""File statistics of staged files, which give the counts of the staged events without a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.batch_validation import BatchCounts
from framework.cdc.model.reserved_names import HIDDEN_COLUMN, ONCE, SEQUENCE

_ROWS, _NULLS, _LEAST, _MOST = "numRecords", "nullCount", "minValues", "maxValues"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFileStatistics:
    """Delta's statistics of new files.

    Args:
        files: one mapping per file; statistics that were not collected are absent.
    """

    files: Sequence[Mapping[str, Any]]

    def counts(self, target: CdcTarget) -> BatchCounts | None:
        """Return the counts of valid events; None if an event may violate the contract or statistics are missing."""
        if not all(_ROWS in file and _is_faultless(file.get(_NULLS, {}), target) for file in self.files):
            return None
        rows = sum(int(file[_ROWS]) for file in self.files)
        return BatchCounts(rows=rows, null_sequences=0, null_keys=dict.fromkeys(target.keys, 0), ranges={})

    def span(self, column: str) -> tuple[int, int] | None:
        """Return the bounds of a column of whole numbers; None if they are unknown."""
        least = [file.get(_LEAST, {}).get(column) for file in self.files]
        most = [file.get(_MOST, {}).get(column) for file in self.files]
        bounds = [value for value in (*least, *most) if isinstance(value, int)]
        return (min(bounds), max(bounds)) if bounds and len(bounds) == 2 * len(self.files) else None


def _is_faultless(nulls: Mapping[str, Any], target: CdcTarget) -> bool:
    """Return whether no key and no order is null; if one leaf of the point is never null, every row has an order."""
    hidden = nulls.get(HIDDEN_COLUMN, {})
    points = [leaf for part in (SEQUENCE, ONCE) for leaf in _leaves(hidden.get(part))]
    return 0 in points and all(nulls.get(key) == 0 for key in target.keys)


def _leaves(count: int | Mapping[str, Any] | None) -> Iterator[int]:
    if isinstance(count, Mapping):
        for inner in count.values():
            yield from _leaves(inner)
    elif count is not None:
        yield count
