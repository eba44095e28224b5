"""The single writer of an update's events to its event log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from framework.declare.specs import DatasetKind
from framework.foundation.errors import SluiceError
from framework.foundation.names import QualifiedName
from framework.foundation.processes import user_name
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.ingest.generations import Refusal
from framework.plan.request import UpdateRequest
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
)
from framework.record import drafts
from framework.record.events import EventDraft, summarize_error
from framework.record.log import EventLog
from framework.record.progress import flow_metrics, stream_details
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.quality_counts import QualityCounts
from framework.run.tables.table_store import TableStore
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.results import FlowResult, FlowState, UpdateState
from framework.sources.port import Lag


class Journal:
    """Records the update's events; every method returns once the log has accepted the event."""

    def __init__(self, log: EventLog, *, continuous: bool = False) -> None:
        self._log = log
        self._continuous = continuous
        self._states: dict[QualifiedName, FlowState] = {}
        self._active: set[QualifiedName] = set()

    def take_active(self) -> set[QualifiedName]:
        """Return the flows that committed something since the last call."""
        active, self._active = self._active, set()
        return active

    def created(self, request: UpdateRequest, identity: UpdateIdentity) -> None:
        """Record the update's request, and the number of its attempt."""
        self._log.record(
            drafts.create_update(
                cause=identity.cause.value,
                full_refresh=request.full_refresh_all,
                refresh_selection=[str(name) for name in request.refresh],
                full_refresh_selection=[str(name) for name in request.full_refresh],
                reset_checkpoint_selection=[str(name) for name in request.reset_checkpoints],
                continuous=request.continuous,
                request_id=identity.request_id,
                attempt=identity.attempt,
                user_name=user_name(),
            )
        )

    def refused(self, refusals: Sequence[Refusal]) -> None:
        """Record requested snapshots that could not begin."""
        for each in refusals:
            error = summarize_error(each.error, fatal=False)
            self._log.record(
                drafts.operation_progress(
                    operation="CDC_SNAPSHOT", status="FAILED", dataset=str(each.target), error=error
                )
            )

    def update(self, state: UpdateState, *, error: SluiceError | None = None, seconds: float | None = None) -> None:
        """Record the update's new state."""
        summary = summarize_error(error, fatal=True) if error is not None else None
        self._log.record(drafts.update_progress(state=state.value, error=summary, duration_seconds=seconds))

    def definitions(self, graph: DataflowGraph, store: TableStore) -> None:
        """Record the definitions of the pipeline's datasets, sinks and flows."""
        for dataset in graph.datasets:
            self._log.record(_definition(dataset, len(graph.flows_into(dataset.name)), store))
        for flow in graph.flows:
            self._log.record(
                drafts.flow_definition(
                    flow=str(flow.spec.name),
                    dataset=str(flow.spec.target),
                    flow_type=_flow_type(graph, flow),
                    input_datasets=[str(read.dataset or read.text) for read in flow.reads],
                    once=flow.spec.once,
                    comment=flow.spec.comment,
                    spark_conf=dict(flow.spec.spark_conf),
                )
            )

    def warned(self, errors: Iterable[SluiceError]) -> None:
        """Record errors that stop nothing, for users who watch the update."""
        for error in errors:
            self._log.record(drafts.warned(error))

    def planned(self, plan: Plan) -> None:
        """Record how each dataset is brought up to date, and why."""
        self.warned(each.error() for each in plan.warnings)
        for step in plan.steps:
            match step:
                case SkipStep(flow=flow) if flow is not None:
                    self._planned(step.dataset, flow, "NO_OP", step.reason)
                case RefreshView():
                    self._planned(step.dataset, step.flow, "COMPLETE_RECOMPUTE", step.reason)
                case PublishRebuild():
                    self._planned(step.dataset, None, "REBUILD", step.reason)
                case RunFlow():
                    self._planned(step.dataset, step.flow, "INCREMENTAL", step.reason)
                case KeepStored():
                    self._planned(step.dataset, None, "NO_OP", step.reason)
                case SkipStep() | RefuseTable() | CreateTable() | BeginGeneration():
                    pass  # no computation; flows of a refused table end as FAILED
                case _:
                    assert_never(step)

    def lacking(self, graph: DataflowGraph) -> None:
        """Record the rows that datasets lack although their flows run."""
        for name, error in graph.lacking.items():
            text = f"{error.what} {error.remedy}"
            self._log.record(drafts.incomplete_dataset(dataset=str(name), condition=error.condition, text=text))

    def flow(self, flow: QualifiedName, dataset: QualifiedName, state: FlowState, message: str | None = None) -> None:
        """Record a flow's state; a continuous update records it only if it changed."""
        if self._continuous:
            if state is FlowState.STARTING or (message is None and self._states.get(flow) is state):
                return
            self._states[flow] = state
        self._log.record(
            drafts.flow_progress(flow=str(flow), dataset=str(dataset), status=state.value, message=message)
        )

    def progressed(
        self, flow: QualifiedName, dataset: QualifiedName, outcome: FlowOutcome, progress: dict[str, Any] | None
    ) -> None:
        """Record that a flow committed something, with the stream's progress if there is any."""
        self._active.add(flow)
        metrics: dict[str, int] = dict(flow_metrics(progress)) if progress is not None else {}
        metrics |= _metrics(outcome)
        self._log.record(
            drafts.flow_progress(
                flow=str(flow),
                dataset=str(dataset),
                status=FlowState.RUNNING.value,
                metrics=metrics,
                quality=_quality(outcome.quality),
            )
        )
        if progress is not None:
            self._log.record(
                drafts.stream_progress(flow=str(flow), dataset=str(dataset), progress=stream_details(progress))
            )

    def alive(self, flow: QualifiedName, dataset: QualifiedName, state: FlowState, lag: Lag) -> None:
        """Record that a flow of a continuous update is alive although it wrote no rows."""
        backlog = {"backlog_records": lag.records, "backlog_bytes": lag.bytes, "backlog_seconds": lag.seconds}
        metrics = {name: int(value) for name, value in backlog.items() if value is not None}
        self._log.record(
            drafts.flow_progress(
                flow=str(flow), dataset=str(dataset), status=state.value, metrics={"num_output_rows": 0, **metrics}
            )
        )

    def degraded(self, flow: QualifiedName, dataset: QualifiedName, error: SluiceError, delay_seconds: float) -> None:
        """Record that a flow of a continuous update failed and is retried later."""
        self._states[flow] = FlowState.QUEUED
        self._log.record(
            drafts.flow_progress(
                flow=str(flow),
                dataset=str(dataset),
                status=FlowState.QUEUED.value,
                error=summarize_error(error, fatal=False),
                message=f"Flow {flow} is degraded. It restarts in {delay_seconds:.0f} s: {error.what}",
            )
        )

    def ended(self, result: FlowResult) -> None:
        """Record the end of a flow's run."""
        outcome = FlowOutcome(
            written=result.rows_written,
            upserted=result.rows_upserted,
            deleted=result.rows_deleted,
            quality=QualityCounts(dropped=result.rows_dropped, expectations=result.expectations),
        )
        self._log.record(
            drafts.flow_progress(
                flow=str(result.flow),
                dataset=str(result.dataset),
                status=result.state.value,
                metrics=_metrics(outcome) if result.state is FlowState.COMPLETED else None,
                quality=_quality(outcome.quality),
                error=summarize_error(result.error, fatal=True) if result.error is not None else None,
                message=f"Flow {result.flow} is {result.state.value}: {result.reason}." if result.reason else None,
            )
        )

    def _planned(self, dataset: QualifiedName, flow: QualifiedName | None, technique: str, reason: str) -> None:
        self._log.record(
            drafts.planning_information(
                dataset=str(dataset), technique=technique, reason=reason, flow=str(flow) if flow else None
            )
        )


