"""The guard before a deploy by another tool, which writes every difference."""

from __future__ import annotations

from dataclasses import replace

from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange
from framework.deploy.plan.policy import ExitCode, Verdict, exit_code

_STOPS = frozenset({Verdict.DEFER})


def judge_gateways(plan: DeployPlan) -> tuple[tuple[PlannedChange, ...], ExitCode]:
    """Return the gateways of a plan, the jobs that run them, and the exit code for a tool that writes every difference.

    A change that our own deploy defers, a field that only seems to differ, and an accepted field that the bundle does
    not name hold such a tool.
    """
    # Access has calls of its own, and nothing is recorded here.
    gateways = tuple(
        replace(_with_unnamed(each), access=False, record=False) for each in plan.changes if each.stops_gateway
    )
    code = exit_code((change.verdict for change in gateways), applied=True)
    if code is ExitCode.CLEAN and any(change.verdict in _STOPS or change.phantoms for change in gateways):
        code = ExitCode.HELD
    return gateways, code


def _with_unnamed(change: PlannedChange) -> PlannedChange:
    """The change with the fields that another tool removes, as the bundle does not name them."""
    if not change.unnamed:
        return change
    fields = tuple(sorted({*change.phantoms, *change.unnamed}))
    if change.verdict is not Verdict.NOTHING:
        return replace(change, phantoms=fields)
    names = ", ".join(".".join(path) for path in change.unnamed)
    reason = f"another deployment tool would remove the accepted settings {names}; add them to the bundle"
    return replace(change, phantoms=fields, reason=reason)
