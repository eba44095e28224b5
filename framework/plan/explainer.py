"""The explainer: describes the steps of a plan as text and as JSON.

Promises that each kind of step has a description (the match is closed, so a new kind does not
type-check without one) and that `sluice plan` and the progress of `sluice run` use the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from framework.foundation.names import QualifiedName, ShortNames
from framework.plan.state import StateFault
from framework.plan.steps import (
    AvailableNow,
    BeginGeneration,
    Breakage,
    Continuous,
    CreateTable,
    KeepStored,
    Plan,
    PublishRebuild,
    RefreshView,
    RefuseTable,
    RunFlow,
    SkipStep,
    Step,
    Trigger,
)
from framework.schema.change import ColumnChange, SchemaChange

_FOUND = "columns that only its files have are added when it finds them"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStep:
    """The description of one step: the `action`, its object `what`, and the `reason`."""

    action: str
    what: str
    reason: str
    skipped: bool = False


def explain_step(step: Step, short: ShortNames) -> ExplainedStep:
    """Return the description of one step; no other code describes steps."""
    match step:
        case CreateTable():
            action, what = "set up table", _table(step.dataset, step.rebuild, short)
        case BeginGeneration():
            rebuild = " for a rebuild" if step.rebuild else ""
            action, what = "begin generation", f"{step.generation} of {short(step.flow)}{rebuild}"
        case RunFlow():
            table = _table(step.dataset, step.rebuild, short)
            into = "" if table == short(step.flow) else f" into {table}"
            action, what = "run flow" if step.broken is None else "would fail", f"{short(step.flow)}{into}"
        case PublishRebuild():
            action, what = "publish", _table(step.dataset, step.rebuild, short)
        case RefreshView():
            action, what = "refresh view", short(step.dataset)
        case SkipStep():
            into = "" if step.flow in (None, step.dataset) else f" into {short(step.dataset)}"
            action = "exclude" if step.excluded else "wait" if step.waits_for else "skip"
            what = f"{short(step.flow or step.dataset)}{into}"
        case RefuseTable():
            action, what = "refuse", short(step.dataset)
        case KeepStored():
            of = f"{', '.join(step.columns)} of " if step.columns else ""
            action, what = "keep", f"{of}{short(step.dataset)}"
        case _:
            assert_never(step)
    reason = "; ".join(filter(None, (step.reason, _columns(step))))
    return ExplainedStep(action=action, what=what, reason=reason, skipped=isinstance(step, SkipStep | KeepStored))


def _columns(step: Step) -> str:
    """Return how a step changes the columns of its table, as a clause; empty if it changes none."""
    match step:
        case CreateTable() | RefreshView() | PublishRebuild():
            return "" if step.change is None else step.change.words()
        case RunFlow():
            return _FOUND if step.finds_columns and step.broken is None else ""
        case BeginGeneration() | SkipStep() | RefuseTable() | KeepStored():
            return ""
        case _:
            assert_never(step)


def _table(dataset: QualifiedName, rebuild: int | None, short: ShortNames) -> str:
    return short(dataset) if rebuild is None else f"rebuild {rebuild} of {short(dataset)}"


def plan_names(plan: Plan) -> ShortNames:
    """Return the short names of the plan's flows and datasets."""
    return ShortNames.of(name for step in plan.steps for name in _names(step))


def explain(plan: Plan) -> tuple[ExplainedStep, ...]:
    """Return the description of each step, in the plan's order."""
    short = plan_names(plan)
    return tuple(explain_step(step, short) for step in plan.steps)


def plan_title(plan: Plan) -> str:
    """Return the line above the steps: the pipeline, and the common prefix of all names."""
    prefix = plan_names(plan).prefix
    return f"Plan of {plan.pipeline}" + (f" (names in {prefix})" if prefix else "")


def plan_summary(plan: Plan) -> str:
    """Return the line below the steps: the number of steps to execute, skipped, excluded, refused, kept, or failing."""
    skips = [step for step in plan.steps if isinstance(step, SkipStep)]
    excluded = sum(step.excluded for step in skips)
    waiting = sum(bool(step.waits_for) for step in skips)
    skipped = len(skips) - excluded - waiting
    refused = sum(isinstance(step, RefuseTable) for step in plan.steps)
    kept = sum(isinstance(step, KeepStored) for step in plan.steps)
    broken = sum(isinstance(step, RunFlow) and step.broken is not None for step in plan.steps)
    todo = len(plan.steps) - len(skips) - refused - kept - broken
    checks = sum(step.check for step in plan.steps if isinstance(step, RunFlow | RefreshView))
    head = "Nothing to do" if todo == 0 else f"{todo} step{'s' if todo > 1 else ''} to do"
    head += f" ({checks} only if {'their' if checks > 1 else 'its'} inputs change)" if checks else ""
    counts = (
        (skipped, "skipped"),
        (excluded, "excluded"),
        (refused, "refused"),
        (waiting, "waiting"),
        (kept, "kept"),
        (broken, "would fail"),
    )
    parts = [f"{count} {word}" for count, word in counts if count]
    return ", ".join([head, *parts]) + "."


def step_lines(plan: Plan) -> tuple[tuple[ExplainedStep, str], ...]:
    """Return each step with its line of text, in aligned columns."""
    explained = explain(plan)
    action_width = max((len(step.action) for step in explained), default=0)
    what_width = max((len(step.what) for step in explained), default=0)
    return tuple(
        (step, f"  {step.action:<{action_width}}  {step.what:<{what_width}}  {step.reason}".rstrip())
        for step in explained
    )


def plan_text(plan: Plan) -> str:
    """Return the plan as text without colours: title, one line per step, summary."""
    lines = [line for _, line in step_lines(plan)]
    return "\n".join([plan_title(plan), "", *lines, *([""] if lines else []), plan_summary(plan)])


def plan_json(plan: Plan) -> dict[str, object]:
    """Return the plan as JSON values: each step with its kind, its fields and its description.

    Names are always fully qualified.
    """
    steps = [_step_json(step, explained) for step, explained in zip(plan.steps, explain(plan), strict=True)]
    more: dict[str, object] = {} if plan.fault is None else {"fault": _fields(plan.fault)}
    more |= {"warnings": [_fields(each) for each in plan.warnings]} if plan.warnings else {}
    return {"pipeline": plan.pipeline, "steps": steps, "summary": plan_summary(plan), **more}


def _step_json(step: Step, explained: ExplainedStep) -> dict[str, object]:
    return {**_fields(step), "words": f"{explained.action} {explained.what}"}


def _fields(value: Step | Trigger | Breakage | StateFault) -> dict[str, object]:
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(value).__name__).lower()
    return {"kind": kind, **{name: _json_value(getattr(value, name)) for name in type(value).__slots__}}


def _json_value(value: object) -> object:
    if isinstance(value, QualifiedName):
        return str(value)
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, AvailableNow | Continuous | Breakage | StateFault):
        return _fields(value)
    if isinstance(value, SchemaChange | ColumnChange):
        return {name: _json_value(getattr(value, name)) for name in type(value).__slots__}
    return value


def _names(step: Step) -> Iterator[QualifiedName]:
    yield step.dataset
    flow = getattr(step, "flow", None)
    if isinstance(flow, QualifiedName):
        yield flow
