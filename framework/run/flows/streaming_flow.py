"""Runs a flow as a streaming query: appends to a table or sink, or applies change events by AUTO CDC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.cdc.delta.compaction import compact, compaction_is_due
from framework.cdc.model.metrics import CdcMetrics
from framework.checkpoints.offsets import read_progress
from framework.declare.specs import DatasetKind
from framework.foundation.table_address import TableAddress
from framework.run.flows.expectations import counted
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.reads import FlowQuery
from framework.run.flows.streaming_query import Progress, StreamTarget, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANAGED = "pipelines.autoOptimize.managed"
"""The table property that disables compaction with the value `false`."""


def run_streaming_flow(run: FlowRun) -> FlowOutcome:
    """Run the flow on its checkpoint until its trigger ends, and return the sum of its batches.

    Raises:
        StoppedError: the update was stopped.
        Exception: the failure of the query.
    """
    query, session = run.query(), run.session()
    batches = _Batches(run=run, query=query, session=session)
    try:
        run_stream(
            query.frame,
            session,
            _target(run, batches),
            name=str(run.flow.spec.name),
            checkpoint=run.checkpoint,
            trigger=run.step.trigger,
            stop=run.context.stop,
            on_progress=batches.progressed,
        )
    finally:
        batches.ended()
    return batches.total


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
    """Sums the outcomes of one stream's batches, and keeps the number of small files of an appended table low.

    An AUTO CDC batch has two reports: its writer reports the rows when they are committed, and the
    stream's progress reports the data quality shortly after.
    """

    def __init__(self, *, run: FlowRun, query: FlowQuery, session: SparkSession) -> None:
        self._run = run
        self._query = query
        self._session = session
        self._commits = run.committed_rows()
        self._compacts = self._commits is not None and _is_managed(run)
        self._query_id: str | None = None
        self.total = FlowOutcome(written=None if self._commits is None else 0)

    def applied(self, metrics: CdcMetrics) -> None:
        """Add a committed batch of AUTO CDC."""
        self._add(FlowOutcome.of_cdc(metrics), None)

    def progressed(self, progress: Progress) -> None:
        """Add the progress of a trigger."""
        observed: Any = progress["observedMetrics"]
        rows = {name: row.asDict() if hasattr(row, "asDict") else row for name, row in observed.items()}
        quality = counted(rows, self._query.expectations)
        self._add(FlowOutcome(written=self._written(), quality=quality), progress)
        if self._compacts and compaction_is_due(progress["batchId"]) and not self._run.context.stop.is_set:
            compact(self._session, TableAddress(path=self._run.path), progress["batchId"])

    def ended(self) -> None:
        """Add the rows of a last batch whose progress was not reported, because the query was stopped."""
        if written := self._written():
            self._add(FlowOutcome(written=written), None)

    def _written(self) -> int | None:
        if self._commits is None:
            return None
        if self._query_id is None:
            self._query_id = read_progress(self._run.storage, self._run.checkpoint).query_id
        return 0 if self._query_id is None else self._commits.take(self._query_id)

    def _add(self, outcome: FlowOutcome, progress: Progress | None) -> None:
        self.total = self.total.plus(outcome)
        self._run.on_outcome(outcome, progress)


def _is_managed(run: FlowRun) -> bool:
    """Whether the user lets us compact the target; Lakeflow's property with Lakeflow's default."""
    return dict(run.dataset.spec.table_properties).get(MANAGED, "true").lower() != "false"
