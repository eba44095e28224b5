"""Executes the steps of a plan: tables first, then flows in parallel, each after the datasets it reads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import assert_never

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rebuilds import Rebuild
from framework.foundation.errors import SluiceError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset
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
    refusal,
)
from framework.run.flows.stop_signal import StopSignal
from framework.run.tables.table_store import TableStore
from framework.run.update.fault_classification import flow_fault
from framework.run.update.flow_attempts import FlowAttempts
from framework.run.update.journal import Journal
from framework.run.update.rebuilds import Rebuilds
from framework.run.update.results import FlowResult, FlowState
from framework.run.update.schedule import Board, Work


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executor:
    """Executes the steps of a plan, and nothing else.

    Args:
        work: runs one flow or view to its end and never raises.
        parallel_flows: the number of flows that run at the same time.
    """

    graph: DataflowGraph
    store: TableStore
    rebuilds: Rebuilds
    work: FlowAttempts
    journal: Journal
    stop: StopSignal
    parallel_flows: int

    def set_up(self, plan: Plan) -> dict[QualifiedName, SluiceError]:
        """Create tables and begin generations; return the datasets that could not be set up, with their errors."""
        tables, begins, failed = _to_set_up(self.graph, plan)
        if self.stop.is_set:  # nothing was written yet
            return failed
        with ThreadPoolExecutor(self.parallel_flows, thread_name_prefix="sluice-setup") as pool:
            for step, error in zip(tables, pool.map(self._create, tables), strict=True):
                if error is not None:
                    failed[step.dataset] = error
        for begin in begins:
            if begin.dataset not in failed:
                self._begin(begin)
        return failed

    def run(self, plan: Plan, failed: dict[QualifiedName, SluiceError]) -> tuple[FlowResult, ...]:
        """Run flows and views; return one result for each flow of the plan, those not run included.

        A flow starts when the datasets it reads are done. If one of them failed, the flow and its
        downstream flows are SKIPPED; all other flows continue.
        """
        board = Board(plan=plan, failed=failed, journal=self.journal)
        with ThreadPoolExecutor(self.parallel_flows, thread_name_prefix="sluice-flow") as pool:
            running: dict[Future[FlowResult | None], Work] = {}
            while True:
                if self.stop.is_set:
                    board.stop_waiting()
                for step in board.take_ready(self.parallel_flows - len(running)):
                    running[pool.submit(self._do, step)] = step
                if not running:
                    break
                done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    board.finished(running.pop(future), future.result())
        return board.results

    def _do(self, step: Work) -> FlowResult | None:
        match step:
            case PublishRebuild():
                return self._publish(step)
            case RunFlow() | RefreshView():
                return self.work.run(step)
            case _:
                assert_never(step)

    def _publish(self, step: PublishRebuild) -> FlowResult | None:
        """Publish a rebuild; return None, or a failed result with the error."""
        fault = _fault_of(lambda: self.rebuilds.publish(step), step.dataset, None)
        if fault is None:
            return None
        return FlowResult(
            flow=step.dataset, dataset=step.dataset, state=FlowState.FAILED, reason="its rebuild was not published",
            error=fault,
        )  # fmt: skip

    def _create(self, step: CreateTable) -> SluiceError | None:
        dataset, rebuild = self._dataset(step.dataset), step.rebuild
        if rebuild is None:
            return _fault_of(lambda: self.store.create(dataset), step.dataset, dataset.spec.location)
        return _fault_of(
            lambda: self.rebuilds.begin(dataset, rebuild, history=step.history), step.dataset, dataset.spec.location
        )

    def _begin(self, step: BeginGeneration) -> None:
        mark = Rebuild(number=step.rebuild).generation_mark if step.rebuild is not None else ""
        GenerationStore(self.store.storage).begin(
            step.dataset, step.flow, reason=step.reason, start=step.start, staged=step.rebuild is not None,
            fingerprint=mark,
        )  # fmt: skip

    def _dataset(self, name: QualifiedName) -> GraphDataset:
        dataset = self.graph.dataset(name)
        assert dataset is not None
        return dataset


def _fault_of(
    work: Callable[[], object], dataset: QualifiedName, location: SourceLocation | None
) -> SluiceError | None:
    """Do the work on a dataset's table; return None, or its error: the flows of the dataset fail with it."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the outermost frame of this work
        return flow_fault(error, dataset, location)
    return None


def _to_set_up(
    graph: DataflowGraph, plan: Plan
) -> tuple[list[CreateTable], list[BeginGeneration], dict[QualifiedName, SluiceError]]:
    """Return the steps to execute before any flow runs, and the datasets that the plan refuses, with their errors.

    The match is closed: a new kind of step does not type-check until it has a case here and on the board.
    """
    tables: list[CreateTable] = []
    begins: list[BeginGeneration] = []
    refused: dict[QualifiedName, SluiceError] = {}
    for step in plan.steps:
        match step:
            case CreateTable():
                tables.append(step)
            case BeginGeneration():
                begins.append(step)
            case RefuseTable():
                refused[step.dataset] = refusal(graph, step)
            case RunFlow() | RefreshView() | PublishRebuild() | SkipStep() | KeepStored():
                pass  # handled by the board
            case _:
                assert_never(step)
    return tables, begins, refused
