"""Pipelines of the workspace: their stored settings, updates, restarts and event logs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from framework.testing.workspace.exchange import Request, ServiceFault, invalid, missing, run_as_of
from framework.testing.workspace.gateway import SourceTable, interval_of
from framework.testing.workspace.updates import WorkspaceUpdate, gateway_events, pipeline_events, update_event

_FIXED = (
    ("storage",),
    ("gateway_definition", "connection_id"),
    ("gateway_definition", "connection_name"),
    ("gateway_definition", "gateway_storage_catalog"),
    ("gateway_definition", "gateway_storage_schema"),
    ("ingestion_definition", "connection_name"),
    ("ingestion_definition", "ingestion_gateway_id"),
    ("ingestion_definition", "ingest_from_uc_foreign_catalog"),
)
_IN_CALL_ONLY = ("expected_last_modified", "allow_duplicate_names", "pipeline_id", "dry_run", "run_as")
_PAGE = 100


class Pipeline:
    """One pipeline: its settings as stored, its updates, its event log."""

    def __init__(self, *, pipeline_id: str, spec: dict[str, Any], creator: str, modified: int) -> None:
        self.pipeline_id = pipeline_id
        self.spec = spec
        self.creator = creator
        self.run_as = creator
        self.modified = modified
        self.updates: list[WorkspaceUpdate] = []
        self.events: list[dict[str, Any]] = []
        self.snapshots_done: set[str] = set()
        self.puts = 0

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return str(self.spec.get("name", ""))

    @property
    def is_gateway(self) -> bool:
        """Whether it is an ingestion gateway."""
        return "gateway_definition" in self.spec

    @property
    def active(self) -> WorkspaceUpdate | None:
        """The running update; None if there is none."""
        return next((update for update in reversed(self.updates) if update.active), None)

    def cancel(self, now: datetime) -> None:
        """Cancel the running update; a gateway loses its unfinished snapshots."""
        update = self.active
        if update is not None:
            update.state = "CANCELED"
            self.publish(update, [update_event("CANCELED", now)])

    def publish(self, update: WorkspaceUpdate, events: Sequence[dict[str, Any]]) -> None:
        """Append events to the log, with id and origin."""
        for event in events:
            number = len(self.events) + 1
            flow = event.pop("flow", None)
            origin = {"pipeline_id": self.pipeline_id, "pipeline_name": self.name, "update_id": update.update_id}
            if flow is not None:
                origin |= {"flow_name": flow, "dataset_name": flow}
            self.events.append(
                {
                    "origin": origin,
                    **event,
                    "id": f"{self.pipeline_id}-{number:06d}",
                    "sequence": {"data_plane_id": {"instance": update.update_id, "seq_no": number}},
                }
            )


class Pipelines:
    """All pipelines, by id.

    Args:
        now: the virtual clock.
        new_id: generates ids, in a deterministic order.
    """

    def __init__(self, now: Callable[[], datetime], new_id: Callable[[str], str]) -> None:
        self._now = now
        self._new_id = new_id
        self.by_id: dict[str, Pipeline] = {}
        self.source_tables: dict[str, tuple[SourceTable, ...]] = {}
        self.flows: dict[str, tuple[tuple[str, int], ...]] = {}
        self._modified = 0

    def settle(self) -> None:
        """Advance every running update to the clock's time."""
        for pipeline in self.by_id.values():
            update = pipeline.active
            if update is None:
                continue
            if pipeline.is_gateway:
                origin = {"pipeline_id": pipeline.pipeline_id, "update_id": update.update_id}
                tables = self.source_tables.get(pipeline.name, ())
                events = gateway_events(
                    update,
                    tables,
                    pipeline.snapshots_done,
                    now=self._now(),
                    interval=interval_of(pipeline.spec),
                    origin=origin,
                )
                pipeline.publish(update, events)
            else:
                pipeline.publish(update, pipeline_events(update, self.flows.get(pipeline.name, ()), self._now()))

    def create(self, request: Request) -> dict[str, Any]:
        """Create a pipeline; a duplicate name is refused unless duplicates are allowed."""
        body = dict(request.body)
        name = body.get("name")
        if any(each.name == name for each in self.by_id.values()) and not body.get("allow_duplicate_names"):
            raise ServiceFault(409, "RESOURCE_CONFLICT", f"The pipeline name '{name}' is already used.")
        pipeline_id = self._new_id("pipeline")
        spec = _stored(body, pipeline_id)
        made = Pipeline(pipeline_id=pipeline_id, spec=spec, creator=request.user, modified=self._stamp())
        made.run_as = run_as_of(body, made.run_as)
        self.by_id[pipeline_id] = made
        if spec.get("continuous"):
            self._begin(made, "USER_ACTION", {})
        return {"pipeline_id": pipeline_id}

    def read(self, request: Request) -> dict[str, Any]:
        """Return a pipeline with its settings, its state and its latest updates."""
        pipeline = self.find(request)
        return {
            "pipeline_id": pipeline.pipeline_id,
            "name": pipeline.name,
            "spec": copy.deepcopy(pipeline.spec),
            "state": "RUNNING" if pipeline.active else "IDLE",
            "health": "HEALTHY",
            "creator_user_name": pipeline.creator,
            "run_as_user_name": pipeline.run_as,
            "last_modified": pipeline.modified,
            "latest_updates": [_brief(update) for update in reversed(pipeline.updates)][:5],
        }

    def replace(self, request: Request) -> dict[str, Any]:
        """Replace all settings; the update of a continuous pipeline is cancelled, and a new one starts."""
        pipeline = self.find(request)
        expected = request.body.get("expected_last_modified")
        if expected is not None and int(expected) != pipeline.modified:
            raise ServiceFault(409, "RESOURCE_CONFLICT", "The pipeline was modified since it was read.")
        spec = _stored(dict(request.body), pipeline.pipeline_id)
        for path in _FIXED:
            if path[0] != "storage" and _at(spec, path) != _at(pipeline.spec, path):
                raise invalid(f"{'.'.join(path)} of a pipeline can't be changed.")
        pipeline.spec, pipeline.modified = spec, self._stamp()
        pipeline.run_as = run_as_of(request.body, pipeline.run_as)
        pipeline.puts += 1
        if spec.get("continuous"):
            pipeline.cancel(self._now())
            self._begin(pipeline, "SETTINGS_CHANGE", {})
        return {}

    def remove(self, request: Request) -> dict[str, Any]:
        """Delete a pipeline with its updates and events."""
        del self.by_id[self.find(request).pipeline_id]
        return {}

    def listing(self, request: Request) -> dict[str, Any]:
        """Return a page of pipelines; `filter` supports `name LIKE '…'`."""
        wanted = request.query.get("filter", "")
        name = wanted.partition("'")[2].rpartition("'")[0].replace("%", "") if wanted else ""
        found = [each for each in self.by_id.values() if name in each.name]
        first = int(request.query.get("page_token") or 0)
        page: dict[str, Any] = {
            "statuses": [
                {
                    "pipeline_id": each.pipeline_id,
                    "name": each.name,
                    "creator_user_name": each.creator,
                    "state": "RUNNING" if each.active else "IDLE",
                    "latest_updates": [_brief(update) for update in reversed(each.updates)][:5],
                }
                for each in found[first : first + _PAGE]
            ]
        }
        return page | ({"next_page_token": str(first + _PAGE)} if first + _PAGE < len(found) else {})

    def start(self, request: Request) -> dict[str, Any]:
        """Start an update; refused while another one runs."""
        pipeline = self.find(request)
        if pipeline.active:
            raise ServiceFault(409, "RESOURCE_CONFLICT", f"An active update {pipeline.active.update_id} exists.")
        asked = {key: value for key, value in request.body.items() if key != "cause" and value}
        return {"update_id": self._begin(pipeline, request.body.get("cause", "API_CALL"), asked).update_id}

    def stop(self, request: Request) -> dict[str, Any]:
        """Cancel the running update."""
        self.find(request).cancel(self._now())
        return {}

    def run(self, pipeline_id: str) -> bool:
        """Start an update unless one runs, as a task of a job does; return False if there is no such pipeline."""
        pipeline = self.by_id.get(pipeline_id)
        if pipeline is not None and not pipeline.active:
            self._begin(pipeline, "JOB_TASK", {})
        return pipeline is not None

    def list_updates(self, request: Request) -> dict[str, Any]:
        """Return the updates, newest first."""
        pipeline = self.find(request)
        return {"updates": [update.info(pipeline.pipeline_id) for update in reversed(pipeline.updates)][:_PAGE]}

    def read_update(self, request: Request) -> dict[str, Any]:
        """Return one update."""
        pipeline = self.find(request)
        wanted = request.parameters["update_id"]
        for update in pipeline.updates:
            if update.update_id == wanted:
                return {"update": update.info(pipeline.pipeline_id)}
        raise missing("The update", wanted)

    def list_events(self, request: Request) -> dict[str, Any]:
        """Return events, newest first, or oldest first on request; level METRICS is only in the event log table."""
        pipeline = self.find(request)
        events = [event for event in pipeline.events if event["level"] != "METRICS"]
        update = request.query.get("filter", "").partition("update_id = '")[2].partition("'")[0]
        if update:
            events = [event for event in events if event["origin"]["update_id"] == update]
        if "asc" not in request.query.get("order_by", ""):
            events.reverse()
        first, most = int(request.query.get("page_token") or 0), int(request.query.get("max_results") or 25)
        page: dict[str, Any] = {"events": copy.deepcopy(events[first : first + most])}
        return page | ({"next_page_token": str(first + most)} if first + most < len(events) else {})

    def find(self, request: Request) -> Pipeline:
        """Return the pipeline in the request's path."""
        pipeline = self.by_id.get(request.parameters["pipeline_id"])
        if pipeline is None:
            raise missing("The pipeline", request.parameters["pipeline_id"])
        return pipeline

    def _begin(self, pipeline: Pipeline, cause: str, asked: dict[str, Any]) -> WorkspaceUpdate:
        update = WorkspaceUpdate(
            update_id=self._new_id("update"),
            cause=cause,
            began=self._now(),
            asked=asked,
            endless=bool(pipeline.spec.get("continuous")),
        )
        pipeline.updates.append(update)
        return update

    def _stamp(self) -> int:
        """Return a unique modification time."""
        self._modified = max(self._modified + 1, int(self._now().timestamp() * 1000))
        return self._modified


def _stored(body: dict[str, Any], pipeline_id: str) -> dict[str, Any]:
    """Return settings as the service stores them, in its spelling and with its defaults."""
    spec = {key: copy.deepcopy(value) for key, value in body.items() if key not in _IN_CALL_ONLY and value is not None}
    spec["id"] = pipeline_id
    spec["channel"] = str(spec.get("channel", "CURRENT")).upper()
    spec["edition"] = str(spec.get("edition", "ADVANCED")).upper()
    spec["continuous"] = bool(spec.get("continuous", False))
    spec["development"] = bool(spec.get("development", False))
    if "catalog" in spec:
        spec["catalog"] = str(spec["catalog"]).lower()
    else:
        spec.setdefault("storage", f"dbfs:/pipelines/{pipeline_id}")
    kind = "INGESTION_GATEWAY" if "gateway_definition" in spec else "WORKSPACE"
    spec["pipeline_type"] = "MANAGED_INGESTION" if "ingestion_definition" in spec else kind
    spec["data_sampling"] = False
    return spec


def _brief(update: WorkspaceUpdate) -> dict[str, Any]:
    return {
        "update_id": update.update_id,
        "state": update.state,
        "creation_time": update.began.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def _at(spec: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = spec
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
