"""The schedule of a plan, which tracks the steps that wait, may start, or are finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import assert_never

from framework.foundation.errors import SluiceError
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
from framework.run.update.journal import Journal
from framework.run.update.results import FlowResult, FlowState

NOT_SET_UP = "its table cannot be set up"
"""The reason text for flows whose target could not be set up."""

Work = RunFlow | RefreshView | PublishRebuild
"""The steps to schedule; all other steps are executed earlier, or change nothing."""


class Board:
    """Selects the steps that may start, and collects their results; used from one thread only.

    Args:
        plan: the plan whose flows, views and publish steps are scheduled.
        failed: the datasets whose tables could not be set up.
        journal: records steps that are skipped, stopped, queued or finished.
    """

    def __init__(self, *, plan: Plan, failed: Mapping[QualifiedName, SluiceError], journal: Journal) -> None:
        self._journal = journal
        self._results: list[FlowResult] = []
        self._waiting: list[Work] = []
        self._open: dict[QualifiedName, int] = defaultdict(int)
        self._bad: set[QualifiedName] = set()
        for step in plan.steps:
            self._submit_step(step, failed)

    @property
    def results(self) -> tuple[FlowResult, ...]:
        """The results so far, in the order in which the flows ended."""
        return tuple(self._results)

    def take_ready(self, most: int) -> list[Work]:
        """Return up to `most` steps whose inputs are done; steps with failed inputs end as SKIPPED."""
        ready: list[Work] = []
        progress = True
        while progress:
            progress = False
            for step in list(self._waiting):
                if self._blocked_by_failure(step):
                    self._waiting.remove(step)
                    self._skip(step)
                    progress = True
                elif len(ready) < most and self._inputs_done(step):
                    self._waiting.remove(step)
                    ready.append(step)
        return ready

    def finished(self, step: Work, result: FlowResult | None) -> None:
        """Record the end of a step; `result` is None for a successful publish step."""
        self._open[step.dataset] -= 1
        if result is not None:
            self._add(result)

    def stop_waiting(self) -> None:
        """End all steps that have not started as STOPPED."""
        for step in self._waiting:
            self._open[step.dataset] -= 1
            if isinstance(step, RunFlow | RefreshView):
                self._add(_result(step, FlowState.STOPPED, "the update is stopping"))
            self._bad.add(step.dataset)
        self._waiting.clear()

    def _submit_step(self, step: Step, failed: Mapping[QualifiedName, SluiceError]) -> None:
        match step:
            case SkipStep():
                if step.flow is not None:
                    self._add(_skipped(step, step.flow, None if step.excluded else failed.get(step.dataset)))
            case RefuseTable():
                for flow in step.flows:
                    self._add(
                        FlowResult(
                            flow=flow,
                            dataset=step.dataset,
                            state=FlowState.FAILED,
                            reason=step.reason,
                            error=failed[step.dataset],
                        )
                    )
            case RunFlow() | RefreshView() | PublishRebuild():
                self._submit_work(step, failed.get(step.dataset))
            case CreateTable() | BeginGeneration() | KeepStored():
                pass  # executed before, or nothing to do
            case _:
                assert_never(step)

    def _submit_work(self, step: Work, error: SluiceError | None) -> None:
        if error is None:
            self._waiting.append(step)
            self._open[step.dataset] += 1
            if not isinstance(step, PublishRebuild):
                self._journal.flow(step.flow, step.dataset, FlowState.QUEUED)
        elif not isinstance(step, PublishRebuild):
            self._add(_result(step, FlowState.FAILED, NOT_SET_UP, error))

    def _inputs_done(self, step: Work) -> bool:
        if isinstance(step, PublishRebuild):
            return self._open[step.dataset] == 1
        return all(self._open[name] == 0 for name in _after(step))

    def _blocked_by_failure(self, step: Work) -> bool:
        if isinstance(step, PublishRebuild):
            return step.dataset in self._bad and self._open[step.dataset] == 1
        return any(name in self._bad for name in _after(step))

    def _skip(self, step: Work) -> None:
        self._open[step.dataset] -= 1
        if isinstance(step, RunFlow | RefreshView):
            failed = ", ".join(name.table for name in _after(step) if name in self._bad)
            self._add(_result(step, FlowState.SKIPPED, f"{failed} did not complete"))

    def _add(self, result: FlowResult) -> None:
        self._results.append(result)
        if not result.is_good:
            self._bad.add(result.dataset)
        self._journal.ended(result)


def _after(step: Work) -> Iterator[QualifiedName]:
    if isinstance(step, RunFlow | RefreshView):
        yield from step.after


def _skipped(step: SkipStep, flow: QualifiedName, error: SluiceError | None) -> FlowResult:
    if error is not None:
        return FlowResult(flow=flow, dataset=step.dataset, state=FlowState.FAILED, reason=NOT_SET_UP, error=error)
    waits = FlowState.SKIPPED if step.waits_for else FlowState.IDLE
    state = FlowState.EXCLUDED if step.excluded else waits
    return FlowResult(flow=flow, dataset=step.dataset, state=state, reason=step.reason)


def _result(step: RunFlow | RefreshView, state: FlowState, reason: str, error: SluiceError | None = None) -> FlowResult:
    return FlowResult(flow=step.flow, dataset=step.dataset, state=state, reason=reason, error=error)
