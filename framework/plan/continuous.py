"""The parts of a continuous plan: the full refreshes that run first, and the steps that run until the update stops."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

from framework.foundation.names import QualifiedName
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
    """Return the part of a plan with its full refreshes and refused tables, and the steps that wait for them.

    These flows wait for each other's tables only. A flow that reads a table before a full refresh replaces its rows
    can't continue afterwards.
    """
    rebuilt = frozenset(step.dataset for step in plan.steps if isinstance(step, PublishRebuild))
    return replace(plan, steps=tuple(kept for step in plan.steps for kept in _of_rebuild(step, rebuilt)))


def supervised_steps(
    plan: Plan, unfinished: Collection[QualifiedName] = frozenset()
) -> tuple[RunFlow | RefreshView, ...]:
    """Return one step for each flow and view to keep running; flows of a full refresh continue after it.

    Args:
        plan: the plan.
        unfinished: the tables whose full refresh did not end; their flows' checkpoints belong to the unpublished copy.
    """
    return tuple(
        kept
        for step in plan.steps
        if not (isinstance(step, RunFlow) and step.rebuild is not None and step.dataset in unfinished)
        for kept in _supervised(step)
    )


def _of_rebuild(step: Step, rebuilt: Collection[QualifiedName]) -> tuple[Step, ...]:
    match step:
        case RunFlow(rebuild=rebuild) if rebuild is not None:
            return (replace(step, after=tuple(name for name in step.after if name in rebuilt)),)
        case PublishRebuild() | RefuseTable():
            return (step,)
        case SkipStep(waits_for=waits_for) if waits_for:
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
