"""Executes the steps of a plan: tables first, then flows in parallel, each after the datasets that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rebuilds import Rebuild
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
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
    Step,
    refusal,
)
from framework.run.flows.stop_signal import StopSignal
from framework.run.tables.catalog_entries import is_configured, renew_entry
from framework.run.tables.marked_tables import mark_table
from framework.run.tables.table_store import TableStore
from framework.run.update.fault_classification import fault_of
from framework.run.update.flow_attempts import FlowAttempts
from framework.run.update.journal import Journal
from framework.run.update.refresh.rebuilds import Rebuilds
from framework.run.update.results import FlowResult, FlowState
from framework.run.update.schedule import Board, Work
from framework.schema.change import SchemaChange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executor:
    """Executes exactly the steps of a plan.

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

    def set_up(
        self, plan: Plan, unsettled: Mapping[QualifiedName, SluiceError] | None = None
    ) -> dict[QualifiedName, SluiceError]:
        """Create tables and begin generations; return the datasets that could not be set up, with their errors.

        Args:
            plan: the plan.
            unsettled: tables whose frozen full refreshes could not be finished just before; None to try it here.
        """
        tables, begins, failed = _to_set_up(self.graph, plan)
        if self.stop.is_set:  # nothing has been written yet
            return failed
        self._claim_tables(plan, failed)
        # Only tables whose flows run or have no new data: a full refresh that begins discards an earlier one.
        names = {step.dataset for step in plan.steps if _needs_settled(step)}
        found = self.rebuilds.settle_all(names) if unsettled is None else unsettled
        failed |= {name: error for name, error in found.items() if name in names}
        tables = [step for step in tables if step.dataset not in failed]
        rebuilt = [step for step in tables if step.rebuild is not None]
        with ThreadPoolExecutor(self.parallel_flows, thread_name_prefix="sluice-setup") as pool:
            marks: dict[QualifiedName, Rebuild] = {}
            for step, prepared in zip(rebuilt, pool.map(self._prepare, rebuilt), strict=True):
                if isinstance(prepared, Rebuild):
                    marks[step.dataset] = prepared
                else:
                    failed[step.dataset] = prepared
            # Reversed, because the plan orders each table after the tables that it reads.
            for name in reversed(marks):
                self.rebuilds.begin(self._dataset(name), marks[name])
            tables = [step for step in tables if step.dataset not in failed]
            created = pool.map(lambda step: self._create(step, marks.get(step.dataset)), tables)
            for step, error in zip(tables, created, strict=True):
                if error is not None:
                    failed[step.dataset] = error
        for begin in begins:
            if begin.dataset not in failed:
                self._begin(begin)
        return failed

    def run(self, plan: Plan, failed: dict[QualifiedName, SluiceError]) -> tuple[FlowResult, ...]:
        """Run flows and views; return one result for each flow of the plan, including flows that did not run.

        A flow starts when the datasets that it reads are done. If one of them failed, the flow and its downstream flows
        are SKIPPED; all other flows continue.
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
        """Publish a rebuild; return None on success, else a failed result with the error."""
        fault = fault_of(lambda: self.rebuilds.publish(step), step.dataset, None)
        if fault is None:
            return None
        return FlowResult(
            flow=step.dataset,
            dataset=step.dataset,
            state=FlowState.FAILED,
            reason="its rebuild was not published",
            error=fault,
        )

    def _claim_tables(self, plan: Plan, failed: dict[QualifiedName, SluiceError]) -> None:
        """Claim the tables outside the storage, including those that this update does not write; add errors."""
        written = {step.dataset for step in plan.steps if not isinstance(step, (SkipStep, KeepStored))}
        for dataset in self.graph.datasets:
            if dataset.is_table and dataset.name not in failed:
                error = fault_of(partial(self.store.claim, dataset), dataset.name, dataset.spec.location)
                if error is not None and dataset.name in written:
                    failed[dataset.name] = error
                with suppress(OperationError):  # the plan warns of a catalog that does not respond
                    self._name_table(dataset)

    def _name_table(self, dataset: GraphDataset) -> None:
        """Register the table under its name in its catalog, also if the storage was moved or the entry dropped."""
        path = self.store.path(dataset.spec)
        if is_configured(self.store.spark, dataset.name.catalog) and self.store.exists(TableAddress(path=path)):
            renew_entry(self.store.spark, dataset.spec, path, self.store.record(dataset.name))

    def _prepare(self, step: CreateTable) -> Rebuild | SluiceError:
        dataset, number = self._dataset(step.dataset), step.rebuild
        assert number is not None
        prepared: list[Rebuild] = []
        error = fault_of(
            lambda: prepared.append(self.rebuilds.prepare(dataset, number, history=step.history)),
            step.dataset,
            dataset.spec.location,
        )
        return prepared[0] if error is None else error

    def _create(self, step: CreateTable, mark: Rebuild | None) -> SluiceError | None:
        dataset = self._dataset(step.dataset)
        if mark is not None:
            return fault_of(partial(self.rebuilds.set_up, dataset, mark), step.dataset, dataset.spec.location)
        work = partial(self._create_table, dataset, step.change)
        return fault_of(work, step.dataset, dataset.spec.location)

    def _create_table(self, dataset: GraphDataset, planned: SchemaChange | None) -> None:
        """Create a table, or change it as planned. A deleted table has lost the rows of all its flows."""
        if not self.store.exists(self.store.address(dataset.spec)):
            GenerationStore(self.store.storage).retire_lost(dataset.name)
        self.store.create(dataset, planned=planned)

    def _begin(self, step: BeginGeneration) -> None:
        mark = Rebuild(number=step.rebuild).generation_mark if step.rebuild is not None else ""
        storage, dataset = self.store.storage, self._dataset(step.dataset)
        GenerationStore(storage, self.work.clock).begin(
            step.dataset,
            step.flow,
            reason=step.reason,
            start=step.start,
            staged=step.rebuild is not None,
            fingerprint=mark,
            number=step.generation,
        )
        failpoint("generations.after_begin")
        # If a crash comes before this, and the lost table is put back, the mark is of a generation that the loss ended.
        if step.rebuild is None and dataset.is_table:
            mark_table(storage, self.store.path(dataset.spec), step.dataset, step.flow, step.generation)

    def _dataset(self, name: QualifiedName) -> GraphDataset:
        dataset = self.graph.dataset(name)
        assert dataset is not None
        return dataset


def _needs_settled(step: Step) -> bool:
    return (isinstance(step, RunFlow) and step.rebuild is None) or (isinstance(step, SkipStep) and not step.excluded)


def _to_set_up(
    graph: DataflowGraph, plan: Plan
) -> tuple[list[CreateTable], list[BeginGeneration], dict[QualifiedName, SluiceError]]:
    """Return the steps to execute before any flow runs, and the datasets refused by the plan, with their errors.

    The match is exhaustive: a new kind of step does not type-check until it has a case here and on the board.
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
