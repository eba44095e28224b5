"""Calls to read, create, replace and delete pipelines, jobs, schemas and volumes in the workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from databricks.sdk.errors import NotFound

from framework.deploy.api.workspace import ResponseLost, Workspace
from framework.deploy.bundle.documents.bundle import FrozenSpec
from framework.deploy.state.normalize import flatten, normalise
from framework.foundation.errors import OperationError

_SEPARATE_CALLS = ("permissions", "grants", "lifecycle")
_CATALOG = "/api/2.1/unity-catalog"
_MAX_RESETS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A resource in the workspace.

    Args:
        modified: time of the last change of its settings; None if the service does not return it.
        update: the latest update of a pipeline: id and state.
        run_as: name of the identity that a pipeline or a job runs as.
    """

    id: str
    spec: FrozenSpec
    modified: int | None = None
    update: tuple[str, str] | None = None
    run_as: str | None = None


class RemoteKind(Protocol):
    """The calls for one kind of resource."""

    def read(self, id: str) -> Remote | None:
        """Read a resource; None if it does not exist."""
        ...

    def create(self, spec: dict[str, Any], owner: str) -> str:
        """Create a resource and return its id; `owner` is the path of the bundle's state, used by `find`."""
        ...

    def replace(self, remote: Remote, spec: dict[str, Any], owner: str) -> None:
        """Replace the settings; refused if they changed since `remote` was read and the service supports the check."""
        ...

    def delete(self, id: str) -> None:
        """Delete a resource; do nothing if it does not exist."""
        ...

    def find(self, spec: dict[str, Any], owner: str) -> str | None:
        """Return the id of a resource that a `create` with a lost response made; None if it made none."""
        ...


class _Pipelines:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def read(self, id: str) -> Remote | None:
        found = self._workspace.find(f"/api/2.0/pipelines/{id}")
        if found is None:
            return None
        updates = found.get("latest_updates") or []
        update = (str(updates[0]["update_id"]), str(updates[0]["state"])) if updates else None
        return Remote(
            id=id,
            spec=FrozenSpec.of(found.get("spec") or {}),
            modified=found.get("last_modified"),
            update=update,
            run_as=found.get("run_as_user_name"),
        )

    def create(self, spec: dict[str, Any], owner: str) -> str:
        made = self._workspace.write("POST", "/api/2.0/pipelines", _body(spec) | _deployment(owner))
        return str(made["pipeline_id"])

    def replace(self, remote: Remote, spec: dict[str, Any], owner: str) -> None:
        body = _body(spec) | _deployment(owner) | {"id": remote.id}
        if remote.modified is not None:
            body["expected_last_modified"] = remote.modified
        self._workspace.write("PUT", f"/api/2.0/pipelines/{remote.id}", body)

    def delete(self, id: str) -> None:
        _delete(self._workspace, "DELETE", f"/api/2.0/pipelines/{id}")

    def find(self, spec: dict[str, Any], owner: str) -> str | None:
        name = spec["name"]
        found = self._workspace.read("/api/2.0/pipelines", {"filter": f"name LIKE '{name}'"})
        for status in found.get("statuses", []):
            remote = self.read(status["pipeline_id"]) if status["name"] == name else None
            if remote is not None and _owner(remote.spec.as_dict()) == owner:
                return remote.id
        return None


class _Jobs:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def read(self, id: str) -> Remote | None:
        found = self._workspace.find("/api/2.2/jobs/get", {"job_id": id})
        if found is None:
            return None
        settings = FrozenSpec.of(found.get("settings") or {})
        return Remote(id=id, spec=settings, run_as=found.get("run_as_user_name"))

    def create(self, spec: dict[str, Any], owner: str) -> str:
        made = self._workspace.write("POST", "/api/2.2/jobs/create", _body(spec) | _deployment(owner))
        return str(made["job_id"])

    def replace(self, remote: Remote, spec: dict[str, Any], owner: str) -> None:
        settings = _body(spec) | _deployment(owner)
        body = {"job_id": int(remote.id), "new_settings": settings}
        for _ in range(_MAX_RESETS):
            try:
                self._workspace.write("POST", "/api/2.2/jobs/reset", body)
            except ResponseLost as lost:
                # A reset restarts a continuous job: it is sent again only if it had no effect.
                self._workspace.clock.sleep(lost.wait_seconds)
                if not self._has(remote.id, settings):
                    continue
            return
        raise OperationError(
            "WORKSPACE_CALL_FAILED", call="POST /api/2.2/jobs/reset", cause="No response; not applied."
        )

    def _has(self, id: str, settings: dict[str, Any]) -> bool:
        found = self.read(id)
        now = flatten(normalise("jobs", {} if found is None else found.spec.as_dict()))
        sent = flatten(normalise("jobs", {key: value for key, value in settings.items() if key != "run_as"}))
        return all(now.get(path) == value for path, value in sent.items())

    def delete(self, id: str) -> None:
        _delete(self._workspace, "POST", "/api/2.2/jobs/delete", {"job_id": int(id)})

    def find(self, spec: dict[str, Any], owner: str) -> str | None:
        found = self._workspace.read("/api/2.2/jobs/list", {"name": spec["name"]})
        mine = [job for job in found.get("jobs", []) if _owner(job.get("settings") or {}) == owner]
        return str(mine[0]["job_id"]) if mine else None


