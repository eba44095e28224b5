"""The guard alone, before somebody else's deploy: any difference at a gateway would be written by it."""

from __future__ import annotations

from framework.deploy.decisions import ExitCode, Verdict, exit_code
from framework.deploy.deploy_plan import DeployPlan, PlannedChange

_STOPS = frozenset({Verdict.DEFER})


def judge_gateways(plan: DeployPlan) -> tuple[tuple[PlannedChange, ...], ExitCode]:
    """The gateways of a plan, and whether a tool that writes every difference may go on.

    What our own deploy would defer, another tool would write: that holds it. So does a field that only seems to differ.
    """
    gateways = tuple(change for change in plan.changes if change.is_gateway)
    code = exit_code((change.verdict for change in gateways), applied=True)
    if code is ExitCode.CLEAN and any(change.verdict in _STOPS or change.phantoms for change in gateways):
        code = ExitCode.HELD
    return gateways, code
