"""A Databricks workspace in memory, with the API that deploys and runs of pipelines use."""

from __future__ import annotations

import copy
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from framework.testing.manual_clock import ManualClock
from framework.testing.workspace.exchange import Handler, Request, Routes, ServiceFault
from framework.testing.workspace.faults import Fault, FaultRules
from framework.testing.workspace.files import WorkspaceFiles
from framework.testing.workspace.gateway import SourceTable
from framework.testing.workspace.jobs import Jobs
from framework.testing.workspace.pipelines import Pipeline, Pipelines
from framework.testing.workspace.statements import Statements
from framework.testing.workspace.unity_catalog import UnityCatalog

_PAGE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    path: str
    items: str
    name: str = "name"
    id: str = "id"


_LISTINGS: Mapping[str, _Listing] = {
    "alert": _Listing(path="sql/alerts", items="results", name="display_name"),
    "cluster": _Listing(path="clusters/list", items="clusters", name="cluster_name", id="cluster_id"),
    "cluster_policy": _Listing(path="policies/clusters/list", items="policies", id="policy_id"),
    "dashboard": _Listing(path="lakeview/dashboards", items="dashboards", name="display_name", id="dashboard_id"),
    "instance_pool": _Listing(
        path="instance-pools/list", items="instance_pools", name="instance_pool_name", id="instance_pool_id"
    ),
    "metastore": _Listing(path="unity-catalog/metastores", items="metastores", id="metastore_id"),
    "notification_destination": _Listing(path="notification-destinations", items="results", name="display_name"),
    "query": _Listing(path="sql/queries", items="results", name="display_name"),
    "service_principal": _Listing(
        path="preview/scim/v2/ServicePrincipals", items="Resources", name="displayName", id="applicationId"
    ),
    "warehouse": _Listing(path="sql/warehouses", items="warehouses"),
}


