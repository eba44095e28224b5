"""The guard alone, before a deploy by another tool, which writes any difference that it finds."""

from __future__ import annotations

from dataclasses import replace

from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange
from framework.deploy.plan.policy import ExitCode, Verdict, exit_code

_STOPS = frozenset({Verdict.DEFER})


def judge_gateways(plan: DeployPlan) -> tuple[tuple[PlannedChange, ...], ExitCode]:
    """Return the gateways of a plan with their jobs, and whether a tool that writes every difference may go on.

    A change that our own deploy defers, and a field that only seems to differ, hold such a tool.
    """
    # Access has calls of its own, and nothing is recorded here.
    gateways = tuple(replace(each, access=False, record=False) for each in plan.changes if each.stops_gateway)
    code = exit_code((change.verdict for change in gateways), applied=True)
    if code is ExitCode.CLEAN and any(change.verdict in _STOPS or change.phantoms for change in gateways):
        code = ExitCode.HELD
    return gateways, code
