"""Planner: a pure function from bundle, state and observed workspace to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import Any

from framework.deploy.bundle.checks.references import resolve_settings
from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange, digest_of
from framework.deploy.plan.diff import ChangeClass, ResourceComparison, compare
from framework.deploy.plan.gateway_state import GatewayState, Phase
from framework.deploy.plan.policy import WAITING, Policy, Verdict, decide
from framework.deploy.plan.reasons import reason_of
from framework.deploy.state.files import FileHashes, changed_files
from framework.deploy.state.normalize import flatten
from framework.deploy.state.resource_api import Remote, access_of
from framework.deploy.state.state import Deployed, DeployState, hidden_spec
from framework.foundation.secrets.secrecy import hide_secrets

_INDEPENDENT_OF_PHASE = frozenset(
    {ChangeClass.NONE, ChangeClass.PHANTOM, ChangeClass.TAG_ONLY, ChangeClass.METADATA, ChangeClass.CREATE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Observed workspace, by the key of a resource.

    Args:
        remotes: the resources; None for one that no longer exists.
        gateways: states of the gateways that a change could stop.
        jobs: keys of the jobs that run a gateway.
    """

    remotes: Mapping[str, Remote | None]
    gateways: Mapping[str, GatewayState]
    jobs: frozenset[str] = frozenset()


def make_plan(
    bundle: Bundle, state: DeployState, observed: Observed, *, files: FileHashes, policy: Policy, now: datetime
) -> DeployPlan:
    """Make the plan: deletions first, then all other resources in the order of their dependencies."""
    ids = {each.key: each.id for each in state.resources if each.id is not None}
    specs = {each.key: each.spec for each in bundle.resources}
    resources = {each.key: each for each in bundle.resources}
    ordered = []
    for key in _order({each.key: each.depends_on for each in bundle.resources}):
        spec = resolve_settings(resources[key].kind, resources[key].spec.as_dict(), ids, specs)
        ordered.append(plan_resource(resources[key], state.get(key), observed, spec=spec, policy=policy, now=now))
        if ordered[-1].change_class is ChangeClass.RECREATE and ordered[-1].verdict is not Verdict.HOLD:
            # It gets a new id, so that the resources that refer to it differ too.
            ids.pop(key, None)
    removed = [each for each in state.resources if each.key not in resources]
    deletions = {each.key: each.depends_on for each in removed}
    by_key = {each.key: each for each in removed}
    first = [plan_deletion(by_key[key], observed, policy, now) for key in reversed(_order(deletions))]
    uploads, removals = changed_files(files, state.files)
    return DeployPlan(
        bundle=bundle.name,
        target=bundle.target,
        lineage=state.lineage,
        serial=state.serial,
        changes=tuple(_hold_dependents([*first, *ordered])),
        uploads=uploads,
        removals=removals,
        files=files,
    )


def is_gateway(spec: Mapping[str, Any]) -> bool:
    """Return whether the settings of a pipeline define an ingestion gateway."""
    return "gateway_definition" in spec


def changed_resources(
    bundle: Bundle, state: DeployState, remotes: Mapping[str, Remote | None]
) -> tuple[PlannedChange, ...]:
    """Return the changes of existing resources; the gateways' states are not read for it."""
    blank = Observed(remotes=remotes, gateways={})
    plan = make_plan(bundle, state, blank, files=state.files, policy=Policy(), now=datetime.min)  # noqa: DTZ901 - the policy has no window
    unchanged = (ChangeClass.NONE, ChangeClass.CREATE)
    return tuple(
        change for change in plan.changes if change.remote_id is not None and change.change_class not in unchanged
    )


def needs_gateway_state(change: PlannedChange, policy: Policy) -> bool:
    """Return whether the verdict on a change depends on the gateway's state, if it can stop one."""
    return change.change_class not in _INDEPENDENT_OF_PHASE or policy.tag_reason_for(change.key) is not None


def plan_resource(
    resource: Resource,
    deployed: Deployed | None,
    observed: Observed,
    *,
    spec: dict[str, Any],
    policy: Policy,
    now: datetime,
) -> PlannedChange:
    """Plan one resource; the references in `spec` are resolved as far as ids are known."""
    remote = observed.remotes.get(resource.key)
    secrets = resource.secrets if deployed is None else resource.secrets | deployed.secrets
    compared = _compared(resource.kind, spec, deployed, remote, secrets)
    gateway = is_gateway(spec) or (remote is not None and is_gateway(remote.spec.as_dict()))
    stops = gateway or resource.key in observed.jobs
    lost_id = deployed.id if remote is None and deployed is not None and gateway else None
    # A protection that the bundle removes stays in force until a deploy has recorded the removal.
    protected = deployed is not None and deployed.prevent_destroy
    classes = [field.change_class for field in compared.changes]
    if remote is None:
        classes = [ChangeClass.RECREATE if lost_id is not None else ChangeClass.CREATE]
    highest = max(classes, key=lambda each: each.rank, default=compared.change_class)
    access = flatten(access_of(spec)) != (flatten(access_of(deployed.spec.as_dict())) if deployed is not None else {})
    state = observed.gateways.get(resource.key)
    verdict = decide(
        key=resource.key,
        classes=classes,
        stops_gateway=stops,
        is_pipeline=resource.kind == "pipelines",
        phase=_phase(stops, remote, state),
        prevent_destroy=remote is not None and (resource.prevent_destroy or protected),
        is_lost=lost_id is not None,
        policy=policy,
        now=now,
    )
    change = PlannedChange(
        key=resource.key,
        kind=resource.kind,
        name=hide_secrets(resource.name, secrets),
        stops_gateway=stops,
        change_class=highest,
        verdict=verdict,
        reason="",
        fields=compared.changes,
        phantoms=compared.phantoms,
        settled=compared.settled,
        unnamed=compared.unnamed,
        gateway=state,
        spec=FrozenSpec.of(spec),
        depends_on=resource.depends_on,
        prevent_destroy=resource.prevent_destroy,
        is_protected=protected,
        lost_id=lost_id,
        remote_id=None if remote is None else remote.id,
        remote_modified=None if remote is None else remote.modified,
        access=access and remote is not None,
        secrets=secrets,
    )
    change = replace(change, record=_is_unrecorded(change, deployed))
    return replace(change, reason=reason_of(change, policy))


