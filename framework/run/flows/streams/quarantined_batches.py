"""The batches of a flow with a quarantine: computed once, faulty rows are quarantined, then the others written.

The durable effects of a batch in order, and why a crash after each is safe:

1. Spark records the offsets of the batch. The batch runs again.
2. The quarantine's commit. The batch runs again, and its rows replace these. The target does not have the batch yet,
   so each row is decided again and ends in exactly one of the two tables, even if its expectation has changed since.
3. The target's commit, with the batch's transaction identifier. The batch runs again and is skipped, because both
   commits exist. A batch without rows for the target has no such commit, and is decided again as after 2.
4. Spark records the batch as committed.

After 2, the quarantine has rows of an uncommitted batch; such rows are not replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from framework.cdc.model.columns import column
from framework.cdc.model.metrics import CdcMetrics
from framework.checkpoints.offsets import read_offsets, read_progress
from framework.declare.specs import DatasetKind
from framework.engine.sessions.execution import compute, computed_once
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage import Storage
from framework.foundation.table_address import TableAddress
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.streams.unique_batches import UniqueBatches
from framework.run.quarantine.append_once import append_once, has_taken
from framework.run.quarantine.open_events import OpenEvents
from framework.run.quarantine.states import RowStates
from framework.run.quarantine.table import FILE, REASONS, QuarantinedBatch, QuarantineTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Write = Callable[["DataFrame", int], CdcMetrics]


def forget_open_batch(run: FlowRun) -> None:
    """Delete the quarantined rows of an interrupted batch that runs again without a quarantine.

    The target does not have the batch, so each of its rows is decided again, by code that may have changed.
    """
    table = QuarantineTable(storage=run.storage, session=run.session())
    if run.dataset.kind is not DatasetKind.STREAMING_TABLE or not table.exists():
        return
    number, transaction = _open_batch(run)
    if number is None or has_taken(table.session, TableAddress(path=run.path), transaction, number):
        return
    table.forget_batch(origin_of(run, number, transaction))


def _open_batch(run: FlowRun) -> tuple[int | None, str]:
    """Return the batch that has begun and not ended, or None, and its transaction in the target."""
    is_append = run.dataset.cdc is None
    if not run.flow.streaming:
        return (run.step.generation if is_append else 0), run.application_id
    progress = read_progress(run.storage, run.checkpoint)
    is_open = progress.last_offset_batch is not None and not progress.is_settled
    return progress.last_offset_batch if is_open else None, str(progress.query_id) if is_append else run.application_id


def origin_of(run: FlowRun, number: int, transaction: str) -> QuarantinedBatch:
    """Return the origin of a batch's rows, without its position."""
    return QuarantinedBatch(
        pipeline=run.context.pipeline,
        flow=run.flow.spec.name,
        dataset=run.dataset.name,
        generation=run.step.generation,
        number=number,
        transaction=transaction,
        update_id=run.context.update_id,
    )


class QuarantinedBatches:
    """Writes the batches of one run of a flow, whose rows have `REASONS` and `FILE`.

    Args:
        run: the flow's run.
    """

    def __init__(self, run: FlowRun) -> None:
        self._run = run
        self._table = run.table
        self._open = OpenEvents()
        self._unique = UniqueBatches(run)
        self._last: int | None = None  # the last batch that may have quarantined rows of an earlier attempt

    def close(self) -> None:
        """Release the cached look-ups of the run."""
        self._open.close()

    def append(self, rows: DataFrame, number: int) -> FlowOutcome:
        """Append a micro-batch of a stream."""
        # The identifier of Spark's own sink: the table takes a batch once, even if the quarantine was just enabled.
        query_id = str(read_progress(self._run.storage, self._run.checkpoint).query_id)
        return self._append(rows, number, query_id)

    def append_once(self, rows: DataFrame) -> FlowOutcome:
        """Append the rows of a once flow with a batch source."""
        return self._append(rows, self._run.step.generation, self._run.application_id, is_stream=False)

    def apply(self, events: DataFrame, number: int, write: Write, *, is_stream: bool = True) -> FlowOutcome:
        """Apply a batch by AUTO CDC.

        Args:
            events: the rows of the source.
            number: the batch's number.
            write: applies the valid events.
            is_stream: whether a stream reports the observed counts.
        """
        transaction = self._run.application_id
        if self._has(events, transaction, number):
            return FlowOutcome(written=0)
        with self._split(events, number, transaction, is_stream=is_stream) as (valid, counts):
            return FlowOutcome.of_cdc(write(valid, number)).plus(replace(counts, written=None))

    def _append(self, rows: DataFrame, number: int, transaction: str, *, is_stream: bool = True) -> FlowOutcome:
        with self._unique.exclusive():
            if self._has(rows, transaction, number):
                return FlowOutcome(written=0)
            with self._split(rows, number, transaction, is_stream=is_stream) as (valid, counts):
                if counts.written:
                    append_once(valid, self._table, transaction, number)
                    failpoint("quarantine.after_target")
                return counts

    def _has(self, rows: DataFrame, transaction: str, number: int) -> bool:
        """Return whether the target already has a batch, which is then skipped."""
        has = has_taken(rows.sparkSession, self._table, transaction, number)
        if has and self._run.is_stateful:
            compute(rows)
        return has

    def _states(self) -> RowStates:
        return RowStates.of(self._run.context.store, self._run.context.graph)

    @contextmanager
    def _split(
        self, rows: DataFrame, number: int, transaction: str, *, is_stream: bool
    ) -> Iterator[tuple[DataFrame, FlowOutcome]]:
        """Quarantine the faulty rows; yield the valid rows and the outcome with both row counts."""
        is_faulty = F.size(column(REASONS)) > 0
        # Computed once: a second evaluation would read the source again, and might decide a row differently.
        with (
            computed_once(rows, at_once=not is_stream) as computed,
            self._unique.with_reasons(computed) as (kept, quality),
        ):
            counts = kept.agg(F.count_if(~is_faulty).alias("valid"), F.count_if(is_faulty).alias("faulty")).first()
            assert counts is not None  # an aggregate without groups has one row
            table = QuarantineTable(storage=self._run.storage, session=rows.sparkSession)
            origin = origin_of(self._run, number, transaction)
            last = table.last_batch(origin) if self._last is None else self._last
            self._last = max(last, number)
            if counts["faulty"] or number <= last:
                position = batch_position(self._run.storage, self._run.checkpoint, number) if is_stream else None
                origin = replace(origin, position=position)
                faulty = kept.where(is_faulty)
                if counts["faulty"] and self._run.dataset.cdc is not None and self._run.step.rebuild is None:
                    # A full refresh supersedes the rows of earlier generations when it is published.
                    faulty = self._open.without(faulty, origin, table, self._states)
                table.write_batch(faulty, origin, count=counts["faulty"], is_new=number > last)
                failpoint("quarantine.after_rows")
            yield (
                kept.where(~is_faulty).drop(REASONS, FILE),
                FlowOutcome(written=counts["valid"], quarantined=counts["faulty"], quality=quality),
            )


def batch_position(storage: Storage, checkpoint: str, number: int) -> str:
    """Return the offsets of each source before and after a batch as JSON, in the order of the query.

    Args:
        storage: the storage with the checkpoint.
        checkpoint: its path.
        number: the batch's number.
    """
    before = read_offsets(storage, checkpoint, number - 1) if number else ()
    after = read_offsets(storage, checkpoint, number)
    return json.dumps({"from": [_offset(each) for each in before], "to": [_offset(each) for each in after]})


def _offset(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