class Directory:
    """Names and ids of objects by kind, listed in pages."""

    def __init__(self) -> None:
        self._entries: dict[str, list[tuple[str, str]]] = {kind: [] for kind in _LISTINGS}

    def add(self, kind: str, name: str, id: str) -> None:
        """Add an object of a kind; names may repeat."""
        self._entries[kind].append((name, id))

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each listing."""
        return {f"GET /api/V/{listing.path}": self._handler(kind) for kind, listing in _LISTINGS.items()}

    def _handler(self, kind: str) -> Handler:
        listing = _LISTINGS[kind]

        def answer(request: Request) -> dict[str, Any]:
            first = int(request.query.get("page_token") or 0)
            entries = self._entries[kind]
            page = [{listing.name: entry[0], listing.id: entry[1]} for entry in entries[first : first + _PAGE]]
            more = {"next_page_token": str(first + _PAGE)} if first + _PAGE < len(entries) else {}
            return {listing.items: page} | more

        return answer


WAREHOUSE = "warehouse-1"
TOKEN = "dapi-stand-in-0123456789abcdef"  # noqa: S105 - valid for this stand-in only
USER = "ada@example.com"


class ObjectPermissions:
    """Access control lists by kind and id of the object."""

    def __init__(self) -> None:
        self.lists: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def read(self, request: Request) -> dict[str, Any]:
        """Return the list of an object."""
        kind, name = request.parameters["kind"], request.parameters["name"]
        entries = [
            {
                **{key: value for key, value in entry.items() if key != "permission_level"},
                "all_permissions": [{"permission_level": entry["permission_level"], "inherited": False}],
            }
            for entry in self.lists.get((kind, name), [])
        ]
        return {"object_id": f"/{kind}/{name}", "object_type": kind, "access_control_list": entries}

    def replace(self, request: Request) -> dict[str, Any]:
        """Replace the list of an object."""
        entries = copy.deepcopy(list(request.body.get("access_control_list", [])))
        self.lists[request.parameters["kind"], request.parameters["name"]] = entries
        return self.read(request)


class LineCut(Exception):  # noqa: N818 - an event of a call, not an error of the test
    """The connection is cut without a response."""


class StandIn:
    """State and responses of the workspace; `StandInWorkspace` serves it by HTTP.

    Args:
        clock: the virtual clock; it does not advance by itself.
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.requests: list[Request] = []
        self.faults = FaultRules()
        self.tokens: dict[str, str] = {TOKEN: USER}
        self._counts: Counter[str] = Counter()
        self._lock = threading.RLock()
        self.files = WorkspaceFiles()
        self.pipelines = Pipelines(self.clock.now, self._new_id)
        self.jobs = Jobs(self.clock.now, self._new_number, self.pipelines)
        self.catalog = UnityCatalog()
        self.permissions = ObjectPermissions()
        self.directory = Directory()
        self.sql = Statements(WAREHOUSE, self._event_rows, self._new_id)
        self._routes = Routes(self._handlers())

    def answer(self, request: Request, token: str) -> dict[str, Any]:
        """Return the response to a call and record the call in `requests`.

        Raises:
            ServiceFault: an error response.
            LineCut: a fault suppresses the response.
        """
        with self._lock:
            request = replace(request, user=self.tokens.get(token, ""))
            try:
                answer = self._answer(request)
            except ServiceFault as fault:
                self.requests.append(replace(request, status=fault.status))
                raise
            except LineCut:
                self.requests.append(request)
                raise
            self.requests.append(replace(request, status=200))
            return answer

    def fail(self, fault: Fault) -> None:
        """Add a fault for calls from now on."""
        self.faults.add(fault)

    def expire_token(self) -> None:
        """Reject all tokens from now on."""
        self.tokens.clear()

    def source_tables(self, gateway: str, *tables: SourceTable) -> None:
        """Set the source tables of a gateway."""
        self.pipelines.source_tables[gateway] = tables

    def flows(self, pipeline: str, *flows: tuple[str, int]) -> None:
        """Set the flows of a pipeline's updates, each with its number of written rows."""
        self.pipelines.flows[pipeline] = flows

    def pipeline(self, name: str) -> Pipeline:
        """Return a pipeline by name, advanced to the clock's time.

        Raises:
            KeyError: there is no such pipeline.
        """
        with self._lock:
            self.pipelines.settle()
            self.jobs.settle()
            found = [each for each in self.pipelines.by_id.values() if each.name == name]
            if not found:
                raise KeyError(name)
            return found[0]

    def writes(self, path: str = "") -> list[Request]:
        """Return the writes so far whose path contains `path`."""
        return [request for request in self.requests if request.is_write and path in request.path]

    def calls(self, path: str = "") -> list[Request]:
        """Return the calls so far whose path contains `path`."""
        return [request for request in self.requests if path in request.path]

    def forget_requests(self) -> None:
        """Clear the record of requests."""
        self.requests.clear()

    def _answer(self, request: Request) -> dict[str, Any]:
        if request.path.startswith("/.well-known"):
            return {"oidc_endpoint": "http://127.0.0.1/oidc"}
        if not request.user:
            raise ServiceFault(401, "UNAUTHENTICATED", "The access token is invalid or has expired.")
        self.pipelines.settle()
        self.jobs.settle()
        fault = self.faults.due(request)
        if fault is not None and not fault.after_effect:
            raise _failure(fault)
        found = self._routes.find(request.method, request.path)
        if found is None:
            raise ServiceFault(404, "ENDPOINT_NOT_FOUND", f"No API found for '{request.method} {request.path}'.")
        handler, parameters = found
        answer = handler(replace(request, parameters=parameters))
        if fault is not None:
            raise _failure(fault)
        return answer

    def _new_id(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind}-{self._counts[kind]:04d}"

    def _new_number(self) -> int:
        self._counts["number"] += 1
        return 1000 + self._counts["number"]

    def _event_rows(self, name: str) -> list[dict[str, Any]] | None:
        """Return the event log of a pipeline, by its id or its published table; None if there is none."""
        for pipeline in self.pipelines.by_id.values():
            table = pipeline.spec.get("event_log", {})
            published = ".".join(str(table.get(part, "")) for part in ("catalog", "schema", "name")).lower()
            if name in (pipeline.pipeline_id, published):
                return pipeline.events
        return None

    def _handlers(self) -> dict[str, Handler]:
        files, pipelines, jobs, catalog = self.files, self.pipelines, self.jobs, self.catalog
        return {
            "GET /api/V/preview/scim/v2/Me": _me,
            "POST /api/V/workspace/import": files.import_file,
            "GET /api/V/workspace/export": files.export_file,
            "GET /api/V/workspace/list": files.list_folder,
            "POST /api/V/workspace/mkdirs": files.make_folders,
            "POST /api/V/workspace/delete": files.delete,
            "GET /api/V/workspace/get-status": files.status,
            "POST /api/V/pipelines": pipelines.create,
            "GET /api/V/pipelines": pipelines.listing,
            "GET /api/V/pipelines/{pipeline_id}": pipelines.read,
            "PUT /api/V/pipelines/{pipeline_id}": pipelines.replace,
            "DELETE /api/V/pipelines/{pipeline_id}": pipelines.remove,
            "GET /api/V/pipelines/{pipeline_id}/updates": pipelines.list_updates,
            "POST /api/V/pipelines/{pipeline_id}/updates": pipelines.start,
            "GET /api/V/pipelines/{pipeline_id}/updates/{update_id}": pipelines.read_update,
            "POST /api/V/pipelines/{pipeline_id}/stop": pipelines.stop,
            "GET /api/V/pipelines/{pipeline_id}/events": pipelines.list_events,
            "POST /api/V/jobs/create": jobs.create,
            "POST /api/V/jobs/reset": jobs.reset,
            "GET /api/V/jobs/get": jobs.read,
            "GET /api/V/jobs/list": jobs.listing,
            "POST /api/V/jobs/delete": jobs.remove,
            "POST /api/V/jobs/run-now": jobs.run_now,
            "GET /api/V/jobs/runs/list": jobs.list_runs,
            "POST /api/V/unity-catalog/schemas": catalog.create_schema,
            "GET /api/V/unity-catalog/schemas/{name}": catalog.read_schema,
            "PATCH /api/V/unity-catalog/schemas/{name}": catalog.change_schema,
            "DELETE /api/V/unity-catalog/schemas/{name}": catalog.delete_schema,
            "POST /api/V/unity-catalog/volumes": catalog.create_volume,
            "GET /api/V/unity-catalog/volumes/{name}": catalog.read_volume,
            "PATCH /api/V/unity-catalog/volumes/{name}": catalog.change_volume,
            "DELETE /api/V/unity-catalog/volumes/{name}": catalog.delete_volume,
            "GET /api/V/unity-catalog/permissions/{kind}/{name}": catalog.read_grants,
            "PATCH /api/V/unity-catalog/permissions/{kind}/{name}": catalog.change_grants,
            "GET /api/V/permissions/{kind}/{name}": self.permissions.read,
            "PUT /api/V/permissions/{kind}/{name}": self.permissions.replace,
            **self.directory.handlers(),
            "POST /api/V/sql/statements": self.sql.execute,
            "GET /api/V/sql/statements/{statement_id}/result/chunks/{index}": self.sql.chunk,
        }

    def now(self) -> datetime:
        """Return the time on the virtual clock."""
        return self.clock.now()


def short_name(user: str) -> str:
    """Return the part of a user name before the @, in letters, digits and underscores."""
    return re.sub(r"\W", "_", user.partition("@")[0])


def _me(request: Request) -> dict[str, Any]:
    return {"id": "1", "userName": request.user, "displayName": short_name(request.user), "active": True}


def _failure(fault: Fault) -> Exception:
    return LineCut() if fault.status == 0 else fault.answer()
