"""Reads of the workspace for a plan: one read per resource, and event logs only if they affect the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec
from framework.deploy.gateways.event_log import ingested_tables
from framework.deploy.gateways.gateway_reader import GatewayReader
from framework.deploy.plan.deploy_plan import PlannedChange
from framework.deploy.plan.gateway_state import GatewayState
from framework.deploy.plan.planner import Observed, changed_resources, is_gateway, needs_gateway_state
from framework.deploy.plan.policy import Policy
from framework.deploy.state.resource_api import Remote, RemoteKind
from framework.deploy.state.state import Deployed, DeployState


def observe(
    workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle, state: DeployState, policy: Policy
) -> Observed:
    """Read each resource in the state, and the gateways that a change could stop."""
    remotes = {each.key: kinds[each.kind].read(each.id) for each in state.resources if each.id is not None}
    ids = {(each.kind, each.id): remotes[each.key] for each in state.resources if each.id is not None}
    gateway_reader = GatewayReader(workspace, kinds, ingested_tables(bundle), ids)
    gateways, jobs = {}, set()
    for change in changed_resources(bundle, state, remotes):
        affected = affected_gateways(gateway_reader, change, remotes[change.key], state.get(change.key))
        if not affected:
            continue
        jobs |= {change.key} if change.kind == "jobs" else set()
        if needs_gateway_state(change, policy):
            gateways[change.key] = gateway_reader.state_of(affected)
    return Observed(remotes=remotes, gateways=gateways, jobs=frozenset(jobs))


def with_unrecorded_creates(kinds: Mapping[str, RemoteKind], state: DeployState, owner: str) -> DeployState:
    """Return the state with the ids of resources whose creation was begun, but not recorded as complete.

    Such a resource may be running, so its changes and its deletion pass the guard.

    Args:
        kinds: the calls for each kind of resource.
        state: the recorded state.
        owner: path of the state file, which identifies the bundle's resources.
    """
    for each in state.resources:
        found = kinds[each.kind].find(each.spec.as_dict(), owner) if each.id is None else None
        remote = None if found is None else kinds[each.kind].read(found)
        if remote is not None:
            # Permissions and grants are separate calls, which have not been made yet.
            spec = {key: value for key, value in each.spec.as_dict().items() if key not in ("permissions", "grants")}
            state = state.with_resource(replace(each, id=remote.id, spec=FrozenSpec.of(spec), remote=remote.spec))
    return state


def observe_before_write(
    workspace: Workspace,
    kinds: Mapping[str, RemoteKind],
    bundle: Bundle,
    change: PlannedChange,
    deployed: Deployed | None,
    *,
    stopped: frozenset[str],
) -> tuple[Observed, tuple[str, ...]]:
    """Read one resource and the state of its gateways right before a write.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        bundle: the bundle to deploy.
        change: the change to apply.
        deployed: the resource in the state.
        stopped: ids of gateways that this deploy has already stopped; another stop loses nothing.

    Returns:
        The observed resource, and the ids of the gateways that the write can stop.
    """
    remote = kinds[change.kind].read(change.remote_id or "")
    gateway_reader = GatewayReader(workspace, kinds, ingested_tables(bundle))
    affected = () if remote is None else affected_gateways(gateway_reader, change, remote, deployed)
    states: dict[str, GatewayState] = {}
    if affected:
        states[change.key] = gateway_reader.state_of(each for each in affected if each not in stopped)
    jobs = frozenset({change.key}) if affected and change.kind == "jobs" else frozenset[str]()
    return Observed(remotes={change.key: remote}, gateways=states, jobs=jobs), affected


def affected_gateways(
    gateway_reader: GatewayReader, change: PlannedChange, remote: Remote | None, deployed: Deployed | None
) -> tuple[str, ...]:
    """Return the ids of the gateways that a write to a resource can stop, by its current, last and new settings."""
    specs = [each.as_dict() for each in (change.spec, deployed and deployed.spec, remote and remote.spec) if each]
    if change.kind == "jobs":
        return gateway_reader.gateways_run_by(specs)
    return (remote.id,) if remote is not None and any(is_gateway(spec) for spec in specs) else ()
