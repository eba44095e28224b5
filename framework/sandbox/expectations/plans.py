"""Expected steps of a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.foundation.nearest import nearest_hint
from framework.plan.explainer import plan_text, step_lines
from framework.plan.steps import (
    BeginGeneration,
    KeepStored,
    Plan,
    PublishRebuild,
    RefreshView,
    RefuseTable,
    RunFlow,
    SkipStep,
    Step,
)
from framework.sandbox.expectations.examined import Examined

_FIRST = 1
_ORDER = ("full refresh", "would fail", "refuse", "wait", "reset", "run", "run if changed", "skip", "keep")
"""What a plan does with a dataset, first what says most about it."""


def check_plan(
    sandbox: Examined, steps: Mapping[str, str] | Sequence[str], datasets: Sequence[str], request: Mapping[str, Any]
) -> None:
    """Check the plan of an update of some datasets; without any, of those of `steps`, or of all.

    Raises:
        AssertionError: the plan has other steps; its text is the plan.
        UserError: TEST_PLAN_WORD_UNKNOWN, DATASET_NOT_FOUND.
    """
    __tracebackhide__ = True
    if isinstance(steps, Mapping):
        for word in steps.values():
            _check_word(word)
        plan = sandbox.plan(*(datasets or steps), **request)
        found = {dataset: _word(plan, sandbox.dataset(dataset)) for dataset in steps}
        wrong = [
            f"  {dataset}: expected {word!r}, planned {found[dataset]!r}"
            for dataset, word in steps.items()
            if not _is_meant(word, found[dataset])
        ]
    else:
        plan = sandbox.plan(*datasets, **request)
        lines = [" ".join(line.split()) for _, line in step_lines(plan)]
        texts = [steps] if isinstance(steps, str) else steps
        wrong = [f"  no step has {text!r}" for text in texts if not any(_plain(text) in line for line in lines)]
    if wrong:
        shown = _declared_only(plan, sandbox.pipeline.names())
        raise AssertionError("\n".join(["The plan has other steps than expected:", *wrong, "", plan_text(shown)]))


def _declared_only(plan: Plan, declared: Collection[QualifiedName]) -> Plan:
    """Return a plan of some datasets without the others, whose tables would be kept if they were not declared."""
    steps = (step for step in plan.steps if not (isinstance(step, KeepStored) and step.dataset in declared))
    return Plan(pipeline=plan.pipeline, steps=tuple(steps), fault=plan.fault, warnings=plan.warnings)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _check_word(word: str) -> None:
    if word not in _ORDER:
        hint = nearest_hint(word, _ORDER)
        raise UserError("TEST_PLAN_WORD_UNKNOWN", word=word, words=", ".join(_ORDER), hint=hint)


def _is_meant(word: str, found: str) -> bool:
    return word == found or (word == "run" and found == "run if changed")


def _word(plan: Plan, dataset: QualifiedName) -> str:
    """Return what a plan does with a dataset in one word; "nothing" if it has no step for it."""
    words = {word for step in plan.steps if step.dataset == dataset for word in _words(step)}
    return next((word for word in _ORDER if word in words), "nothing")


def _words(step: Step) -> Sequence[str]:
    match step:
        case RunFlow() | RefreshView() | PublishRebuild() | BeginGeneration():
            return _running(step)
        case SkipStep():
            return ("wait",) if step.waits_for else ("skip",)
        case RefuseTable():
            return ("refuse",)
        case KeepStored():
            return ("keep",)
    return ()


def _running(step: RunFlow | RefreshView | PublishRebuild | BeginGeneration) -> Sequence[str]:
    match step:
        case BeginGeneration():
            return ("reset",) if step.generation > _FIRST and step.rebuild is None else ()
        case PublishRebuild():
            return ("full refresh",)
        case RunFlow() if step.broken is not None:
            return ("would fail",)
    return ("run if changed",) if step.check else ("run",)
