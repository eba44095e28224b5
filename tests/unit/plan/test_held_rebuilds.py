"""Tables that have to be rebuilt while an operator holds their flows."""

from __future__ import annotations

from dataclasses import replace

from framework.plan.planner import make_plan
from framework.plan.request import UpdateRequest
from framework.plan.state import FlowState
from framework.plan.steps import PublishRebuild, RefuseTable, SkipStep, refusals
from tests.unit.plan.test_planner import CLEAN, SEED, a_graph, settled


def test_a_rebuild_of_held_flows_waits_and_is_refused_if_it_is_named() -> None:
    """One that was interrupted, and one of a copy whose rows are outdated; nothing is written to the table.

    A full refresh of all tables passes over the held ones.
    """
    held = {"clean": FlowState(generation=1, latest=2, building=2, held="paused"), "seed": FlowState(held="paused")}
    state = settled(**held)
    begun = replace(state.tables[CLEAN], rebuilding=1, last_rebuild=1, definition="other")
    goes_on = replace(state, tables={**state.tables, CLEAN: begun})
    waits = [(CLEAN, "paused"), (SEED, "paused")]
    for request, stored in (
        (UpdateRequest(), goes_on),
        (UpdateRequest(continuous=True), goes_on),
        (UpdateRequest(outdated=frozenset({CLEAN})), state),
        (UpdateRequest(full_refresh_all=True), state),
    ):
        steps = [step for step in make_plan(a_graph(), request, stored).steps if step.dataset == CLEAN]
        assert waits == [(step.flow, step.reason) for step in steps if isinstance(step, SkipStep) and step.excluded]
        assert len(steps) == 2
    for stored in (goes_on, state):
        plan = make_plan(a_graph(), UpdateRequest(full_refresh=(CLEAN,)), stored)
        assert [step.dataset for step in plan.steps if isinstance(step, RefuseTable)] == [CLEAN]
        assert [error.condition for error in refusals(a_graph(), plan)] == ["FULL_REFRESH_OF_PAUSED_TABLE"]
        assert not [step for step in plan.steps if isinstance(step, PublishRebuild)]
    (step,) = (
        step
        for step in make_plan(a_graph(), UpdateRequest(withheld=frozenset({CLEAN})), state).steps
        if step.dataset == CLEAN
    )
    assert isinstance(step, SkipStep)
    assert step.reason == "it has to be read anew, and that could not begin"