def _is_unrecorded(change: PlannedChange, deployed: Deployed | None) -> bool:
    """Return whether the state has to be written for a resource that needs no call."""
    if change.verdict in WAITING:
        new = change.verdict is Verdict.DEFER and deployed is not None and deployed.deferred != digest_of(change)
        return new or change.changes_protection
    kept = None if change.spec is None else hidden_spec(change.spec, change.secrets)
    stands = (
        deployed is not None
        and deployed.remote is not None
        and (deployed.spec, deployed.depends_on, deployed.prevent_destroy)
        == (kept, change.depends_on, change.prevent_destroy)
    )
    return change.verdict is Verdict.NOTHING and not stands and not change.access


def _compared(
    kind: str, spec: Mapping[str, Any], deployed: Deployed | None, remote: Remote | None, secrets: frozenset[str]
) -> ResourceComparison:
    if remote is None:
        return ResourceComparison()
    known = deployed if deployed is not None and deployed.remote is not None else None
    return compare(
        kind,
        wanted=spec,
        deployed=None if known is None else known.spec.as_dict(),
        remote=remote.spec.as_dict() | _identity(spec, remote),
        remote_at_deploy=None if known is None or known.remote is None else known.remote.as_dict(),
        secrets=secrets,
    )


def _identity(spec: Mapping[str, Any], remote: Remote) -> dict[str, Any]:
    """Return the `run_as` identity with the bundle's key; a read of the settings does not contain it."""
    wanted = spec.get("run_as")
    if remote.run_as is None or not isinstance(wanted, Mapping) or len(wanted) != 1:
        return {}
    return {"run_as": dict.fromkeys(wanted, remote.run_as)}


def plan_deletion(deployed: Deployed, observed: Observed, policy: Policy, now: datetime) -> PlannedChange:
    """Plan the deletion of a resource that is no longer in the bundle."""
    remote, spec = observed.remotes.get(deployed.key), deployed.spec.as_dict()
    gateway = is_gateway(spec) or (remote is not None and is_gateway(remote.spec.as_dict()))
    stops, state = gateway or deployed.key in observed.jobs, observed.gateways.get(deployed.key)
    verdict = decide(
        key=deployed.key,
        classes=[ChangeClass.DELETE],
        stops_gateway=stops,
        is_pipeline=deployed.kind == "pipelines",
        phase=_phase(stops, remote, state),
        prevent_destroy=deployed.prevent_destroy,
        is_lost=False,
        policy=policy,
        now=now,
    )
    change = PlannedChange(
        key=deployed.key,
        kind=deployed.kind,
        name=str(spec.get("name", deployed.key)),
        stops_gateway=stops,
        change_class=ChangeClass.DELETE,
        # A resource that no longer exists needs no call and no permission: only its record is removed.
        verdict=Verdict.NOTHING if remote is None and deployed.id is not None else verdict,
        reason="",
        gateway=state,
        depends_on=deployed.depends_on,
        prevent_destroy=deployed.prevent_destroy,
        is_protected=deployed.prevent_destroy,
        remote_id=None if remote is None else remote.id,
        remote_modified=None if remote is None else remote.modified,
        record=remote is None and deployed.id is not None,
    )
    return replace(change, reason=reason_of(change, policy))


def _phase(stops: bool, remote: Remote | None, state: GatewayState | None) -> Phase:  # noqa: FBT001 - one of three inputs
    """Return the phase of the gateway that a write can stop: UNKNOWN if its log is not read, STOPPED without one."""
    if not stops or remote is None:
        return Phase.STOPPED
    return Phase.UNKNOWN if state is None else state.phase


def _order(edges: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Order keys after their dependencies; a dependency without a key here is ignored.

    The edges of a state are from several deploys and may form a cycle, which is broken at one edge.
    """
    known = {key: [each for each in needs if each in edges] for key, needs in edges.items()}
    while True:
        try:
            return list(TopologicalSorter(known).static_order())
        except CycleError as error:
            before, after = error.args[1][:2]
            known[after].remove(before)


def _hold_dependents(changes: list[PlannedChange]) -> list[PlannedChange]:
    """Hold the dependents of a held resource: their settings may refer to a resource that does not exist yet."""
    held: dict[str, Verdict] = {}
    found = []
    for change in changes:
        held_by = next((held[key] for key in change.depends_on if key in held), None)
        if change.verdict in WAITING - {Verdict.DEFER}:
            held[change.key] = change.verdict
        elif change.verdict is Verdict.APPLY and held_by is not None and change.change_class is not ChangeClass.DELETE:
            held[change.key] = held_by
            change = replace(  # noqa: PLW2901 - the change, held
                change, verdict=held_by, reason="a dependency is not deployed yet", record=change.changes_protection
            )
        found.append(change)
    return found
