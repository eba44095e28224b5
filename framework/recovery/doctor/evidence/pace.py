"""Whether a running flow keeps up with its sources, from the batches and the backlog in its events."""

from __future__ import annotations

from collections.abc import Sequence

from framework.record.events import Event, EventType
from framework.recovery.doctor.diagnoses import FALLING_BEHIND, POSITION_STILL
from framework.recovery.doctor.diagnosis import Diagnosis
from framework.recovery.flow_lags import SILENT_INTERVALS

_ROWS = ("num_output_rows", "num_upserted_rows", "num_deleted_rows")
_BACKLOGS = ("backlog_records", "backlog_bytes")
_LEAST_REPORTS = 10


def pace_of(events: Sequence[Event]) -> Diagnosis | None:
    """Return why the backlog of a running flow does not shrink; None if it shrinks, or if too little is known.

    Args:
        events: the progress events of one flow in the running update, oldest first.
    """
    reports = [metrics for event in events if (metrics := _metrics(event))]
    last = reports[-SILENT_INTERVALS - 1 :]
    if len(last) > SILENT_INTERVALS and all(_backlog(each) and not _rows(each) for each in last):
        return POSITION_STILL
    backlogs = [backlog for each in reports if (backlog := _backlog(each)) is not None]
    half = len(backlogs) // 2
    if len(backlogs) < _LEAST_REPORTS:
        return None
    return FALLING_BEHIND if min(backlogs[half:]) > max(backlogs[:half]) else None


def _metrics(event: Event) -> dict[str, int]:
    found: dict[str, int] = event.details.get(str(EventType.FLOW_PROGRESS), {}).get("metrics") or {}
    return found


def _rows(metrics: dict[str, int]) -> int:
    return sum(metrics.get(name, 0) for name in _ROWS)


def _backlog(metrics: dict[str, int]) -> int | None:
    return next((metrics[name] for name in _BACKLOGS if name in metrics), None)
