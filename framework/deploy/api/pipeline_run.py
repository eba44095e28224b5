"""An update of a deployed pipeline: started, and followed by its events until it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from databricks.sdk.errors import ResourceConflict

from framework.deploy.api.workspace import AnswerLost, Workspace
from framework.foundation.errors import OperationError
from framework.record.events import Event, EventLevel, EventType, MaturityLevel, Origin

_POLL_SECONDS = 2.0
_MOST_SECONDS = 24 * 3600.0
_PAGES = 100
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRefresh:
    """What an update brings up to date; nothing named means all."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    reset_checkpoints: tuple[str, ...] = ()

    def body(self) -> dict[str, Any]:
        """The request that starts it, in the service's words."""
        asked = {
            "refresh_selection": list(self.refresh),
            "full_refresh_selection": list(self.full_refresh),
            "reset_checkpoint_selection": list(self.reset_checkpoints),
            "full_refresh": self.full_refresh_all,
        }
        return {key: value for key, value in asked.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteUpdate:
    """How an update ended."""

    update_id: str
    state: str


def run_remotely(
    workspace: Workspace,
    pipeline_id: str,
    refresh: RemoteRefresh,
    *,
    observer: Callable[[Event], None],
    is_stopping: Callable[[], bool] = lambda: False,
    most_seconds: float = _MOST_SECONDS,
) -> RemoteUpdate:
    """Start an update and hand its events to `observer`, each once and in order, until it has ended.

    Args:
        workspace: where the pipeline is.
        pipeline_id: its id there.
        refresh: what the update brings up to date.
        observer: gets the events.
        is_stopping: asked at each look; once it is true the update is told to stop, and followed to its end.
        most_seconds: after which it is left alone.

    Raises:
        OperationError: WORKSPACE_CALL_FAILED when another update runs; REMOTE_UPDATE_SILENT when it does not end.
    """
    update_id = _start(workspace, pipeline_id, refresh)
    seen: set[str] = set()
    stopped = False
    for _ in range(int(most_seconds / _POLL_SECONDS) + 1):
        # The state is read before the events: those of a state that has ended are all there.
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
    raise OperationError("REMOTE_UPDATE_SILENT", update=update_id, seconds=int(most_seconds))


def stop_remotely(workspace: Workspace, pipeline_id: str) -> None:
    """Ask the running update to stop."""
    workspace.repeat("POST", f"/api/2.0/pipelines/{pipeline_id}/stop", {})


def parse_remote_event(row: Mapping[str, Any]) -> Event | None:
    """An event of the service as one of ours; None for one whose type or shape we don't know."""
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


def _start(workspace: Workspace, pipeline_id: str, refresh: RemoteRefresh) -> str:
    """Start an update, once: when the answer is lost, the newest one that was not there before is ours."""
    path = f"/api/2.0/pipelines/{pipeline_id}/updates"
    before = {each["update_id"] for each in _updates(workspace, path)}
    try:
        return str(workspace.write("POST", path, refresh.body())["update_id"])
    except ResourceConflict as error:
        raise OperationError("WORKSPACE_CALL_FAILED", call=f"POST {path}", cause=str(error)) from None
    except AnswerLost:
        fresh = [each["update_id"] for each in _updates(workspace, path) if each["update_id"] not in before]
        if not fresh:
            raise
        return str(fresh[0])


def _updates(workspace: Workspace, path: str) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = workspace.read(path).get("updates") or []
    return found


def _events(workspace: Workspace, pipeline_id: str, update_id: str) -> list[Mapping[str, Any]]:
    """All events of an update, oldest first."""
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
