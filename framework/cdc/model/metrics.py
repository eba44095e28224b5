"""Metrics of an applied batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcMetrics:
    """Counts of one micro-batch.

    Args:
        rows: events of the batch, after `where`.
        upserted: rows of the target that were inserted or changed.
        deleted: rows of the target that were removed.
        late: keys of the batch whose newest upsert did not change the target, because newer events were known.
        skipped: whether the batch had been applied before, so nothing was done.
    """

    rows: int = 0
    upserted: int = 0
    deleted: int = 0
    late: int = 0
    skipped: bool = False