def _metrics(outcome: FlowOutcome) -> dict[str, int]:
    metrics = {} if outcome.written is None else {"num_output_rows": outcome.written}
    if outcome.upserted or outcome.deleted:
        metrics |= {"num_upserted_rows": outcome.upserted, "num_deleted_rows": outcome.deleted}
    if outcome.late:
        metrics |= {"num_late_rows": outcome.late}
    if outcome.quarantined:
        metrics |= {"num_quarantined_rows": outcome.quarantined}
    return metrics


def _quality(counts: QualityCounts) -> dict[str, Any] | None:
    if not counts.expectations:
        return None
    return drafts.data_quality(
        dropped_records=counts.dropped,
        expectations=[
            drafts.ExpectationRecord(
                name=count.name, dataset=str(count.dataset), passed_records=count.passed, failed_records=count.failed
            )
            for count in counts.expectations
        ],
    )


def _flow_type(graph: DataflowGraph, flow: GraphFlow) -> str:
    dataset = graph.dataset(flow.spec.target)
    if flow.spec.cdc is not None:
        return "CHANGE"
    if dataset is not None and dataset.kind is DatasetKind.MATERIALIZED_VIEW:
        return "COMPLETE"
    return "VIEW" if dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW else "APPEND"


def _definition(dataset: GraphDataset, flows: int, store: TableStore) -> EventDraft:
    spec = dataset.spec
    if dataset.is_sink:
        return drafts.sink_definition(
            sink=str(spec.name), format=spec.format or "foreach_batch", options=dict(spec.options)
        )
    expectations: Sequence[dict[str, str]] = [
        {"name": each.name, "condition": each.condition, "action": each.action.value} for each in spec.expectations
    ]
    return drafts.dataset_definition(
        dataset=str(spec.name),
        dataset_type=dataset.kind.value.upper(),
        num_flows=flows,
        schema=dataset.schema,
        storage_location=store.path(spec) if dataset.is_table else None,
        partition_columns=spec.partition_columns,
        table_properties=dict(spec.table_properties),
        expectations=expectations,
        comment=spec.comment,
    )
