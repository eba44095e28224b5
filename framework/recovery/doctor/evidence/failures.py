"""The failures in the event log: for each flow the last one, its first time, and the number of failed updates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from framework.foundation.files.storage_port import Storage
from framework.record.events import Event, EventError, EventType
from framework.record.reader import read_events
from framework.run.update.fault_classification import innermost_condition

_LAST_EVENTS = 20_000
_RENDERED = re.compile(
    r"\[(?P<condition>[A-Z][A-Z0-9_.]*)\] (?P<what>.*?)(?:\n  at (?P<location>[^\n]*))?(?:\n  -> (?P<remedy>.*))?\Z",
    re.DOTALL,
)
_WRAPPER = "FLOW_FAILED"
_FAILED = frozenset({"FAILED", "QUEUED"})
_SOUND = frozenset({"COMPLETED", "IDLE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last reported failure of a flow or an update.

    Args:
        condition: its condition; Spark's or Delta's condition if it is known.
        cause: the first cause, as one sentence.
        remedy: the remedy in the error; empty if it has none.
        location: file and line of the declaration; empty if unknown.
        since: the time of the first report without a success in between, ISO 8601 in UTC.
        last: the time of the last report.
        updates: the number of failed updates since then.
        update_id: the last of these updates.
    """

    condition: str
    cause: str
    remedy: str
    location: str
    since: str
    last: str
    updates: int
    update_id: str


def read_failures(storage: Storage) -> dict[str, Failure]:
    """Return the failures of flows whose last run failed or that are degraded, by full name."""
    return flow_failures(read_events(storage, type=EventType.FLOW_PROGRESS, last=_LAST_EVENTS))


def flow_failures(events: Sequence[Event]) -> dict[str, Failure]:
    """Return the failures of flows that had no success afterwards.

    Args:
        events: the progress of flows, oldest first.
    """
    found: dict[str, Failure] = {}
    for event in events:
        flow = event.origin.flow_name
        if flow is None:
            continue
        details = event.details.get(str(EventType.FLOW_PROGRESS), {})
        status = details.get("status")
        if status in _FAILED and event.error is not None:
            found[flow] = _next(found.get(flow), event, event.error)
        elif status in _SOUND or (status == "RUNNING" and details.get("metrics")):
            found.pop(flow, None)
    return found


def read_update_failure(storage: Storage) -> Failure | None:
    """Return the failure of the last update itself, outside of its flows; None if there is none."""
    events = read_events(storage, type=EventType.UPDATE_PROGRESS, last=1)
    if not events or events[0].error is None:
        return None
    return _next(None, events[0], events[0].error)


def _next(before: Failure | None, event: Event, error: EventError) -> Failure:
    """Return the failure of an event, which continues the count of the previous failure."""
    parsed = parse_error(error.exceptions[0].message if error.exceptions else event.message)
    since, updates = event.timestamp, 1
    if before is not None:
        since = before.since
        updates = before.updates + (before.update_id != event.origin.update_id)
    return replace(parsed, since=since, last=event.timestamp, updates=updates, update_id=event.origin.update_id)


def parse_error(text: str) -> Failure:
    r"""Parse a rendered error into a failure without times.

    Examples:
        >>> found = parse_error("[FLOW_FAILED] Flow f failed: [DELTA_SOURCE_IGNORE_DELETE] No.\n  -> Run again.")
        >>> found.condition, found.cause, found.remedy
        ('DELTA_SOURCE_IGNORE_DELETE', 'No.', 'Run again.')
    """
    match = _RENDERED.match(text)
    if match is None:
        condition, cause, location, remedy = _WRAPPER, text.strip(), "", ""
    else:
        condition, cause = match["condition"], match["what"].strip()
        location, remedy = match["location"] or "", (match["remedy"] or "").strip()
    inner = innermost_condition(cause) if condition == _WRAPPER else None
    if inner is not None:
        condition, cause = inner
    return Failure(
        condition=condition, cause=cause, remedy=remedy, location=location, since="", last="", updates=1, update_id=""
    )
