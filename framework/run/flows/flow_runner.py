"""Runs one flow into its target: as a stream, as a batch that counts once, from snapshots, or through AUTO CDC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.writer import AutoCdcWriter
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.checkpoints.snapshots import SnapshotStore
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind
from framework.foundation.clock import Clock
from framework.foundation.failpoints import failpoint
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.graph.relations import moved
from framework.plan.steps import RunFlow
from framework.run.flows.expectations import counted
from framework.run.flows.metrics import FlowOutcome, observing, rows_written
from framework.run.flows.reads import FlowQuery, TableQueries
from framework.run.flows.snapshot_flow import SnapshotRun
from framework.run.flows.state_reader import StateReader
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.streaming_query import Progress, StreamTarget, run_stream, session_for
from framework.run.tables.table_store import TableStore
from framework.run.tables.tombstones import forget_old_deletes, may_forget, threshold_seconds
from framework.sources.delta.log import latest_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OnOutcome = Callable[[FlowOutcome, Progress | None], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowRunner:
    """Does RunFlow steps.

    Args:
        pipeline: the pipeline's name, which marks its transactions.
        state: tells what sources are like now.
        stop: asks running queries to stop.
        clock: gives snapshots their versions.
    """

    pipeline: str
    graph: DataflowGraph
    registry: Registry
    spark: SparkSession
    store: TableStore
    queries: TableQueries
    state: StateReader
    stop: StopSignal
    clock: Clock

    def run(self, step: RunFlow, on_outcome: OnOutcome) -> FlowOutcome:
        """Run the flow to the end of what its sources hold now; what it did, in all.

        Args:
            step: flow, target and generation.
            on_outcome: hears of each batch as it is committed.

        Raises:
            StoppedError: the update was asked to stop.
            Exception: whatever made it fail.
        """
        flow, dataset = self._flow(step), self._dataset(step)
        generations = GenerationStore(self.store.storage)
        settings = self.graph.settings(flow)
        forget_after = threshold_seconds(self.spark, settings)
        run = _Run(runner=self, step=step, flow=flow, dataset=dataset, on_outcome=on_outcome, settings=settings)
        manifest = generations.manifest(dataset.name, flow.spec.name).find(step.generation)
        if flow.spec.once and manifest is not None and manifest.completed:
            return FlowOutcome(written=0)
        outcome = run.do()
        if flow.spec.once:
            failpoint("run.before_once_mark")
            # Stopping here is safe: the rows carry a transaction of this generation (a stream, its
            # checkpoint; a snapshot, its version), so the next update writes none of them again and sets the mark then.
            generations.complete(dataset.name, flow.spec.name, step.generation)
        if step.rebuild is None and (outcome.upserted or outcome.deleted or outcome.late):
            self._forget_old_deletes(dataset, forget_after)
        return outcome

    def _forget_old_deletes(self, dataset: GraphDataset, seconds: int) -> None:
        if may_forget(self.graph, dataset, GenerationStore(self.store.storage)):
            companion, now = self.store.companion(dataset.spec), self.clock.now()
            forget_old_deletes(self.spark, companion, self.store.storage, now=now, older_than_seconds=seconds)

    def _flow(self, step: RunFlow) -> GraphFlow:
        flow = self.graph.flow(step.flow)
        assert flow is not None
        return flow

    def _dataset(self, step: RunFlow) -> GraphDataset:
        dataset = self.graph.dataset(step.dataset)
        assert dataset is not None
        return dataset


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """One run of one flow."""

    runner: FlowRunner
    step: RunFlow
    flow: GraphFlow
    dataset: GraphDataset
    settings: Mapping[str, str]
    on_outcome: OnOutcome

    @property
    def application_id(self) -> str:
        """What Delta remembers our transactions by: they begin anew with each generation."""
        return f"sluice:{self.runner.pipeline}:{self.step.flow}:{self.step.generation}"

    @property
    def path(self) -> str:
        """The folder of the table that the rows go to."""
        return str(self.runner.store.address(self.dataset.spec, self.step.rebuild).path)

    def query(self) -> FlowQuery:
        return self.runner.queries.flow_query(self.flow.spec, self.settings)

    def session(self) -> SparkSession:
        return session_for(self.runner.spark, self.settings)

    def do(self) -> FlowOutcome:
        """Run in the way that the flow's kind asks for."""
        if self.flow.spec.from_snapshots:
            return self.snapshots()
        return self.once() if self.flow.spec.once and not self.flow.streaming else self.stream()

    def snapshots(self) -> FlowOutcome:
        """Compare the source's snapshots with the target, one after the other."""
        runner, flow, dataset = self.runner, self.flow.spec, self.dataset
        generations = GenerationStore(runner.store.storage)
        places = {
            each.number: SnapshotStore(runner.store.storage, generations.path(dataset.name, flow.name, each.number))
            for each in generations.read(dataset.name, flow.name)
        }
        progress = places.pop(self.step.generation)
        run = SnapshotRun(
            spec=flow, dataset=dataset, session=self.session(), progress=progress,
            earlier=tuple(each.read() for each in places.values()), writer_of=self._writer_of,
            bring_to=lambda wanted: runner.store.create(wanted, self.step.rebuild),
            stop=runner.stop, on_outcome=self.on_outcome,
        )  # fmt: skip
        function = runner.registry.snapshot_functions.get(flow.name)
        if function is not None:
            return run.handed_out(function)
        source = runner.state.source_identity(self.flow)  # before the rows: what moves in between is new
        return run.present(self.query(), source=source, now=runner.clock.now())

    def stream(self) -> FlowOutcome:
        """Run as a streaming query on the flow's checkpoint."""
        query = self.query()
        generations = GenerationStore(self.runner.store.storage)
        checkpoint = generations.path(self.dataset.name, self.flow.spec.name, self.step.generation)
        batches = _Batches(query=query, on_outcome=self.on_outcome)
        before = self._version()
        run_stream(
            query.frame,
            self.session(),
            self._target(batches),
            name=str(self.flow.spec.name),
            checkpoint=checkpoint,
            stop=self.runner.stop,
            on_progress=batches.progressed,
        )
        outcome = batches.total
        if self.dataset.is_table and self.dataset.cdc is None:
            query_id = read_progress(self.runner.store.storage, checkpoint).query_id
            written = rows_written(self.runner.store.storage, self.path, after=before, query_id=query_id)
            outcome = FlowOutcome(written=written, quality=outcome.quality)
        return outcome

    def once(self) -> FlowOutcome:
        """Write a batch so that its rows and its mark are one commit."""
        query, session = self.query(), self.session()
        frame = moved(query.frame, session)
        before = self._version()
        metrics = CdcMetrics()
        with observing(session) as observed:
            if self.dataset.cdc is not None:
                metrics = self._cdc_writer().apply(frame, 0, observed=bool(query.expectations))
            else:
                self._append_once(frame)
        written = metrics.upserted if self.dataset.cdc is not None else None
        if self.dataset.is_table and self.dataset.cdc is None:
            written = rows_written(self.runner.store.storage, self.path, after=before)
        outcome = FlowOutcome(
            written=written,
            upserted=metrics.upserted,
            deleted=metrics.deleted,
            late=metrics.late,
            quality=counted(observed, query.expectations),
        )
        self.on_outcome(outcome, None)
        return outcome

    def _append_once(self, frame: DataFrame) -> None:
        """Append a batch; into a table it counts once, into a sink at least once, as the sink knows no more."""
        if self.dataset.kind is DatasetKind.FOREACH_BATCH_SINK:
            self.runner.registry.batch_functions[self.dataset.name](frame, 0)
            return
        if self.dataset.kind is DatasetKind.SINK:
            spec = self.dataset.spec
            frame.write.format(spec.format or "").mode("append").options(**dict(spec.options)).save()
            return
        frame.write.format("delta").mode("append").option("txnAppId", self.application_id).option(
            "txnVersion", self.step.generation
        ).save(self.path)

    def _target(self, batches: _Batches) -> StreamTarget:
        if self.dataset.cdc is not None:
            writer = self._cdc_writer()
            return StreamTarget(batch_function=lambda frame, number: batches.applied(writer.apply(frame, number)))
        if self.dataset.kind is DatasetKind.FOREACH_BATCH_SINK:
            return StreamTarget(batch_function=self.runner.registry.batch_functions[self.dataset.name])
        if self.dataset.kind is DatasetKind.SINK:
            return StreamTarget(format=self.dataset.spec.format or "", options=self.dataset.spec.options)
        return StreamTarget(path=self.path, options=(("mergeSchema", "true"),))

    def _cdc_writer(self) -> AutoCdcWriter:
        assert self.dataset.cdc is not None
        return self._writer_of(self.dataset.cdc)

    def _writer_of(self, target: CdcTarget) -> AutoCdcWriter:
        assert self.flow.spec.cdc is not None
        return AutoCdcWriter(
            target=target,
            flow=self.flow.spec.name,
            spec=self.flow.spec.cdc,
            table=self.runner.store.address(self.dataset.spec, self.step.rebuild),
            companion=self.runner.store.companion(self.dataset.spec, self.step.rebuild),
            application_id=self.application_id,
        )

    def _version(self) -> int | None:
        return latest_version(self.runner.store.storage, self.path) if self.dataset.is_table else None


class _Batches:
    """Adds up what the batches of one stream did.

    An AUTO CDC batch reports twice: its writer tells the rows when they are committed, and the
    stream's progress tells the quality a little later.
    """

    def __init__(self, *, query: FlowQuery, on_outcome: OnOutcome) -> None:
        self._query = query
        self._on_outcome = on_outcome
        self.total = FlowOutcome()

    def applied(self, metrics: CdcMetrics) -> None:
        """A batch of AUTO CDC is committed."""
        self._add(
            FlowOutcome(
                written=metrics.upserted, upserted=metrics.upserted, deleted=metrics.deleted, late=metrics.late
            ),
            None,
        )

    def progressed(self, progress: Progress) -> None:
        """The stream finished a trigger."""
        observed: Any = progress["observedMetrics"]
        rows = {name: row.asDict() if hasattr(row, "asDict") else row for name, row in observed.items()}
        self._add(FlowOutcome(quality=counted(rows, self._query.expectations)), progress)

    def _add(self, outcome: FlowOutcome, progress: Progress | None) -> None:
        self.total = self.total.plus(outcome)
        self._on_outcome(outcome, progress)
