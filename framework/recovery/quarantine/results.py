"""Counts of quarantined rows, and the result of a replay, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from framework.run.quarantine.row_state import RowState


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRows:
    """The quarantined rows of a flow that have the same reasons and state.

    Args:
        flow: the flow's full name.
        dataset: its target.
        reasons: the reasons of each row, sorted.
        rows: the number of rows.
        first: the time when the first row was quarantined.
        last: the time when the last row was quarantined.
    """

    flow: str
    dataset: str
    reasons: tuple[str, ...]
    state: RowState
    rows: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a replay.

    Args:
        flow: the flow's full name.
        dataset: its target.
        passed: the number of rows that were written, or that would be without `dry_run`.
        failed_by_reasons: the number of rows that stay, by their new reasons.
        dry_run: whether nothing was written.
    """

    flow: str
    dataset: str
    passed: int
    failed_by_reasons: tuple[tuple[tuple[str, ...], int], ...]
    dry_run: bool

    @property
    def failed(self) -> int:
        """The number of rows that stay in the quarantine."""
        return sum(count for _, count in self.failed_by_reasons)
