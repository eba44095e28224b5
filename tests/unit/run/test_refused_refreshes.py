"""Tables that could not be read anew: what an update says about them."""

from __future__ import annotations

from framework.foundation.errors import SourceError
from framework.foundation.names import QualifiedName
from framework.ingest.generations import Refusal
from framework.plan.steps import Plan, SkipStep
from framework.run.update.refresh.refused_refreshes import waiting, with_causes

ORDERS, USERS = (QualifiedName(catalog="main", schema="shop", table=each) for each in ("orders", "users"))
OPEN = SourceError("DATABASE_TRANSACTIONS_OPEN", slot="shop", seconds=100, pids="4711")


def test_a_table_that_waits_says_for_what() -> None:
    """The cause is in the step of the table that is left out, and in no other one."""
    steps = [SkipStep(dataset=each, flow=None, reason="it could not begin", excluded=True) for each in (ORDERS, USERS)]
    plan = with_causes(Plan(pipeline="shop", steps=tuple(steps)), {ORDERS: OPEN})
    reasons = [step.reason for step in plan.steps if isinstance(step, SkipStep)]
    assert reasons == [f"it could not begin: {OPEN.what}", "it could not begin"]


def test_the_reason_why_tables_wait_is_told_once() -> None:
    """One reason for two tables is one error of the result; a failed flow that tells it makes it none."""
    refusals = [Refusal(target=each, error=OPEN) for each in (ORDERS, USERS)]
    assert waiting(refusals, frozenset()) == (OPEN,)
    assert waiting(refusals, {OPEN.what}) == ()
