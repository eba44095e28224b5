"""What a deploy by another tool would reach, by the command line's state, by ours, and by names in the workspace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.lookups import workspace_lookup
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.bundle.references import resolve
from framework.deploy.gateways.cli_state import CliState, StateUnknown, read_cli_state
from framework.deploy.gateways.ingested_tables import ingested_tables
from framework.deploy.gateways.parts import GatewayParts
from framework.deploy.gateways.unclaimed import Unclaimed
from framework.deploy.plan.planner import is_gateway
from framework.deploy.state.resource_api import RemoteKind
from framework.deploy.state.state import Deployed, DeployState, new_state, read_state
from framework.foundation.errors import OperationError
from framework.foundation.secrecy import hide_in_text


def foreign_state(workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle) -> DeployState:
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
        theirs = read_cli_state(workspace, bundle.state_path)
        state = _with_cli_state(own, theirs, bundle)
        return _Names(workspace, kinds, bundle, knows_all=theirs is not None).complete(state)
    except StateUnknown:
        raise
    except (OperationError, DatabricksError) as error:
        raise unknown_by(error) from error


def unknown_by(error: OperationError | DatabricksError) -> StateUnknown:
    """Return the error that says that a call failed on which the answer of the guard depends."""
    what = error.what if isinstance(error, OperationError) else hide_in_text(str(error)) or type(error).__name__
    return StateUnknown("GUARD_STATE_UNKNOWN", cause=" ".join(what.split()).removesuffix("."))


def _with_cli_state(own: DeployState, theirs: CliState | None, bundle: Bundle) -> DeployState:
    resources = {each.key: each for each in bundle.resources}
    state = own
    if theirs is None:
        return own
    for key, found in theirs.ids.items():
        former = own.get(key)
        if former is not None and former.id == found:
            continue
        if former is not None and former.id is not None:
            cause = f"{key} has the id {former.id} in the state of Sluice, but {found} in {theirs.path}"
            raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
        state = state.with_resource(_known(key, found, resources.get(key)))
    return state


class _Names:
    """Looks up by name what no state knows: gateways, then jobs that run one.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        bundle: the bundle.
        knows_all: whether the state of the command line is there, so that its deploy reaches nothing else.
    """

    def __init__(
        self, workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle, *, knows_all: bool
    ) -> None:
        self._workspace = workspace
        self._kinds = kinds
        self._bundle = bundle
        self._knows_all = knows_all
        self._look_up = workspace_lookup(workspace)

    def complete(self, state: DeployState) -> DeployState:
        """Return the state with what only its name tells.

        Raises:
            StateUnknown: a name is not unique, or a gateway may have another name in the workspace.
        """
        resources = self._bundle.resources
        strangers = [each for each in resources if (known := state.get(each.key)) is None or known.id is None]
        for resource in (each for each in strangers if each.kind == "pipelines"):
            state = self._with_pipeline(state, resource)
        self._check_unclaimed_gateways(state)
        parts = GatewayParts(self._workspace, self._kinds, ingested_tables(self._bundle))
        for resource in (each for each in strangers if each.kind == "jobs"):
            state = self._with_job(state, resource, parts)
        self._check_unclaimed_jobs(state, parts)
        return state

    def _with_pipeline(self, state: DeployState, resource: Resource) -> DeployState:
        """The pipeline of that name, if it is a gateway there or in the bundle."""
        found = self._look_up("pipeline", resource.name)
        if not is_gateway(resource.spec.as_dict()):
            remotes = [self._kinds["pipelines"].read(each) for each in found]
            if not any(remote is not None and is_gateway(remote.spec.as_dict()) for remote in remotes):
                return state
        return _adopted(state, resource, found)

    def _with_job(self, state: DeployState, resource: Resource, parts: GatewayParts) -> DeployState:
        """The job of that name, if it runs a gateway there or in the bundle."""
        found = self._look_up("job", resource.name)
        remotes = [self._kinds["jobs"].read(each) for each in found]
        specs = [self._resolved(state, resource), *(each.spec.as_dict() for each in remotes if each is not None)]
        return _adopted(state, resource, found) if parts.behind(specs) else state

    def _check_unclaimed_gateways(self, state: DeployState) -> None:
        unclaimed = self._unclaimed(state)
        for resource in self._missing(state, "pipelines"):
            if is_gateway(spec := self._resolved(state, resource)):
                unclaimed.check_gateway(resource.key, spec)

    def _check_unclaimed_jobs(self, state: DeployState, parts: GatewayParts) -> None:
        unclaimed = self._unclaimed(state)
        for resource in self._missing(state, "jobs"):
            if gateways := parts.behind([self._resolved(state, resource)]):
                unclaimed.check_job(resource.key, gateways)

    def _missing(self, state: DeployState, kind: str) -> Iterator[Resource]:
        """The resources of a kind that neither a state nor a name tells; none where the command line knows all."""
        for resource in () if self._knows_all else self._bundle.resources:
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
        cause = f"{len(found)} {resource.kind} have the same name {resource.name} as {resource.key}: {', '.join(found)}"
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
