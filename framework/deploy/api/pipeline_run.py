"""Updates of a deployed pipeline: start one and follow its events until it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databricks.sdk.errors import ResourceConflict

from framework.deploy.api.workspace import ResponseLost, Workspace
from framework.foundation.errors import OperationError
from framework.record.events import Event, EventLevel, EventType, MaturityLevel, Origin

_POLL_SECONDS = 2.0
_MAX_SECONDS = 24 * 3600.0
_PAGES = 100
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteUpdate:
    """Id and final state of an update."""

    update_id: str
    state: str


def run_remotely(
    workspace: Workspace,
    pipeline_id: str,
    selection: Mapping[str, Any],
    *,
    observer: Callable[[Event], None],
    is_stopping: Callable[[], bool] = lambda: False,
    max_seconds: float = _MAX_SECONDS,
) -> RemoteUpdate:
    """Start an update and pass its events to `observer`, each once and in order, until it ends.

    Args:
        workspace: workspace of the pipeline.
        pipeline_id: id of the pipeline.
        selection: body of the request that starts the update: the tables to refresh; empty for all tables.
        observer: receives the events.
        is_stopping: checked at each poll; once it is true, the update is stopped and followed until it ends.
        max_seconds: time after which the update is no longer followed.

    Raises:
        OperationError: WORKSPACE_CALL_FAILED if another update runs; REMOTE_UPDATE_SILENT if the update does not end.
    """
    update_id = _start(workspace, pipeline_id, selection)
    seen: set[str] = set()
    stopped = False
    for _ in range(int(max_seconds / _POLL_SECONDS) + 1):
        # The state is read before the events: once the state is final, all events are written.
        path = f"/api/2.0/pipelines/{pipeline_id}/updates/{update_id}"
        state = str(workspace.read(path)["update"]["state"])
        for row in _events(workspace, pipeline_id, update_id):
            event = parse_remote_event(row)
            if event is not None and event.id not in seen:
                seen.add(event.id)
                observer(event)
        if state in ENDED:
            return RemoteUpdate(update_id=update_id, state=state)
        if not stopped and is_stopping():
            stop_remotely(workspace, pipeline_id)
            stopped = True
        workspace.clock.sleep(_POLL_SECONDS)
    raise OperationError("REMOTE_UPDATE_SILENT", update=update_id, seconds=int(max_seconds))


def stop_remotely(workspace: Workspace, pipeline_id: str) -> None:
    """Request the stop of the running update."""
    workspace.repeat("POST", f"/api/2.0/pipelines/{pipeline_id}/stop", {})


def parse_remote_event(row: Mapping[str, Any]) -> Event | None:
    """Convert an event of the service; None if its type or shape is unknown."""
    origin = row.get("origin") or {}
    try:
        return Event(
            id=str(row["id"]),
            sequence=int(((row.get("sequence") or {}).get("data_plane_id") or {}).get("seq_no") or 0),
            origin=Origin(
                pipeline_id=str(origin.get("pipeline_id", "")),
                pipeline_name=str(origin.get("pipeline_name", "")),
                update_id=str(origin["update_id"]),
                dataset_name=origin.get("dataset_name"),
                flow_name=origin.get("flow_name"),
                host=origin.get("host"),
            ),
            timestamp=str(row["timestamp"]),
            message=str(row.get("message", "")),
            level=EventLevel(row.get("level", "INFO")),
            maturity_level=MaturityLevel(row.get("maturity_level") or "STABLE"),
            error=None,
            details=row.get("details") or {},
            event_type=EventType(row["event_type"]),
        )
    except (KeyError, ValueError, TypeError):
        return None


def _start(workspace: Workspace, pipeline_id: str, selection: Mapping[str, Any]) -> str:
    """Start one update and return its id; if the response is lost, it is the newest update that is not in `before`."""
    path = f"/api/2.0/pipelines/{pipeline_id}/updates"
    before = {each["update_id"] for each in _updates(workspace, path)}
    try:
        return str(workspace.write("POST", path, dict(selection))["update_id"])
    except ResourceConflict as error:
        raise OperationError("WORKSPACE_CALL_FAILED", call=f"POST {path}", cause=str(error)) from None
    except ResponseLost:
        started = [each["update_id"] for each in _updates(workspace, path) if each["update_id"] not in before]
        if not started:
            raise
        return str(started[0])


def _updates(workspace: Workspace, path: str) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = workspace.read(path).get("updates") or []
    return found


def _events(workspace: Workspace, pipeline_id: str, update_id: str) -> list[Mapping[str, Any]]:
    """Return all events of an update, oldest first."""
    query: dict[str, Any] = {
        "filter": f"update_id = '{update_id}'",
        "order_by": "timestamp asc",
        "max_results": 250,
    }
    found: list[Mapping[str, Any]] = []
    for _ in range(_PAGES):
        page = workspace.read(f"/api/2.0/pipelines/{pipeline_id}/events", query)
        found += page.get("events") or []
        if not page.get("next_page_token"):
            break
        query = {**query, "page_token": page["next_page_token"]}
    return found
