"""The runner of a once flow with a batch source: rows and transaction identifier are one commit."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from delta import DeltaTable

from framework.declare.specs import DatasetKind
from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.plans.relations import moved
from framework.run.flows.expectations import counted
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.metrics import FlowOutcome, observing
from framework.run.flows.streams.quarantined_batches import QuarantinedBatches, forget_open_batch
from framework.run.flows.streams.unique_batches import UniqueBatches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_batch_flow(run: FlowRun) -> FlowOutcome:
    """Write the batch, to a table exactly once, to a sink at least once.

    Raises:
        Exception: the failure of the query.
    """
    query, session = run.query(), run.session()
    if not run.quarantines:
        forget_open_batch(run)
    frame = moved(query.frame, session)
    commits = run.committed_rows()
    outcome, unique = FlowOutcome(), UniqueBatches(run)
    with observing(session) as observed:
        if run.quarantines:
            outcome = _quarantined(run, frame)
        elif run.dataset.cdc is not None:
            outcome = FlowOutcome.of_cdc(
                run.writer_of(run.dataset.cdc).apply(frame, 0, observed=bool(query.expectations))
            )
        elif unique:
            outcome = unique.append(frame, run.application_id, run.step.generation, is_stream=False)
        else:
            _append(run, frame)
    if commits is not None and not run.quarantines and not unique:
        outcome = FlowOutcome(written=commits.take(application=run.application_id))
    outcome = outcome.plus(FlowOutcome(quality=counted(observed, query.expectations)))
    run.on_outcome(outcome, None)
    return outcome


def _quarantined(run: FlowRun, frame: DataFrame) -> FlowOutcome:
    batches = QuarantinedBatches(run)
    if run.dataset.cdc is None:
        return batches.append_once(frame)
    with closing(batches):
        return batches.apply(frame, 0, run.writer_of(run.dataset.cdc).apply, is_stream=False)


def _append(run: FlowRun, frame: DataFrame) -> None:
    dataset = run.dataset
    if dataset.kind is DatasetKind.FOREACH_BATCH_SINK:
        run.apply_batch(frame, 0)
        return
    if dataset.kind is DatasetKind.SINK:
        spec = dataset.spec
        frame.write.format(spec.format or "").mode("append").options(**dict(spec.options)).save()
        return
    DeltaTable.forPath(frame.sparkSession, run.path)  # raises if it was deleted: the writer would create it again
    if can_open(run.table):
        TableVersion(frame.sparkSession, run.table)  # raises if it is another table
    writer = frame.write.format("delta").mode("append")
    writer.option("txnAppId", run.application_id).option("txnVersion", run.step.generation).save(run.path)
