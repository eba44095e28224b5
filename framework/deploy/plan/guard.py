"""The guard before a deploy by another tool, which writes every difference."""

from __future__ import annotations

from dataclasses import replace

from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange
from framework.deploy.plan.policy import ExitCode, Verdict, exit_code

_STOPS = frozenset({Verdict.DEFER})


def judge_gateways(plan: DeployPlan) -> tuple[tuple[PlannedChange, ...], ExitCode]:
    """Return the gateways of a plan, the jobs that run them, and the exit code for a tool that writes every difference.

    A deferred change or a phantom field holds such a tool.
    """
    # Access is set by separate calls, and nothing is recorded here.
    gateways = tuple(replace(each, access=False, record=False) for each in plan.changes if each.stops_gateway)
    code = exit_code((change.verdict for change in gateways), applied=True)
    if code is ExitCode.CLEAN and any(change.verdict in _STOPS or change.phantoms for change in gateways):
        code = ExitCode.HELD
    return gateways, code
