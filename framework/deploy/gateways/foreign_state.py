"""What a deploy by another tool would reach, by the command line's state, by ours, and by names in the workspace."""

from __future__ import annotations

from collections.abc import Mapping

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.lookups import workspace_lookup
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.bundle.references import resolve
from framework.deploy.gateways.cli_state import CliState, StateUnknown, read_cli_state
from framework.deploy.gateways.event_log import condition_of
from framework.deploy.gateways.ingested_tables import ingested_tables
from framework.deploy.gateways.parts import GatewayParts
from framework.deploy.plan.planner import is_gateway
from framework.deploy.state.resource_api import RemoteKind
from framework.deploy.state.state import Deployed, DeployState, new_state, read_state
from framework.foundation.errors import OperationError


def foreign_state(workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle) -> DeployState:
    """Return which resource has which id, as a deploy of the bundle by another tool would find them.

    The command line's state comes first. A baseline of ours counts where it is of the same resource. A gateway that no
    state knows, or a job that runs one, is looked up by its name.

    Raises:
        StateUnknown: a state can't be read, two states contradict each other, or a name is not unique.
    """
    try:
        own = read_state(workspace, bundle.state_path) or new_state()
    except OperationError as error:
        raise StateUnknown("GUARD_STATE_UNKNOWN", cause=error.what.removesuffix(".")) from error
    state = _with_cli_state(own, read_cli_state(workspace, bundle.state_path), bundle)
    try:
        return _with_names(workspace, kinds, bundle, state)
    except StateUnknown:
        raise
    except (OperationError, DatabricksError) as error:
        cause = f"a gateway can't be looked up by its name, {condition_of(error)}"
        raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause) from error


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
            cause = f"{key} is {former.id} to Sluice and {found} to {theirs.path}"
            raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
        state = state.with_resource(_known(key, found, resources.get(key)))
    return state


def _with_names(
    workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle, state: DeployState
) -> DeployState:
    """The state with gateways, and then with jobs that run one, that only their names tell."""
    look_up = workspace_lookup(workspace)

    def adopted(state: DeployState, kind: str, resource: Resource) -> DeployState:
        found = look_up(kind, resource.name)
        if len(found) > 1:
            cause = f"{len(found)} {resource.kind} have the name {resource.name} of {resource.key}: {', '.join(found)}"
            raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
        return state.with_resource(_known(resource.key, found[0], resource)) if found else state

    strangers = [each for each in bundle.resources if (known := state.get(each.key)) is None or known.id is None]
    for resource in strangers:
        if resource.kind == "pipelines" and is_gateway(resource.spec.as_dict()):
            state = adopted(state, "pipeline", resource)
    ids = {each.key: each.id for each in state.resources if each.id is not None}
    specs = {each.key: each.spec for each in bundle.resources}
    parts = GatewayParts(workspace, kinds, ingested_tables(bundle))
    for resource in strangers:
        if resource.kind == "jobs" and parts.behind([resolve(resource.spec.as_dict(), ids, specs)]):
            state = adopted(state, "job", resource)
    return state


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
