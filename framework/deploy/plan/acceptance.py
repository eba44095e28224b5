"""Acceptance of a resource: outside changes and values of the service become part of its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec
from framework.deploy.plan.deploy_plan import PlannedChange
from framework.deploy.plan.diff import ChangeClass
from framework.deploy.plan.planner import Observed, make_plan
from framework.deploy.plan.policy import Policy, Verdict
from framework.deploy.state.resource_api import Remote, RemoteKind, access_of
from framework.deploy.state.state import DeployState
from framework.foundation.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An accepted resource.

    Args:
        change: the resource, with the fields that no longer differ.
        state: the state with the new baseline.
        warnings: failures to record the acceptance in the deployments table.
    """

    change: PlannedChange
    state: DeployState
    warnings: tuple[str, ...] = ()


def accept_resource(
    kinds: Mapping[str, RemoteKind], bundle: Bundle, state: DeployState, key: str, *, now: datetime
) -> Acceptance:
    """Make the current settings of a resource its baseline; changes by the bundle itself remain changes.

    Raises:
        UserError: DEPLOY_NOT_BOUND if it is not in the state, DEPLOY_BIND_MISSING if it no longer exists.
    """
    previous = state.get(key)
    if previous is None or previous.id is None:
        raise UserError("DEPLOY_NOT_BOUND", key=key, target=bundle.target)
    remote = kinds[previous.kind].read(previous.id)
    if remote is None:
        raise UserError("DEPLOY_BIND_MISSING", kind=previous.kind, id=previous.id)
    # Without a baseline so far, as after `bind`, each value in the bundle is a change by the bundle.
    spec = previous.spec if previous.remote is not None else FrozenSpec.of(access_of(previous.spec.as_dict()))
    secrets = previous.secrets.union(*(each.secrets for each in bundle.resources if each.key == key))
    accepted = state.with_resource(replace(previous, spec=spec, remote=remote.spec, secrets=secrets))
    before = _change(bundle, state, key, remote, now)
    left = {field.path for field in _change(bundle, accepted, key, remote, now).fields}
    fields = tuple(field for field in before.fields if field.path not in left)
    classes = [field.change_class for field in fields]
    change = replace(
        before,
        fields=fields,
        change_class=max(classes, key=lambda each: each.rank, default=ChangeClass.NONE),
        verdict=Verdict.ACCEPT,
        reason="the current remote settings become the baseline",
    )
    return Acceptance(change=change, state=accepted)


def _change(bundle: Bundle, state: DeployState, key: str, remote: Remote, now: datetime) -> PlannedChange:
    observed = Observed(remotes={key: remote}, gateways={})
    change = make_plan(bundle, state, observed, files=state.files, policy=Policy(), now=now).change(key)
    assert change is not None, "the bundle has the resource"
    return change
