"""The times in which flows of an update ran, and how each dataset was planned: what an update's page shows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from framework.record.events import Event, EventType
from framework.views.flow_board import BAD, GOOD, STARTED, FlowBoardTracker


def flow_spans(events: Iterable[Event], now: datetime) -> list[dict[str, Any]]:
    """Return the flows of an update as its board has them, each with the times in which it ran."""
    tracker = FlowBoardTracker()
    spans: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        progress = tracker(event)
        if progress is None or event.event_type is not EventType.FLOW_PROGRESS:
            continue
        mine = spans.setdefault(progress.flow, [])
        is_open = bool(mine) and mine[-1]["ended_at"] is None
        if progress.state in STARTED and not is_open:
            mine.append({"started_at": event.timestamp, "ended_at": None, "state": progress.state})
        elif progress.state in GOOD | BAD | {"DEGRADED"} and is_open:
            mine[-1] |= {"ended_at": event.timestamp, "state": progress.state}
    return [{**flow, "spans": spans.get(flow["flow"], [])} for flow in tracker.board.to_json(now)["flows"]]


def planned(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return how each dataset of an update was brought up to date, and why."""
    found = []
    for event in events:
        details = event.details.get(EventType.PLANNING_INFORMATION.value, {})
        techniques = details.get("technique_information") or ()
        if event.event_type is EventType.PLANNING_INFORMATION and techniques:
            technique = str(techniques[0].get("maintenance_type", "")).removeprefix("MAINTENANCE_TYPE_")
            found.append({
                "dataset": event.origin.dataset_name, "flow": event.origin.flow_name, "technique": technique,
                "reason": details.get("reason"),
            })  # fmt: skip
    return found


def quality_points(events: Iterable[Event], dataset: str) -> dict[str, dict[str, Any]]:
    """Return the passed and failed records of each expectation of a dataset in one update.

    The end of a flow's run has the counts of the whole run, in place of those of its batches.
    """
    sums: dict[tuple[str, str], list[int]] = {}
    time = ""
    for event in events:
        details = event.details.get(EventType.FLOW_PROGRESS.value, {})
        quality, flow = details.get("data_quality"), event.origin.flow_name or ""
        if event.origin.dataset_name != dataset or not quality:
            continue
        is_end = details.get("status") in GOOD | BAD
        for each in quality.get("expectations", ()):
            key = (flow, each["name"])
            before = [0, 0] if is_end or key not in sums else sums[key]
            sums[key] = [before[0] + each["passed_records"], before[1] + each["failed_records"]]
        time = event.timestamp
    found: dict[str, dict[str, Any]] = {}
    for (_, name), (passed, failed) in sums.items():
        point = found.setdefault(name, {"timestamp": time, "passed": 0, "failed": 0})
        point["passed"] += passed
        point["failed"] += failed
    return found
