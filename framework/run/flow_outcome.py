"""What one run of a flow did, gathered while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from framework.run.quality import NOTHING_COUNTED, QualityCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOutcome:
    """Rows and quality of one run; `written` is None when the target does not tell."""

    written: int | None = None
    upserted: int = 0
    deleted: int = 0
    late: int = 0
    quality: QualityCounts = NOTHING_COUNTED

    def plus(self, other: FlowOutcome) -> FlowOutcome:
        """Both together."""
        written = None if self.written is None and other.written is None else (self.written or 0) + (other.written or 0)
        return FlowOutcome(
            written=written,
            upserted=self.upserted + other.upserted,
            deleted=self.deleted + other.deleted,
            late=self.late + other.late,
            quality=self.quality.plus(other.quality),
        )
