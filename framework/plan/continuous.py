"""The parts of a continuous plan: the full refreshes that run first, and the steps that run until the update stops."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from framework.plan.steps import (
    BeginGeneration,
    CreateTable,
    KeepStored,
    Plan,
    PublishRebuild,
    RefreshView,
    RefuseTable,
    RunFlow,
    SkipStep,
    Step,
)


def rebuild_steps(plan: Plan) -> Plan:
    """Return the plan of full refreshes and refused tables only; its flows do not wait for other datasets."""
    return replace(plan, steps=tuple(kept for step in plan.steps for kept in _of_rebuild(step)))


def supervised_steps(plan: Plan) -> tuple[RunFlow | RefreshView, ...]:
    """Return one step for each flow and view to keep running; flows of a full refresh continue after it."""
    return tuple(kept for step in plan.steps for kept in _supervised(step))


def _of_rebuild(step: Step) -> tuple[Step, ...]:
    match step:
        case RunFlow(rebuild=rebuild) if rebuild is not None:
            return (replace(step, after=()),)
        case PublishRebuild() | RefuseTable():
            return (step,)
        case RunFlow() | RefreshView() | CreateTable() | BeginGeneration() | SkipStep() | KeepStored():
            return ()
    assert_never(step)


def _supervised(step: Step) -> tuple[RunFlow | RefreshView, ...]:
    match step:
        case RunFlow():
            return (replace(step, rebuild=None),)
        case RefreshView():
            return (step,)
        case PublishRebuild() | CreateTable() | BeginGeneration() | SkipStep() | RefuseTable() | KeepStored():
            return ()
    assert_never(step)
