"""State of a target as a deploy by another tool would find it.

The sources are the state of the Databricks CLI, Sluice's own state, and the names of resources in the workspace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.lookups import listed_ids, workspace_lookup
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.checks.references import resolve
from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.gateways.cli_state import CliState, StateUnknown, read_cli_state
from framework.deploy.gateways.event_log import ingested_tables
from framework.deploy.gateways.gateway_reader import GatewayReader, job_targets
from framework.deploy.plan.planner import is_gateway
from framework.deploy.state.resource_api import Remote, RemoteKind
from framework.deploy.state.state import STATE_FILE, Deployed, DeployState, new_state, read_state
from framework.foundation.errors import OperationError
from framework.foundation.secrets.secrecy import hide_in_text

_CONNECTION = ("connection_name", "connection_id")
_STORAGE = ("gateway_storage_catalog", "gateway_storage_schema")


def external_state(workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle) -> DeployState:
    """Return the resources and their ids as a deploy of the bundle by another tool would find them.

    The state of the Databricks CLI takes precedence; Sluice's state adds the baseline of the same resource. A gateway
    that is in neither state, or a job that runs one, is looked up by its name. Without a state of the CLI, a gateway or
    job that is not found by name may exist under another name: if the workspace has a candidate that no state contains,
    the result is unknown.

    Raises:
        StateUnknown: a state can't be read, two states conflict, a name is not unique, a gateway may have another name,
            or the workspace does not respond.
    """
    try:
        own = read_state(workspace, bundle.state_path) or new_state()
        cli_state = read_cli_state(workspace, bundle.state_path)
        state = _merge_cli_state(own, cli_state, bundle)
        return _NameLookup(workspace, kinds, bundle, has_cli_state=cli_state is not None).complete(state)
    except StateUnknown:
        raise
    except (OperationError, DatabricksError) as error:
        raise state_unknown(error) from error


def state_unknown(error: OperationError | DatabricksError | OSError) -> StateUnknown:
    """Return the error for a failed call without which the guard has no verdict."""
    what = error.what if isinstance(error, OperationError) else hide_in_text(str(error)) or type(error).__name__
    return StateUnknown("GUARD_STATE_UNKNOWN", cause=" ".join(what.split()).removesuffix("."))


def _merge_cli_state(own: DeployState, cli_state: CliState | None, bundle: Bundle) -> DeployState:
    resources = {each.key: each for each in bundle.resources}
    state = own
    if cli_state is None:
        return own
    for key, found in cli_state.ids.items():
        previous = own.get(key)
        if previous is not None and previous.id == found:
            continue
        if previous is not None and previous.id is not None:
            cause = f"{key} has the id {previous.id} in the state of Sluice, but {found} in {cli_state.path}"
            raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
        state = state.with_resource(_known(key, found, resources.get(key)))
    return state


class _NameLookup:
    """Looks up by name the gateways, then the jobs that run one, that are in no state.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        bundle: the bundle.
        has_cli_state: whether the Databricks CLI has a state of the target; a deploy by it then changes only resources
            in that state.
    """

    def __init__(
        self, workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle, *, has_cli_state: bool
    ) -> None:
        self._workspace = workspace
        self._kinds = kinds
        self._bundle = bundle
        self._has_cli_state = has_cli_state
        self._look_up = workspace_lookup(workspace)

    def complete(self, state: DeployState) -> DeployState:
        """Return the state with the resources that are found by name.

        Raises:
            StateUnknown: a name is not unique, or a gateway may have another name in the workspace.
        """
        resources = self._bundle.resources
        unrecorded = [each for each in resources if (known := state.get(each.key)) is None or known.id is None]
        for resource in (each for each in unrecorded if each.kind == "pipelines"):
            state = self._with_pipeline(state, resource)
        self._check_unmanaged_gateways(state)
        gateway_reader = GatewayReader(self._workspace, self._kinds, ingested_tables(self._bundle))
        for resource in (each for each in unrecorded if each.kind == "jobs"):
            state = self._with_job(state, resource, gateway_reader)
        self._check_unmanaged_jobs(state, gateway_reader)
        return state

    def _with_pipeline(self, state: DeployState, resource: Resource) -> DeployState:
        """Add the pipeline with the resource's name if it is a gateway in the workspace or in the bundle."""
        found = self._look_up("pipeline", resource.name)
        if not is_gateway(resource.spec.as_dict()):
            remotes = [self._kinds["pipelines"].read(each) for each in found]
            if not any(remote is not None and is_gateway(remote.spec.as_dict()) for remote in remotes):
                return state
        return _adopted(state, resource, found)

    def _with_job(self, state: DeployState, resource: Resource, gateway_reader: GatewayReader) -> DeployState:
        """Add the job with the resource's name if it runs a gateway in the workspace or in the bundle."""
        found = self._look_up("job", resource.name)
        remotes = [self._kinds["jobs"].read(each) for each in found]
        specs = [self._resolved(state, resource), *(each.spec.as_dict() for each in remotes if each is not None)]
        return _adopted(state, resource, found) if gateway_reader.gateways_run_by(specs) else state

    def _check_unmanaged_gateways(self, state: DeployState) -> None:
        unmanaged = self._unmanaged(state)
        for resource in self._missing(state, "pipelines"):
            if is_gateway(spec := self._resolved(state, resource)):
                unmanaged.check_gateway(resource.key, spec)

    def _check_unmanaged_jobs(self, state: DeployState, gateway_reader: GatewayReader) -> None:
        unmanaged = self._unmanaged(state)
        for resource in self._missing(state, "jobs"):
            if gateways := gateway_reader.gateways_run_by([self._resolved(state, resource)]):
                unmanaged.check_job(resource.key, gateways)

    def _missing(self, state: DeployState, kind: str) -> Iterator[Resource]:
        """Return the resources of a kind without a known id; none if the CLI has a state, which is complete."""
        for resource in () if self._has_cli_state else self._bundle.resources:
            known = state.get(resource.key)
            if resource.kind == kind and (known is None or known.id is None):
                yield resource

    def _unmanaged(self, state: DeployState) -> UnmanagedResources:
        managed_ids = frozenset(each.id for each in state.resources if each.id is not None)
        return UnmanagedResources(self._workspace, self._kinds, managed_ids=managed_ids, folder=self._bundle.state_path)

    def _resolved(self, state: DeployState, resource: Resource) -> dict[str, Any]:
        ids = {each.key: each.id for each in state.resources if each.id is not None}
        specs = {each.key: each.spec for each in self._bundle.resources}
        resolved: dict[str, Any] = resolve(resource.spec.as_dict(), ids, specs)
        return resolved


