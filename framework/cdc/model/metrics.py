"""What applying a batch did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcMetrics:
    """Counts of one micro-batch.

    Args:
        rows: events of the batch, after `where`.
        upserted: rows of the target that were inserted or changed.
        deleted: rows of the target that were removed.
        late: keys of the batch whose newest upsert was older than what was known already.
        skipped: the batch had been applied before, and nothing was done.
    """

    rows: int = 0
    upserted: int = 0
    deleted: int = 0
    late: int = 0
    skipped: bool = False
