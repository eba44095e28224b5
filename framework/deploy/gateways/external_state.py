"""What a deploy by another tool would reach, by the command line's state, by ours, and by names in the workspace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.lookups import listed_ids, workspace_lookup
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.bundle.references import resolve
from framework.deploy.gateways.cli_state import CliState, StateUnknown, read_cli_state
from framework.deploy.gateways.event_log import ingested_tables
from framework.deploy.gateways.gateway_reader import GatewayReader, job_targets
from framework.deploy.plan.planner import is_gateway
from framework.deploy.state.resource_api import Remote, RemoteKind
from framework.deploy.state.state import STATE_FILE, Deployed, DeployState, new_state, read_state
from framework.foundation.errors import OperationError
from framework.foundation.secrecy import hide_in_text

_CONNECTION = ("connection_name", "connection_id")
_STORAGE = ("gateway_storage_catalog", "gateway_storage_schema")


def external_state(workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle) -> DeployState:
    """Return which resource has which id, as a deploy of the bundle by another tool would find them.

    The command line's state comes first. A baseline of ours counts where it is of the same resource. A gateway that no
    state knows, or a job that runs one, is looked up by its name. Where the command line has no state, one that its
    name does not tell may have another name: then a gateway or a job that no state claims makes the answer unknown.

    Raises:
        StateUnknown: a state can't be read, two states contradict each other, a name is not unique,
            a gateway may have another name, or the workspace does not answer.
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


def state_unknown(error: OperationError | DatabricksError) -> StateUnknown:
    """Return the error that says that a call failed on which the answer of the guard depends."""
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
            cause = f"{key} is {previous.id} to Sluice and {found} to {cli_state.path}"
            raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
        state = state.with_resource(_known(key, found, resources.get(key)))
    return state


class _NameLookup:
    """Looks up by name what no state knows: gateways, then jobs that run one.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        bundle: the bundle.
        has_cli_state: whether the state of the command line is there, so that its deploy reaches nothing else.
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
        """Return the state with what only its name tells.

        Raises:
            StateUnknown: a name is not unique, or a gateway may have another name in the workspace.
        """
        resources = self._bundle.resources
        unrecorded = [each for each in resources if (known := state.get(each.key)) is None or known.id is None]
        for resource in (each for each in unrecorded if each.kind == "pipelines"):
            state = self._with_pipeline(state, resource)
        self._check_unclaimed_gateways(state)
        gateway_reader = GatewayReader(self._workspace, self._kinds, ingested_tables(self._bundle))
        for resource in (each for each in unrecorded if each.kind == "jobs"):
            state = self._with_job(state, resource, gateway_reader)
        self._check_unclaimed_jobs(state, gateway_reader)
        return state

    def _with_pipeline(self, state: DeployState, resource: Resource) -> DeployState:
        """The pipeline of that name, if it is a gateway there or in the bundle."""
        found = self._look_up("pipeline", resource.name)
        if not is_gateway(resource.spec.as_dict()):
            remotes = [self._kinds["pipelines"].read(each) for each in found]
            if not any(remote is not None and is_gateway(remote.spec.as_dict()) for remote in remotes):
                return state
        return _adopted(state, resource, found)

    def _with_job(self, state: DeployState, resource: Resource, gateway_reader: GatewayReader) -> DeployState:
        """The job of that name, if it runs a gateway there or in the bundle."""
        found = self._look_up("job", resource.name)
        remotes = [self._kinds["jobs"].read(each) for each in found]
        specs = [self._resolved(state, resource), *(each.spec.as_dict() for each in remotes if each is not None)]
        return _adopted(state, resource, found) if gateway_reader.gateways_run_by(specs) else state

    def _check_unclaimed_gateways(self, state: DeployState) -> None:
        unclaimed = self._unclaimed(state)
        for resource in self._missing(state, "pipelines"):
            if is_gateway(spec := self._resolved(state, resource)):
                unclaimed.check_gateway(resource.key, spec)

    def _check_unclaimed_jobs(self, state: DeployState, gateway_reader: GatewayReader) -> None:
        unclaimed = self._unclaimed(state)
        for resource in self._missing(state, "jobs"):
            if gateways := gateway_reader.gateways_run_by([self._resolved(state, resource)]):
                unclaimed.check_job(resource.key, gateways)

    def _missing(self, state: DeployState, kind: str) -> Iterator[Resource]:
        """The resources of a kind that neither a state nor a name tells; none where the command line knows all."""
        for resource in () if self._has_cli_state else self._bundle.resources:
            known = state.get(resource.key)
            if resource.kind == kind and (known is None or known.id is None):
                yield resource

    def _unclaimed(self, state: DeployState) -> Unclaimed:
        claimed = frozenset(each.id for each in state.resources if each.id is not None)
        return Unclaimed(self._workspace, self._kinds, claimed=claimed, folder=self._bundle.state_path)

    def _resolved(self, state: DeployState, resource: Resource) -> dict[str, Any]:
        ids = {each.key: each.id for each in state.resources if each.id is not None}
        specs = {each.key: each.spec for each in self._bundle.resources}
        resolved: dict[str, Any] = resolve(resource.spec.as_dict(), ids, specs)
        return resolved


def _adopted(state: DeployState, resource: Resource, found: Sequence[str]) -> DeployState:
    """The state with the resource that has the name; unchanged when none has it."""
    if len(found) > 1:
        cause = f"{len(found)} {resource.kind} have the name {resource.name} of {resource.key}: {', '.join(found)}"
        raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
    return state.with_resource(_known(resource.key, found[0], resource)) if found else state


def _known(key: str, id: str, resource: Resource | None) -> Deployed:
    """A resource without a baseline: what differs from the bundle is a change, whoever made it."""
    if resource is None:
        return Deployed(key=key, kind=key.partition(".")[0], id=id, spec=FrozenSpec.of({}))
    return Deployed(
        key=key,
        kind=resource.kind,
        id=id,
        spec=resource.spec,
        depends_on=resource.depends_on,
        prevent_destroy=resource.prevent_destroy,
    )


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
                    f"{key} has no known id, and the gateway {found.get('name')} ({remote.id}), which no state claims, "
                    f"may have the same {shared}"
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
                    f"{key} has no known id, and the job {found.get('name')} ({remote.id}), which no state claims, "
                    "runs the same gateway"
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