class _Securables:
    """Schemas or volumes, whose id is their full name."""

    def __init__(self, workspace: Workspace, kind: str) -> None:
        self._workspace = workspace
        self._kind = kind

    def read(self, id: str) -> Remote | None:
        found = self._workspace.find(f"{_CATALOG}/{self._kind}/{id}")
        return None if found is None else Remote(id=id, spec=FrozenSpec.of(found))

    def create(self, spec: dict[str, Any], owner: str) -> str:
        del owner
        self._workspace.write("POST", f"{_CATALOG}/{self._kind}", _body(spec))
        return _full_name(spec)

    def replace(self, remote: Remote, spec: dict[str, Any], owner: str) -> None:
        del owner
        change: dict[str, Any] = {key: spec.get(key) for key in ("comment", "properties", "owner") if key in spec}
        self._workspace.repeat("PATCH", f"{_CATALOG}/{self._kind}/{remote.id}", change)

    def delete(self, id: str) -> None:
        _delete(self._workspace, "DELETE", f"{_CATALOG}/{self._kind}/{id}")

    def find(self, spec: dict[str, Any], owner: str) -> str | None:
        del owner
        return _full_name(spec) if self.read(_full_name(spec)) is not None else None


def remote_kinds(workspace: Workspace) -> dict[str, RemoteKind]:
    """Return the calls for each kind of resource that Sluice deploys."""
    return {
        "schemas": _Securables(workspace, "schemas"),
        "volumes": _Securables(workspace, "volumes"),
        "pipelines": _Pipelines(workspace),
        "jobs": _Jobs(workspace),
    }


def set_access(
    workspace: Workspace, kind: str, id: str, *, wanted: dict[str, Any], deployed: dict[str, Any], owner: str
) -> None:
    """Set the permissions or grants of a resource by separate calls; its settings are not written."""
    if kind in ("pipelines", "jobs"):
        entries = [
            {key: value for key, value in entry.items() if key != "level"} | {"permission_level": entry["level"]}
            for entry in wanted.get("permissions") or []
        ]
        if not any(entry["permission_level"] == "IS_OWNER" for entry in entries):
            # The deploying user owns the resource, and must have no second entry.
            entries = [entry for entry in entries if entry.get("user_name") != owner]
            entries.append({"user_name": owner, "permission_level": "IS_OWNER"})
        workspace.repeat("PUT", f"/api/2.0/permissions/{kind}/{id}", {"access_control_list": entries})
        return
    now, then = _grants(wanted), _grants(deployed)
    changes = [
        {
            "principal": principal,
            "add": sorted(now.get(principal, set()) - then.get(principal, set())),
            "remove": sorted(then.get(principal, set()) - now.get(principal, set())),
        }
        for principal in sorted({*now, *then})
    ]
    workspace.repeat("PATCH", f"{_CATALOG}/permissions/{kind.removesuffix('s')}/{id}", {"changes": changes})


def access_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the part of settings that is written by separate calls: permissions and grants."""
    return {key: spec[key] for key in ("permissions", "grants") if spec.get(key)}


def _grants(spec: dict[str, Any]) -> dict[str, set[str]]:
    return {entry["principal"]: set(entry["privileges"]) for entry in spec.get("grants") or []}


def _body(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key not in _SEPARATE_CALLS}


def _deployment(owner: str) -> dict[str, Any]:
    return {"deployment": {"kind": "BUNDLE", "metadata_file_path": owner}}


def _owner(spec: dict[str, Any]) -> str | None:
    path = (spec.get("deployment") or {}).get("metadata_file_path")
    return None if path is None else str(path)


def _full_name(spec: dict[str, Any]) -> str:
    parts = (spec.get("catalog_name"), spec.get("schema_name"), spec["name"])
    return ".".join(str(part) for part in parts if part)


def _delete(workspace: Workspace, method: str, path: str, body: dict[str, Any] | None = None) -> None:
    try:
        workspace.repeat(method, path, body)
    except NotFound:
        return
