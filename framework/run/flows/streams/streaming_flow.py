"""The runner of streaming flows: appends to a table or sink, or applies change events by AUTO CDC."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from framework.cdc.delta.compaction import compact, compaction_is_due
from framework.cdc.model.metrics import CdcMetrics
from framework.checkpoints.offsets import read_progress
from framework.declare.specs import DatasetKind
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.plans.relations import moved
from framework.engine.sessions.execution import compute, thread_target
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.failpoints import failpoint
from framework.foundation.table_address import TableAddress
from framework.run.flows.expectations import counted
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.quality_counts import QualityCounts
from framework.run.flows.reads import FlowQuery
from framework.run.flows.state.sink_types import check_sink_types
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.streaming_query import POLL_SECONDS, BatchFunction, Progress, StreamTarget, run_stream
from framework.run.flows.streams.quarantined_batches import QuarantinedBatches, forget_open_batch
from framework.run.flows.streams.staged_leftovers import StagedLeftovers
from framework.run.flows.streams.staged_snapshot import StagedSnapshot
from framework.run.flows.streams.unique_batches import UniqueBatches
from framework.run.flows.written_tables import found_id
from framework.run.tables.appended_files import SINK_OPTIONS, TableAppend, can_append
from framework.sources.cloud_files.relation import bound
from framework.sources.cloud_files.source import check_columns
from framework.sources.databases.formats import register_formats
from framework.sources.delta.later_begin import beginning_later
from framework.sources.kinds import streamed_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MANAGED = "pipelines.autoOptimize.managed"
"""The table property that disables compaction if it is `false`."""


def run_streaming_flow(run: FlowRun) -> FlowOutcome:
    """Run the flow on its checkpoint until its trigger ends, and return the sum of its batches.

    Raises:
        StoppedError: the update was stopped.
        OperationError: SINK_TYPE_TOO_NARROW; UNKNOWN_FIELD or WIDER_FIELD, as in `check_columns`.
        Exception: the failure of the query.
    """
    query, session = run.query(), run.session()
    check_columns(run.flow.sources, lambda: streamed_sources(query.frame))
    if not run.quarantines:
        forget_open_batch(run)
    if run.dataset.kind is DatasetKind.SINK and run.dataset.widens:
        check_sink_types(session, run.dataset, query.frame.schema)
    unique = UniqueBatches(run)
    staged = None if run.quarantines or unique else StagedSnapshot.of(run, query, session)
    batches = _Batches(run=run, query=query, session=session, staged=staged, unique=unique)
    batches.begin()
    try:
        run_stream(
            partial(_bound, run, query, session) if staged is None else partial(staged.begin, session),
            _target(run, query, session, batches) if staged is None else _staged_target(run, batches, staged),
            name=str(run.flow.spec.name),
            checkpoint=run.checkpoint,
            trigger=run.step.trigger,
            stop=run.context.stop,
            is_held=lambda: run.flow.spec.name in run.context.holds,
            on_progress=batches.progressed,
            on_start=run.started,
            idle_by_rows=any(read.only for read in run.flow.reads),
            on_end=(lambda: None) if staged is None else staged.end,
        )
    except SluiceError as error:
        if error.location:
            raise
        raise error.at(run.flow.spec.location) from error
    finally:
        if staged is not None:
            staged.end()
        batches.ended()
    return batches.total


def _bound(run: FlowRun, query: FlowQuery, session: SparkSession, faults: list[BaseException]) -> DataFrame:
    register_formats(session, query.frame)
    frame = moved(query.frame, session)
    if run.awaited:
        frame = beginning_later(frame, run.awaited)
    return bound(frame, run.storage, run.checkpoint, faults)


def _target(run: FlowRun, query: FlowQuery, session: SparkSession, batches: _Batches) -> StreamTarget:
    dataset = run.dataset
    if run.quarantines or batches.unique:
        write = _quarantining(run, batches) if run.quarantines else partial(_append_unique, batches)
        return to_same_table(run, write)
    if dataset.cdc is not None:
        writer = run.writer_of(dataset.cdc)
        return to_same_table(run, lambda frame, number: batches.applied(writer.apply(frame, number), number))
    if dataset.kind is DatasetKind.FOREACH_BATCH_SINK:
        return StreamTarget(batch_function=run.apply_batch)
    if dataset.kind is DatasetKind.SINK:
        return StreamTarget(format=dataset.spec.format or "", options=dataset.spec.options)
    if can_append(session, TableAddress(path=run.path), query.frame):
        return to_same_table(run, partial(_append, run, batches))
    return StreamTarget(path=run.path, options=tuple(SINK_OPTIONS.items()))


def _append(run: FlowRun, batches: _Batches, rows: DataFrame, number: int) -> None:
    """Append a micro-batch in one commit, unless the table already has it.

    Delta's own sink computes the state of the table's log in each batch, to find the batch's transaction (ADR 53).
    """
    query_id = batches.query_id()
    assert query_id is not None  # the checkpoint has it before the first batch
    transaction = TableAppend.begin(rows.sparkSession, run.table, query_id, number)
    if not transaction.has_applied():
        transaction.append_rows(rows)
        failpoint("appends.after_commit")
    elif run.is_stateful:
        compute(rows)


def _append_unique(batches: _Batches, rows: DataFrame, number: int) -> None:
    query_id = batches.query_id()
    assert query_id is not None  # the checkpoint has it before the first batch
    batches.written(batches.unique.append(rows, query_id, number, is_stream=True), number)


def _quarantining(run: FlowRun, batches: _Batches) -> BatchFunction:
    quarantined = batches.quarantined = QuarantinedBatches(run)
    if run.dataset.cdc is None:
        return lambda rows, number: batches.written(quarantined.append(rows, number), number)
    write = run.writer_of(run.dataset.cdc).apply
    return lambda events, number: batches.written(quarantined.apply(events, number, write), number)


def _staged_target(run: FlowRun, batches: _Batches, staged: StagedSnapshot) -> StreamTarget:
    if run.dataset.cdc is None:
        return to_same_table(run, lambda chunks, number: staged.append(chunks, number, batches.checked))
    writer = run.writer_of(run.dataset.cdc)
    return to_same_table(
        run,
        lambda chunks, number: batches.applied(staged.apply(chunks, number, writer, batches.checked), number),
    )


class _Batches:
    """Sums the outcomes of one stream's batches, and sometimes compacts the table that it appends to.

    An AUTO CDC batch is reported twice: its writer reports the rows when they are committed, and the stream's progress
    reports the data quality shortly afterwards.
    """

    def __init__(
        self,
        *,
        run: FlowRun,
        query: FlowQuery,
        session: SparkSession,
        staged: StagedSnapshot | None,
        unique: UniqueBatches,
    ) -> None:
        self._run = run
        self._staged = staged
        self._query = query
        # A staged snapshot cleans up itself, as soon as its first batch is committed.
        self._leftovers = None if staged is not None else StagedLeftovers(run, session, query)
        commits = run.committed_rows()
        self.unique = unique
        counts_itself = run.quarantines or bool(unique)
        self._commits = None if counts_itself else commits
        self._compaction = (
            _Compaction(session, run.path, run.context.stop) if commits is not None and _is_managed(run) else None
        )
        self._query_id: str | None = None
        # An append commits every batch; the other batch functions commit none without rows.
        self._commits_all = run.dataset.cdc is None and not counts_itself
        self._committed: int | None = None
        self._has_confirmed = False
        self.quarantined: QuarantinedBatches | None = None
        self.total = FlowOutcome(written=None if commits is None else 0)

    def begin(self) -> None:
        """Delete files that earlier runs staged outside the table, if this run stages nothing."""
        if self._leftovers is not None:
            self._leftovers.begin()

    def query_id(self) -> str | None:
        """The id of the stream, read once from its checkpoint; None before the stream has begun."""
        if self._query_id is None:
            self._query_id = read_progress(self._run.storage, self._run.checkpoint).query_id
        return self._query_id

    def applied(self, metrics: CdcMetrics, number: int) -> None:
        """Add a committed batch of AUTO CDC."""
        if metrics.rows or metrics.skipped:
            self._committed = number
        self._add(FlowOutcome.of_cdc(metrics), None)

    def written(self, outcome: FlowOutcome, number: int) -> None:
        """Add a committed batch whose rows its writer has counted."""
        if outcome.written or outcome.deleted:
            self._committed = number
        self._add(outcome, None)

    def checked(self, quality: QualityCounts) -> None:
        """Add the data quality of a batch whose stream does not observe it."""
        self._add(FlowOutcome(quality=quality), None)

    def progressed(self, progress: Progress) -> None:
        """Add the progress of a trigger."""
        if self._staged is not None:
            progress = self._staged.with_rows(progress)
        observed: Any = progress["observedMetrics"]
        rows = {name: row.asDict() if hasattr(row, "asDict") else row for name, row in observed.items()}
        quality = counted(rows, self._query.expectations)
        self._add(FlowOutcome(written=self._written(), quality=quality), progress)
        if self._compaction is not None and compaction_is_due(progress["batchId"]):
            self._compaction.begin(progress["batchId"])
        number = progress["batchId"]
        self._has_confirmed = self._has_confirmed or self._run.confirm_sources(number)
        if self._leftovers is not None and (self._commits_all or number == self._committed):
            self._leftovers.clean(number)

    def ended(self) -> None:
        """Add the rows of a last batch whose progress was not reported because the query was stopped."""
        if self.quarantined is not None:
            self.quarantined.close()
        if self._compaction is not None:
            self._compaction.end()
        if written := self._written():
            self._add(FlowOutcome(written=written), None)

    def _written(self) -> int | None:
        if self._commits is None:
            return None
        query_id = self.query_id()
        return 0 if query_id is None else self._commits.take(query_id)

    def _add(self, outcome: FlowOutcome, progress: Progress | None) -> None:
        self.total = self.total.plus(outcome)
        self._run.on_outcome(outcome, progress)


class _Compaction:
    """Compacts an appended table in the background; its query neither waits for it nor fails with it.

    Args:
        session: the flow's session.
        path: the folder of the table.
        stop: cancels a running compaction.
    """

    def __init__(self, session: SparkSession, path: str, stop: StopSignal) -> None:
        self._session = session
        self._path = path
        self._stop = stop
        self._group = f"compaction of {path}"
        self._thread: Thread | None = None

    def begin(self, batch_id: int) -> None:
        """Compact the table if it has many small files, unless a compaction still runs."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(
                target=thread_target(self._session, partial(self._compact, batch_id)), name=self._group, daemon=True
            )
            self._thread.start()

    def end(self) -> None:
        """Wait for a running compaction; after a stop it is canceled, because the next update can compact instead."""
        while self._thread is not None and self._thread.is_alive():
            if self._stop.is_set:
                self._session.sparkContext.cancelJobGroup(self._group)
            self._thread.join(POLL_SECONDS)

    def _compact(self, batch_id: int) -> None:
        # The rows are committed, and the compaction is tried again when it is due next.
        with suppress(PySparkException, Py4JError):
            self._session.sparkContext.setJobGroup(self._group, self._group, interruptOnCancel=True)
            compact(self._session, TableAddress(path=self._path), batch_id)


def _is_managed(run: FlowRun) -> bool:
    """Whether the target is compacted here, according to Lakeflow's property and its default.

    A clustered table is excluded: its OPTIMIZE not only merges small files, but also clusters the table again.
    """
    spec = run.dataset.spec
    return not spec.cluster_by and dict(spec.table_properties).get(MANAGED, "true").lower() != "false"


def to_same_table(run: FlowRun, write: BatchFunction) -> StreamTarget:
    """Return the target that writes a batch only while the table has the id that the update found first.

    The writer compares the id again when it begins its transaction, and checks the log before it commits.

    Args:
        run: the flow's run.
        write: writes a batch.
    """
    if not run.dataset.is_table:
        return StreamTarget(batch_function=write)
    began_with = run.table.table_id

    def checked(rows: DataFrame, number: int) -> None:
        present = found_id(run.storage, run.path)
        if None not in {present, began_with} and present != began_with:
            raise OperationError("TABLE_REPLACED", location=run.dataset.spec.location, path=run.path)
        write(rows, number)

    return StreamTarget(batch_function=checked)
