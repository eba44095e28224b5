"""Gateways and jobs of a workspace that no state claims, and that a bundle may mean under another name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from framework.deploy.api.lookups import listed_ids
from framework.deploy.api.workspace import Workspace
from framework.deploy.gateways.cli_state import StateUnknown, read_cli_state
from framework.deploy.gateways.job_tasks import job_targets
from framework.deploy.plan.planner import is_gateway
from framework.deploy.state.resource_api import Remote, RemoteKind
from framework.deploy.state.state import STATE_FILE, read_state

_CONNECTION = ("connection_name", "connection_id")
_STORAGE = ("gateway_storage_catalog", "gateway_storage_schema")


class Unclaimed:
    """Finds the pipelines and jobs that no state claims; lists and reads each kind once.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        claimed: the ids that the target's own states know.
        folder: the state path of the target.
    """

    def __init__(
        self, workspace: Workspace, kinds: Mapping[str, RemoteKind], *, claimed: Collection[str], folder: str
    ) -> None:
        self._workspace = workspace
        self._kinds = kinds
        self._claimed = claimed
        self._folder = folder
        self._remotes: dict[str, tuple[Remote, ...]] = {}

    def check_gateway(self, key: str, spec: Mapping[str, Any]) -> None:
        """Refuse a new gateway that may be one of the workspace under another name.

        Raises:
            StateUnknown: a gateway that no state claims has the same connection or the same storage.
        """
        for remote in self._of_kind("pipelines"):
            found = remote.spec.as_dict()
            shared = _shared(spec, found) if is_gateway(found) else None
            if shared is not None and not self._is_of_another_target(found, remote.id):
                cause = (
                    f"{key} has no known id, and the gateway {found.get('name')} ({remote.id}), "
                    f"which is in no deployment state, may have the same {shared}"
                )
                raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)

    def check_job(self, key: str, gateways: Collection[str]) -> None:
        """Refuse a new job that runs a gateway which a job of the workspace under another name runs.

        Raises:
            StateUnknown: a job that no state claims has a task that runs one of the gateways.
        """
        for remote in self._of_kind("jobs"):
            found = remote.spec.as_dict()
            if {*job_targets(found).pipelines} & {*gateways} and not self._is_of_another_target(found, remote.id):
                cause = (
                    f"{key} has no known id, and the job {found.get('name')} ({remote.id}), "
                    "which is in no deployment state, runs the same gateway"
                )
                raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)

    def _of_kind(self, kind: str) -> tuple[Remote, ...]:
        if kind not in self._remotes:
            self._remotes[kind] = tuple(self._read(kind))
        return self._remotes[kind]

    def _read(self, kind: str) -> Iterator[Remote]:
        for each in listed_ids(self._workspace, kind.removesuffix("s")):
            remote = None if each in self._claimed else self._kinds[kind].read(each)
            if remote is not None:
                yield remote

    def _is_of_another_target(self, spec: Mapping[str, Any], id: str) -> bool:
        """Whether the state beside the file that the resource names as its deployment's has it."""
        path = str((spec.get("deployment") or {}).get("metadata_file_path") or "")
        folder = path.rpartition("/")[0]
        if folder in ("", self._folder):
            return False
        theirs, ours = read_cli_state(self._workspace, folder), None
        if path.endswith(f"/{STATE_FILE}"):
            ours = read_state(self._workspace, folder)
        known = {*(theirs.ids.values() if theirs else ()), *(each.id for each in (ours.resources if ours else ()))}
        return id in known


def _shared(spec: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """What two gateways share or may share: a value that only one of them names is not known to differ."""
    one, other = (_folded(each.get("gateway_definition")) for each in (spec, found))
    if not any(one.get(name) and other.get(name) for name in _CONNECTION) or _same(one, other, _CONNECTION, any):
        return "connection"
    return "gateway storage" if _same(one, other, _STORAGE, all) else None


def _same(one: Mapping[str, str], other: Mapping[str, str], names: Collection[str], wanted: Any) -> bool:
    """Whether any or all of the fields are equal; a reference without a value equals each value."""
    return bool(wanted(name in one and ("${" in one[name] or one[name] == other.get(name)) for name in names))


def _folded(definition: Any) -> dict[str, str]:
    """The fields that have a value; names of Unity Catalog know no case."""
    fields = definition.items() if isinstance(definition, Mapping) else ()
    return {str(name): str(value).lower() for name, value in fields if value is not None}
