"""A Lakeflow Connect gateway as a function of time: snapshots in chunks, lost on each restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

PROGRESS_SECONDS = 300.0
PROGRESS_SETTING = "pipelines.gateway.progressEventEmitFrequencySeconds"
_SHORTEST_SECONDS, _LONGEST_SECONDS = 30, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A source table and the duration of its snapshot.

    Args:
        name: its full name at the destination.
        chunks: number of chunks of its snapshot; 1 for a table that can't be chunked.
        seconds_per_chunk: seconds on the virtual clock.
        reports_progress: whether the gateway writes operation_progress events for it; older gateways don't.
    """

    name: str
    chunks: int = 48
    seconds_per_chunk: float = 3600.0
    reports_progress: bool = True

    @property
    def seconds(self) -> float:
        """Duration of the whole snapshot."""
        return self.chunks * self.seconds_per_chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """An entry of a gateway's event log and its time."""

    at: datetime
    table: str
    event_type: str
    flow: str
    status: str
    percent: float | None = None
    left_seconds: float | None = None


def interval_of(spec: Mapping[str, Any]) -> float:
    """Return the interval of a gateway's progress events; the default unless the setting is 30 seconds to an hour."""
    interval = str((spec.get("configuration") or {}).get(PROGRESS_SETTING))
    seconds = int(interval) if interval.isdecimal() else 0
    return float(seconds) if _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS else PROGRESS_SECONDS


def snapshot_progress(
    table: SourceTable, began: datetime, since: datetime, until: datetime, interval: float = PROGRESS_SECONDS
) -> Iterator[Progress]:
    """Return the entries of a snapshot in (`since`, `until`]; the first entry is at `began`."""
    ended = began + timedelta(seconds=table.seconds)
    numbers = _ticks(began, since, min(until, ended), interval)
    ticks = [began + timedelta(seconds=interval * n) for n in numbers]
    for at in ticks:
        if at < ended:
            yield from _progress(table, began, at, "RUNNING")
    if since < ended <= until:
        yield from _progress(table, began, ended, "COMPLETED")


def change_progress(
    table: SourceTable, began: datetime, since: datetime, until: datetime, interval: float = PROGRESS_SECONDS
) -> Iterator[Progress]:
    """Return the entries of a table's change flow in (`since`, `until`]: RUNNING at each interval."""
    for n in _ticks(began, since, until, interval):
        at = began + timedelta(seconds=interval * n)
        yield Progress(at=at, table=table.name, event_type="flow_progress", flow="_cdc_flow", status="RUNNING")


def _ticks(began: datetime, since: datetime, until: datetime, interval: float) -> range:
    """Return the numbers of the intervals that end in (`since`, `until`]; 0, the start, if `since` is before it."""
    first = 0 if since < began else int((since - began).total_seconds() // interval) + 1
    last = int((until - began).total_seconds() // interval)
    return range(first, last + 1)


def _progress(table: SourceTable, began: datetime, at: datetime, status: str) -> Iterator[Progress]:
    yield Progress(at=at, table=table.name, event_type="flow_progress", flow="_snapshot_flow", status=status)
    if not table.reports_progress:
        return
    gone = (at - began).total_seconds()
    chunks = min(table.chunks, int(gone // table.seconds_per_chunk))
    state = "COMPLETED" if status == "COMPLETED" else "STARTED" if gone == 0 else "IN_PROGRESS"
    yield Progress(
        at=at,
        table=table.name,
        event_type="operation_progress",
        flow="_snapshot_flow",
        status=state,
        percent=100.0 * chunks / table.chunks,
        left_seconds=table.seconds - gone,
    )


def event_row(progress: Progress, origin: dict[str, Any], number: int) -> dict[str, Any]:
    """Convert an entry to a row of the event log's table; `details` is one object, as in the API."""
    details: dict[str, Any] = {"status": progress.status}
    if progress.event_type == "operation_progress":
        details |= {
            "type": "CDC_SNAPSHOT",
            "progress_percent": progress.percent,
            "estimated_completion_ms": int((progress.left_seconds or 0.0) * 1000),
        }
    return {
        "id": f"event-{number}",
        "timestamp": progress.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event_type": progress.event_type,
        "level": "METRICS",
        "message": f"{progress.table}: {progress.status}",
        "maturity_level": "EVOLVING",
        "origin": {**origin, "dataset_name": progress.table, "flow_name": progress.table + progress.flow},
        "details": {progress.event_type: details},
    }