def _adopted(state: DeployState, resource: Resource, found: Sequence[str]) -> DeployState:
    """Add the one resource with the name to the state; return it unchanged if none has the name."""
    if len(found) > 1:
        cause = f"{len(found)} {resource.kind} have the same name {resource.name} as {resource.key}: {', '.join(found)}"
        raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
    return state.with_resource(_known(resource.key, found[0], resource)) if found else state


def _known(key: str, id: str, resource: Resource | None) -> Deployed:
    """Return a resource without a baseline: each difference from the bundle is a change by the bundle."""
    if resource is None:
        return Deployed(key=key, kind=key.partition(".")[0], id=id, spec=FrozenSpec.of({}))
    return Deployed(
        key=key,
        kind=resource.kind,
        id=id,
        spec=resource.spec,
        depends_on=resource.depends_on,
        prevent_destroy=resource.prevent_destroy,
        secrets=resource.secrets,
    )


class UnmanagedResources:
    """Finds pipelines and jobs of the workspace that are in no state; lists and reads each kind once.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        managed_ids: the ids in the target's own states.
        folder: the state path of the target.
    """

    def __init__(
        self, workspace: Workspace, kinds: Mapping[str, RemoteKind], *, managed_ids: Collection[str], folder: str
    ) -> None:
        self._workspace = workspace
        self._kinds = kinds
        self._managed_ids = managed_ids
        self._folder = folder
        self._remotes: dict[str, tuple[Remote, ...]] = {}

    def check_gateway(self, key: str, spec: Mapping[str, Any]) -> None:
        """Refuse a new gateway that may already exist under another name.

        Raises:
            StateUnknown: a gateway that is in no state has the same connection or the same storage.
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
        """Refuse a new job that may already exist under another name: a job in no state runs the same gateway.

        Raises:
            StateUnknown: there is such a job.
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
            remote = None if each in self._managed_ids else self._kinds[kind].read(each)
            if remote is not None:
                yield remote

    def _is_of_another_target(self, spec: Mapping[str, Any], id: str) -> bool:
        """Return whether the state file that the resource names as its deployment's contains the id."""
        path = str((spec.get("deployment") or {}).get("metadata_file_path") or "")
        folder = path.rpartition("/")[0]
        if folder in ("", self._folder):
            return False
        cli_state = read_cli_state(self._workspace, folder)
        own_state = read_state(self._workspace, folder) if path.endswith(f"/{STATE_FILE}") else None
        own_ids = () if own_state is None else (each.id for each in own_state.resources)
        return id in {*(() if cli_state is None else cli_state.ids.values()), *own_ids}


def _shared(spec: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """Return what two gateways share or may share; a value that only one of them names may be equal."""
    one, other = (_lower_fields(each.get("gateway_definition")) for each in (spec, found))
    if not any(one.get(name) and other.get(name) for name in _CONNECTION) or _same(one, other, _CONNECTION, any):
        return "connection"
    return "gateway storage" if _same(one, other, _STORAGE, all) else None


def _same(one: Mapping[str, str], other: Mapping[str, str], names: Collection[str], wanted: Any) -> bool:
    """Return whether any or all of the fields are equal; an unresolved reference equals any value."""
    return bool(wanted(name in one and ("${" in one[name] or one[name] == other.get(name)) for name in names))


def _lower_fields(definition: Any) -> dict[str, str]:
    """Return the fields that have a value, in lower case: names in Unity Catalog are case-insensitive."""
    fields = definition.items() if isinstance(definition, Mapping) else ()
    return {str(name): str(value).lower() for name, value in fields if value is not None}
