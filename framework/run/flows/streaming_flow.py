"""Runs a flow as a streaming query: appends to a table or sink, or applies change events by AUTO CDC."""

from __future__ import annotations

from typing import Any

from framework.cdc.model.metrics import CdcMetrics
from framework.checkpoints.offsets import read_progress
from framework.declare.specs import DatasetKind
from framework.run.flows.expectations import counted
from framework.run.flows.flow_run import FlowRun, OnOutcome
from framework.run.flows.metrics import FlowOutcome, rows_written
from framework.run.flows.reads import FlowQuery
from framework.run.flows.streaming_query import Progress, StreamTarget, run_stream


def run_streaming_flow(run: FlowRun) -> FlowOutcome:
    """Run the flow on its checkpoint until its trigger ends, and return the sum of its batches.

    Raises:
        StoppedError: the update was stopped.
        Exception: the failure of the query.
    """
    query = run.query()
    checkpoint = run.checkpoint
    batches = _Batches(query=query, on_outcome=run.on_outcome)
    before = run.table_version()
    run_stream(
        query.frame,
        run.session(),
        _target(run, batches),
        name=str(run.flow.spec.name),
        checkpoint=checkpoint,
        trigger=run.step.trigger,
        stop=run.context.stop,
        on_progress=batches.progressed,
    )
    outcome = batches.total
    if run.dataset.is_table and run.dataset.cdc is None:
        query_id = read_progress(run.storage, checkpoint).query_id
        written = rows_written(run.storage, run.path, after=before, query_id=query_id)
        outcome = FlowOutcome(written=written, quality=outcome.quality)
    return outcome


def _target(run: FlowRun, batches: _Batches) -> StreamTarget:
    dataset = run.dataset
    if dataset.cdc is not None:
        writer = run.writer_of(dataset.cdc)
        return StreamTarget(batch_function=lambda frame, number: batches.applied(writer.apply(frame, number)))
    if dataset.kind is DatasetKind.FOREACH_BATCH_SINK:
        return StreamTarget(batch_function=run.context.registry.batch_functions[dataset.name])
    if dataset.kind is DatasetKind.SINK:
        return StreamTarget(format=dataset.spec.format or "", options=dataset.spec.options)
    return StreamTarget(path=run.path, options=(("mergeSchema", "true"),))


class _Batches:
    """Sums the outcomes of one stream's batches.

    An AUTO CDC batch has two reports: its writer reports the rows when they are committed, and the
    stream's progress reports the data quality shortly after.
    """

    def __init__(self, *, query: FlowQuery, on_outcome: OnOutcome) -> None:
        self._query = query
        self._on_outcome = on_outcome
        self.total = FlowOutcome()

    def applied(self, metrics: CdcMetrics) -> None:
        """Add a committed batch of AUTO CDC."""
        self._add(FlowOutcome.of_cdc(metrics), None)

    def progressed(self, progress: Progress) -> None:
        """Add the progress of a trigger."""
        observed: Any = progress["observedMetrics"]
        rows = {name: row.asDict() if hasattr(row, "asDict") else row for name, row in observed.items()}
        self._add(FlowOutcome(quality=counted(rows, self._query.expectations)), progress)

    def _add(self, outcome: FlowOutcome, progress: Progress | None) -> None:
        self.total = self.total.plus(outcome)
        self._on_outcome(outcome, progress)
