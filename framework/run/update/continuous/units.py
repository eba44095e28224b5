"""The flows and views of a continuous update as units of the supervisor, with their steps and states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from framework.foundation.errors import SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphFlow
from framework.plan.steps import RefreshView, RunFlow
from framework.run.update.results import FlowResult
from framework.sources.kinds import FlowPositions
from framework.sources.port import SourceReference


class FlowHealth(StrEnum):
    """The health of a flow in a continuous update."""

    IDLE = "IDLE"
    RUNNING = "RUNNING"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    DONE = "DONE"


class StepRunner(Protocol):
    """Runs one step to its end and returns every failure as a result."""

    def run(self, step: RunFlow | RefreshView) -> FlowResult:
        """Run a step; never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Successor:
    """The continuation of a flow, after files brought new columns to it or to a table that it reads.

    Args:
        step: the step to execute from now on.
        flow: the flow in the graph with the new columns.
        attempts: runs the step.
        error: why its table could not be extended; None if it was.
    """

    step: RunFlow | RefreshView
    flow: GraphFlow
    attempts: StepRunner
    error: SluiceError | None = None


Grow = Callable[[QualifiedName], Mapping[QualifiedName, Successor]]
"""Returns the successors of all flows that are affected by new columns of a dataset."""


class Unit:
    """A supervised flow or view and its current state; changed from the supervisor's thread only.

    Args:
        step: the step to execute when the unit is due.
        flow: the flow of the step.
        attempts: runs the step.
        sources: the sources that it reads; None if changes of some source can't be detected.
        interval_seconds: the minimum time between two starts.
        now: the start of the interval until its first event.
    """

    def __init__(
        self,
        step: RunFlow | RefreshView,
        sources: tuple[SourceReference, ...] | None,
        *,
        flow: GraphFlow,
        attempts: StepRunner,
        interval_seconds: float,
        now: float,
    ) -> None:
        self.step = step
        self.flow = flow
        self.attempts = attempts
        self.successor: Successor | None = None
        """The flow's successor at its next start; None if it stays the same."""
        self.restarts = 0
        """Restarts for new columns since the last success."""
        self.sources = sources
        self.watched = tuple(dict.fromkeys(replace(source, only=()) for source in sources or ()))
        """The sources without conditions: their change tokens are the same for all units that read them."""
        self.interval_seconds = interval_seconds
        self.health = FlowHealth.IDLE
        self.reason = ""
        self.failures = 0
        self.started_at: float | None = None
        self.not_before = 0.0
        self.last_event_at = now
        self.tokens: dict[SourceReference, str | None] = {}
        """The change tokens at the last start, or at the last look without rows of interest."""
        self.positions: FlowPositions | None = None
        """The position after the last run; None if it was not read yet."""
        self.unconfirmed = False
        """Whether the last change may hide another one with the same token."""
        self.was_held = False
        """Whether it was paused since its last start, so that it may have unread rows that the tokens do not show."""
        self.result: FlowResult | None = None
        """The sum of its runs."""

    @property
    def is_first(self) -> bool:
        """Whether no run has ended yet and one is still to come."""
        return self.result is None and not self.is_over and not self.was_held

    @property
    def is_over(self) -> bool:
        """Whether the unit never starts again in this update."""
        return self.health in {FlowHealth.FAILED, FlowHealth.DONE}
