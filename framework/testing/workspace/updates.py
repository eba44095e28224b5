"""Updates of pipelines on the virtual clock: triggered and continuous ones, and gateways that take snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from framework.testing.workspace.gateway import Progress, SourceTable, change_progress, event_row, snapshot_progress

_STEPS = (("INITIALIZING", 0.0), ("SETTING_UP_TABLES", 5.0), ("RUNNING", 10.0))
_SECONDS_PER_FLOW = 10.0
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED"})


class WorkspaceUpdate:
    """One update of a pipeline: its request, its state, and the time up to which its events are written."""

    def __init__(self, *, update_id: str, cause: str, began: datetime, asked: dict[str, Any], endless: bool) -> None:
        self.update_id = update_id
        self.cause = cause
        self.began = began
        self.asked = asked
        self.endless = endless
        self.state = "QUEUED"
        self.published_until = began - timedelta(seconds=1)

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return self.state not in ENDED

    def info(self, pipeline_id: str) -> dict[str, Any]:
        """Return the update in the API's format."""
        return {
            "pipeline_id": pipeline_id,
            "update_id": self.update_id,
            "cause": self.cause,
            "state": self.state,
            "creation_time": int(self.began.timestamp() * 1000),
            **self.asked,
        }


def gateway_events(
    update: WorkspaceUpdate,
    tables: Sequence[SourceTable],
    done: set[str],
    *,
    now: datetime,
    interval: float,
    origin: dict[str, Any],
) -> list[dict[str, Any]]:
    """Return the new events of a gateway's running update; add completed snapshots to `done`."""
    since = update.published_until
    progress: list[Progress] = []
    for table in tables:
        if table.name in done:
            progress += change_progress(table, update.began, since, now, interval)
            continue
        ended = update.began + timedelta(seconds=table.seconds)
        progress += snapshot_progress(table, update.began, since, now, interval)
        if ended <= now:
            done.add(table.name)
            progress += change_progress(table, ended, ended - timedelta(seconds=1), now, interval)
    update.state, update.published_until = "RUNNING", now
    # At the same time, the end of the snapshot is before the first event of the changes.
    ordered = sorted(progress, key=lambda point: (point.at, point.flow == "_cdc_flow"))
    return [event_row(point, origin, number) for number, point in enumerate(ordered)]


def pipeline_events(update: WorkspaceUpdate, flows: Sequence[tuple[str, int]], now: datetime) -> list[dict[str, Any]]:
    """Return the new events of any other pipeline's update: its states, then each flow's progress."""
    plan: list[tuple[float, dict[str, Any]]] = [(at, _update_event(state)) for state, at in _STEPS]
    at = _STEPS[-1][1]
    for flow, rows in flows:
        plan.append((at, _flow_event(flow, "RUNNING", rows)))
        at += _SECONDS_PER_FLOW
        plan.append((at, _flow_event(flow, "COMPLETED", rows)))
    if not update.endless:
        plan.append((at + 1, _update_event("COMPLETED")))
    published = []
    for seconds, event in plan:
        point = update.began + timedelta(seconds=seconds)
        if update.published_until < point <= now:
            published.append({**event, "timestamp": point.isoformat(timespec="milliseconds").replace("+00:00", "Z")})
            if event["event_type"] == "update_progress":
                update.state = event["details"]["update_progress"]["state"]
    update.published_until = now
    return published


def update_event(state: str, at: datetime) -> dict[str, Any]:
    """Return the event of an update's state change."""
    return {**_update_event(state), "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def _update_event(state: str) -> dict[str, Any]:
    return {
        "event_type": "update_progress",
        "level": "INFO",
        "maturity_level": "STABLE",
        "message": f"Update is {state}.",
        "details": {"update_progress": {"state": state}},
    }


def _flow_event(flow: str, status: str, rows: int) -> dict[str, Any]:
    progress: dict[str, Any] = {"status": status}
    if status == "COMPLETED":
        progress["metrics"] = {"num_output_rows": rows}
    return {
        "event_type": "flow_progress",
        "level": "INFO",
        "maturity_level": "STABLE",
        "message": f"Flow {flow} is {status}.",
        "flow": flow,
        "details": {"flow_progress": progress},
    }
