"""The execution of RunFlow steps: selects the runner by flow kind, completes once flows, and removes tombstones."""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.checkpoints.table_marks import TableMark, write_mark
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow
from framework.ingest.confirmation import is_awaited
from framework.plan.steps import RunFlow
from framework.run.flows.confirmations import Turns, applied_by, confirm_snapshots
from framework.run.flows.flow_run import FlowContext, FlowRun, OnOutcome
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.snapshot_flow import run_snapshot_flow
from framework.run.flows.state.generation_numbers import name_generation, restart_application
from framework.run.flows.state.sink_types import sink_place
from framework.run.flows.streaming_query import Progress
from framework.run.flows.streams.batch_flow import run_batch_flow
from framework.run.flows.streams.streaming_flow import run_streaming_flow
from framework.run.tables.column_changes import check_fits
from framework.run.tables.marked_tables import mark_table
from framework.run.tables.tombstones import forget_old_deletes, may_forget, threshold_seconds
from framework.sources.starts import parse_starts

_MARK_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowRunner:
    """Executes RunFlow steps."""

    context: FlowContext
    _applied: set[tuple[QualifiedName, int]] = field(default_factory=set)
    """The targets, with the number of their snapshot, whose changes before that snapshot are applied."""
    _turns: Turns = field(default_factory=Turns)

    def run(self, step: RunFlow, on_outcome: OnOutcome) -> FlowOutcome:
        """Run the flow until its trigger ends, and return the sum of its batches.

        Args:
            step: flow, target, generation and trigger.
            on_outcome: called for each committed batch.

        Raises:
            StoppedError: the update was stopped.
            Exception: the failure of the flow.
        """
        flow, dataset = self._flow(step), self._dataset(step)
        generations = GenerationStore(self.context.store.storage)
        settings = self.context.graph.settings(flow)
        forget_after = threshold_seconds(self.context.sessions.pipeline, settings)
        generation = generations.manifest(dataset.name, flow.spec.name).find(step.generation)
        if flow.spec.once and generation is not None and generation.completed:
            return FlowOutcome(written=0)
        starts = parse_starts(generation.start if generation is not None else None)
        applied = applied_by(flow.spec.name, self.context)
        awaited = self.context.state.starts.awaited(flow, starts)
        run = FlowRun(
            context=self.context,
            step=step,
            flow=flow,
            dataset=dataset,
            settings=settings,
            starts=starts,
            awaited=tuple(awaited.values()),
            on_outcome=self._marking(step, dataset, on_outcome),
        )
        # Before the first row is read, because the stream may read the present rows and die before it is stored again.
        # A crash after it is safe: recorded sources that were not read are replaced at the next start.
        self._remember_sources(step, flow)
        failpoint("sources.after_known")
        if awaited and not self.context.state.starts.can_start(flow, awaited):
            return FlowOutcome(written=0)
        if step.rebuild is None and dataset.is_table and not flow.spec.from_snapshots:  # a snapshot brings its columns
            check_fits(self.context.store.storage, run.path, dataset)
        self._name_restart(step, run)
        try:
            outcome = _run(run)
        finally:  # batches committed before a failure are in the table
            self._mark(step, dataset)
        self._applied.update(applied)
        if flow.spec.once and not is_awaited(
            self.context.registry.gateways, self.context.store.storage, flow.spec.name
        ):
            failpoint("run.before_once_mark")
            # A crash here is safe: the rows have a transaction of this generation (for a stream in its checkpoint, for
            # a snapshot its version), so the next update skips them and then sets the mark.
            generations.complete(dataset.name, flow.spec.name, step.generation)
        if step.rebuild is None:
            confirmed = confirm_snapshots(self.context, flow.spec, self._applied, self._turns, on_outcome)
            outcome = outcome.plus(confirmed)
        if step.rebuild is None and (outcome.upserted or outcome.deleted or outcome.late):
            self._collect_tombstones(dataset, forget_after)
        return outcome

    def _name_restart(self, step: RunFlow, run: FlowRun) -> None:
        """Commit the generation of a flow that begins again to the table that it appends to.

        Without it, an older copy of its checkpoints would append the same rows. A full refresh does this when it is
        published.
        """
        appends = run.dataset.is_table and run.dataset.cdc is None and run.flow.streaming
        if not appends or step.generation == 1 or step.rebuild is not None:
            return
        if read_progress(self.context.store.storage, run.checkpoint).last_offset_batch is None:
            name_generation(run.session(), run.path, restart_application(step.flow), step.generation)

    def _marking(self, step: RunFlow, dataset: GraphDataset, on_outcome: OnOutcome) -> OnOutcome:
        """Also mark the table once a minute: a flow of a continuous update with constant input runs for weeks."""
        marked_at = self.context.clock.monotonic()

        def committed(outcome: FlowOutcome, progress: Progress | None) -> None:
            nonlocal marked_at
            on_outcome(outcome, progress)
            now = self.context.clock.monotonic()
            if now - marked_at >= _MARK_SECONDS:
                marked_at = now
                self._mark(step, dataset)

        return committed

    def _mark(self, step: RunFlow, dataset: GraphDataset) -> None:
        # A crash here is safe: the commits before the start are recorded, and the checkpoint has what was read.
        failpoint("sources.before_known")
        self._remember_sources(step, self._flow(step))
        self._mark_table(step, dataset)

    def _remember_sources(self, step: RunFlow, flow: GraphFlow) -> None:
        if flow.streaming and not flow.spec.from_snapshots:
            checkpoint = GenerationStore(self.context.store.storage).path(step.dataset, step.flow, step.generation)
            self.context.state.remember_sources(flow, checkpoint)

    def _mark_table(self, step: RunFlow, dataset: GraphDataset) -> None:
        store = self.context.store
        if step.rebuild is not None or not (dataset.is_table or dataset.is_sink):
            return
        if dataset.is_table:
            mark_table(store.storage, store.path(dataset.spec), dataset.name, step.flow, step.generation)
        elif place := sink_place(dataset.spec):
            mark = TableMark(generation=step.generation, table_id=place, version=0)
            write_mark(store.storage, dataset.name, step.flow, mark)

    def _collect_tombstones(self, dataset: GraphDataset, seconds: int) -> None:
        store = self.context.store
        if may_forget(self.context.graph, dataset, GenerationStore(store.storage)):
            auxiliary, now = store.auxiliary(dataset.spec), self.context.clock.now()
            forget_old_deletes(self.context.spark, auxiliary, store.storage, now=now, older_than_seconds=seconds)

    def _flow(self, step: RunFlow) -> GraphFlow:
        flow = self.context.graph.flow(step.flow)
        assert flow is not None
        return flow

    def _dataset(self, step: RunFlow) -> GraphDataset:
        dataset = self.context.graph.dataset(step.dataset)
        assert dataset is not None
        return dataset


def _run(run: FlowRun) -> FlowOutcome:
    if run.flow.spec.from_snapshots:
        return run_snapshot_flow(run)
    if run.flow.spec.once and not run.flow.streaming:
        return run_batch_flow(run)
    return run_streaming_flow(run)
