"""Check of the keys in `--override`, `--write-tags` and `--allow-recreate` against a plan."""

from __future__ import annotations

from collections.abc import Sequence

from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange
from framework.deploy.plan.diff import ChangeClass
from framework.deploy.plan.policy import Policy
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint


def check_keys(plan: DeployPlan, policy: Policy, *, declared: Sequence[str]) -> None:
    """Check that each key in the policy names a resource, and for an override or tag write a gateway or a job.

    Args:
        plan: plan of the target.
        policy: the caller's policy.
        declared: keys of the bundle's resources, for a plan that deletes all of them.

    Raises:
        UserError: DEPLOY_KEY_UNKNOWN, DEPLOY_OVERRIDE_NO_GATEWAY.
    """
    known = sorted({*declared, *(change.key for change in plan.changes)})
    gateways = [change.key for change in plan.changes if change.stops_gateway]
    for key in sorted(policy.allow_recreate):
        _check_known("--allow-recreate", key, known, plan)
    for option, reasons in (("--override", policy.overrides), ("--write-tags", policy.tag_writes)):
        for key, _ in reasons:
            _check_known(option, key, known, plan)
            change = plan.change(key)
            if change is not None and not _can_stop_gateway(change):
                text = ", ".join(gateways) or "none"
                raise UserError("DEPLOY_OVERRIDE_NO_GATEWAY", option=option, key=key, target=plan.target, gateways=text)


def _can_stop_gateway(change: PlannedChange) -> bool:
    """Return whether a write can stop a gateway; a job's tasks are read only if the job exists and changes."""
    is_read = change.remote_id is not None and change.change_class is not ChangeClass.NONE
    return change.stops_gateway or (change.kind == "jobs" and not is_read)


def _check_known(option: str, key: str, known: Sequence[str], plan: DeployPlan) -> None:
    if key not in known:
        hint = nearest_hint(key, known)
        text = ", ".join(known) or "none"
        raise UserError("DEPLOY_KEY_UNKNOWN", option=option, key=key, target=plan.target, hint=hint, known=text)
