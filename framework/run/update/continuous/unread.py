"""Datasets of a continuous update whose sources could not be read; they are resolved again with backoff.

Meanwhile the other flows run. A dataset that the request clears or resets is left out, because its request takes effect
only when an update begins. So are copies of databases, whose tables are listed only when an update begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from framework.foundation.clock import Clock
from framework.foundation.errors import SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.steps import Plan, RefuseTable, refusal
from framework.run.update.continuous.units import Grow, Successor
from framework.run.update.journal import Journal
from framework.run.update.retries import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadDataset:
    """A dataset whose source has a fault.

    Args:
        name: its name.
        flows: the flows into it.
        error: the fault.
        failures: how often resolving it has failed.
        not_before: when it is resolved again, on the monotonic clock; None before the first delay.
    """

    name: QualifiedName
    flows: tuple[QualifiedName, ...]
    error: SluiceError
    failures: int = 0
    not_before: float | None = None


class UnreadDatasets:
    """The datasets that wait for their sources; changed from the supervisor's thread only.

    Args:
        found: the datasets.
    """

    def __init__(self, found: Iterable[UnreadDataset] = ()) -> None:
        self._waiting = {each.name: each for each in found}

    @property
    def waiting(self) -> tuple[UnreadDataset, ...]:
        """The datasets that still wait; may be called from any thread."""
        return tuple(self._waiting.values())

    def successors(
        self, grow: Grow, journal: Journal, clock: Clock, retries: RetryPolicy
    ) -> Mapping[QualifiedName, Successor]:
        """Return the flows that can start or continue now that a source is readable; resolve one dataset per call.

        Args:
            grow: resolves the graph again, and sets up the tables of a dataset and of its readers.
            journal: records each delay.
            clock: the present time.
            retries: the delays.
        """
        for each in self.waiting:
            if each.not_before is None:
                self._delay(each, each.error, journal, clock, retries)
            elif clock.monotonic() >= each.not_before:
                try:
                    found = grow(each.name)
                except SluiceError as error:
                    self._delay(each, error, journal, clock, retries)
                    return {}
                for begun in (each.name, *(successor.step.dataset for successor in found.values())):
                    self._waiting.pop(begun, None)
                return found
        return {}

    def _delay(
        self, each: UnreadDataset, error: SluiceError, journal: Journal, clock: Clock, retries: RetryPolicy
    ) -> None:
        failures = each.failures + 1
        seconds = retries.delay_seconds(failures)
        self._waiting[each.name] = replace(each, error=error, failures=failures, not_before=clock.monotonic() + seconds)
        for flow in each.flows:
            journal.degraded(flow, each.name, error, seconds)


def unread_datasets(graph: DataflowGraph, plan: Plan, is_tried: Callable[[QualifiedName], bool]) -> UnreadDatasets:
    """Return the datasets that a plan refuses because of a source or folder fault, if `is_tried` accepts them."""
    return UnreadDatasets(
        UnreadDataset(name=step.dataset, flows=step.flows, error=fault)
        for step in plan.steps
        if isinstance(step, RefuseTable) and is_tried(step.dataset)
        if (fault := refusal(graph, step)) is _fault_of(graph, step.dataset) or step.fault is not None
    )


def _fault_of(graph: DataflowGraph, name: QualifiedName) -> SluiceError | None:
    dataset = graph.dataset(name)
    return None if dataset is None else dataset.fault
