"""Application of events to a target, by SCD type: the steps of a batch, and the order of its commits."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.delta.auxiliary_table import (
    append_rows,
    floor_of,
    read_auxiliary_table,
    table_exists,
    tombstone_rows,
    tombstones_of,
    truncate_row,
)
from framework.cdc.delta.compaction import compact
from framework.cdc.delta.constraints import naming_violations
from framework.cdc.delta.destination import Destination
from framework.cdc.delta.transaction import LOCATION, LOCATION_TYPE, Transaction
from framework.cdc.delta.transaction_identifiers import CONFLICTS, Batch, committing_once
from framework.cdc.events.batch_validation import BatchCounts, check_contract, count_events
from framework.cdc.events.key_bounds import Ranges, key_range
from framework.cdc.initial_load import Load
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.scd1.latest_events import (
    LatestCounts,
    apply_recorded_deletes,
    collect_latest_events,
    count_latest_events,
)
from framework.cdc.scd1.merge import ApplyRecorded, merge_latest_events, replace_by_latest_events
from framework.cdc.scd2.merge import (
    affected_rows,
    compute_history,
    count_history,
    merge_history,
    replace_history,
    unrecorded_events,
)
from framework.cdc.spark.background_work import in_background
from framework.cdc.spark.local_checkpoint import computed_once
from framework.cdc.spark.session_settings import planned_once
from framework.foundation.failpoints import failpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from framework.foundation.table_address import TableAddress

_TRIES = 4
"""The maximum number of attempts at a batch when commits of other processes conflict with it."""


def apply_events(
    events: DataFrame,
    destination: Destination,
    batch_id: int,
    *,
    observed: bool = False,
    as_rows: DataFrame | None = None,
) -> CdcMetrics:
    """Apply a batch of events; applying it again, whole or after a crash at any point, changes nothing.

    If a commit conflicts with one of another process, the batch is retried from the start and reads what
    that process wrote. A retry is safe because applying a batch again changes nothing.

    Args:
        events: in the shape of `read_events`.
        destination: the destination: the target, its tables and the flow.
        batch_id: the batch's number.
        observed: compute the events in an action of their own, so that a listener receives their observed metrics.
        as_rows: events with the same effect on a target without rows, each a complete row (`may_load`), so that
            such a target can store them unchanged; None if there are none.

    Raises:
        OperationError: AUTOCDC_MICROBATCH_VALIDATION.*, with counts, before anything is committed;
            AUTOCDC_CONSTRAINT_VIOLATED, if a row violates a constraint of the target's table.
        pyspark.errors.PySparkException: one of Delta's conflicts, if every attempt ends in one.
    """
    apply = _apply_latest_events if destination.target.scd_type == 1 else _apply_history
    session = events.sparkSession
    with locked(destination.table), planned_once(session), naming_violations(destination, batch_id):
        if as_rows is not None and not observed:
            loaded = _load(as_rows, destination, batch_id)
            if isinstance(loaded, CdcMetrics):
                return loaded
            if as_rows is events:
                events = loaded
        for _ in range(_TRIES - 1):
            try:
                return apply(events, destination, batch_id, observed=observed)
            except CONFLICTS:
                continue
        return apply(events, destination, batch_id, observed=observed)


def _load(events: DataFrame, destination: Destination, batch_id: int) -> CdcMetrics | DataFrame:
    """Store events unchanged in a target without rows: one commit.

    Returns:
        The metrics if the batch is complete. Else the events, which are read from staged files if they were staged.
    """
    session, target, batch = events.sparkSession, destination.target, destination.batch(batch_id)
    transaction = Transaction.begin(session, destination.table, target.table_schema)
    if transaction is None or table_exists(session, destination.auxiliary):
        return events
    if transaction.has_applied(batch) or not transaction.has_no_rows():
        return events
    load = Load.prepare(events, transaction, target)
    check_contract(load.counts, flow=destination.flow, batch_id=batch_id)
    rows = load.counts.rows
    if not load.has_distinct_keys or not rows:
        return load.events
    try:
        transaction.commit(batch, {"source": rows, "inserted": rows})
    except CONFLICTS:
        return load.events
    failpoint("cdc.after_merge")
    return CdcMetrics(rows=rows, upserted=rows)


def _apply_latest_events(events: DataFrame, destination: Destination, batch_id: int, *, observed: bool) -> CdcMetrics:
    """Apply a batch to an SCD type 1 target: the latest events of each key into the key's one row."""
    target, truncates = destination.target, destination.truncates
    with computed_once(collect_latest_events(events, target, truncates=truncates), at_once=observed) as latest:
        with in_background(events.sparkSession, partial(_open, events.sparkSession, destination, batch_id)) as opening:
            counts = count_latest_events(latest, target, truncates=truncates)
        check_contract(counts.batch, flow=destination.flow, batch_id=batch_id)
        if not counts.batch.rows:
            return CdcMetrics()
        merged = _write_latest_events(latest, counts, opening.result(), destination, batch_id)
    late = 0 if merged.skipped else max(0, counts.upserts - merged.upserted)
    return replace(merged, rows=counts.batch.rows, late=late)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Opened:
    """A target's tables, opened for a batch.

    Args:
        transaction: on the target; None if Delta's own commands must write to it.
        auxiliary: the rows of the auxiliary table; None if it does not exist yet.
    """

    transaction: Transaction | None
    auxiliary: DataFrame | None

    def applying_recorded(self, target: CdcTarget, ranges: Ranges) -> ApplyRecorded | None:
        """Return a function that applies recorded deletes and truncates; None if there is no auxiliary table.

        Args:
            target: the target.
            ranges: the bounds of the keys that the function is applied to.
        """
        if self.auxiliary is None:
            return None
        tombstones = tombstones_of(self.auxiliary.where(key_range(ranges)), target)
        return partial(
            apply_recorded_deletes, target=target, tombstones=tombstones, floor=floor_of(self.auxiliary, target)
        )


def _open(session: SparkSession, destination: Destination, batch_id: int) -> _Opened:
    """Open the tables; this can run while a batch's events are counted.

    The transaction begins before the auxiliary table is read, and each writer commits to the auxiliary table first.
    So another process's batch is either visible in the auxiliary table already, or it commits its rows to the
    target after this transaction began. In the second case this transaction fails if it depends on those rows.
    """
    compact(session, destination.table, batch_id)
    if table_exists(session, destination.auxiliary):
        compact(session, destination.auxiliary, batch_id)
    transaction = Transaction.begin(session, destination.table, destination.target.table_schema)
    return _Opened(transaction=transaction, auxiliary=read_auxiliary_table(session, destination.auxiliary))


def _write_latest_events(
    latest: DataFrame, counts: LatestCounts, opened: _Opened, destination: Destination, batch_id: int
) -> CdcMetrics:
    """Record deletes in the auxiliary table, then write the target: two commits, and a crash between them is safe.

    A tombstone suppresses upserts up to its own point, and this batch deletes the target's rows up to
    that point. The same holds for a truncate. So after a crash between the commits, the only effect is
    that rows to be deleted remain until the flow runs again. Then the batch is replayed: its
    tombstones are skipped by their transaction identifier (a duplicate would have no effect), and the
    merge has the same result as without the crash. Merges of other flows in between do not matter:
    an upsert above the tombstone stays, and one below is dropped or becomes a row that the replayed
    batch deletes. The reverse order is not safe: a late event could restore a row that was deleted
    without a tombstone.
    """
    write = (
        _merge_latest_events if opened.transaction is None or counts.floor is not None else _replace_by_latest_events
    )
    return write(latest, counts, opened, destination, destination.batch(batch_id))


def _merge_latest_events(
    latest: DataFrame, counts: LatestCounts, opened: _Opened, destination: Destination, batch: Batch
) -> CdcMetrics:
    """Make both commits one after the other; the target's is a MERGE."""
    if counts.tombstones or counts.floor is not None:
        _remember(latest, counts, destination, batch)
        failpoint("cdc.after_tombstones")
    apply_recorded = opened.applying_recorded(destination.target, counts.batch.ranges)
    with committing_once(latest.sparkSession, batch):
        done = merge_latest_events(latest, counts, destination.table, destination.target, apply_recorded=apply_recorded)
    failpoint("cdc.after_merge")
    return done


def _replace_by_latest_events(
    latest: DataFrame, counts: LatestCounts, opened: _Opened, destination: Destination, batch: Batch
) -> CdcMetrics:
    """Make the target's commit by a transaction, prepared during the auxiliary table's commit and made after it.

    A manually inserted row may be older than a recorded delete of its key. Where recorded deletes are read for new
    keys only, a batch that updates such a row is merged instead.
    """
    transaction = opened.transaction
    assert transaction is not None  # else `_merge_latest_events` is called
    if transaction.has_applied(batch):
        return CdcMetrics(skipped=True)
    remember = partial(_remember, latest, counts, destination, batch) if counts.tombstones else None
    with in_background(latest.sparkSession, remember) if remember is not None else nullcontext():
        apply_recorded = opened.applying_recorded(destination.target, counts.batch.ranges)
        done = replace_by_latest_events(latest, counts, transaction, destination.target, apply_recorded=apply_recorded)
    if done is None:
        return _merge_latest_events(latest, counts, opened, destination, batch)
    if remember is not None:
        failpoint("cdc.after_tombstones")
    transaction.commit(batch, {"source": counts.effects, "updated": done.upserted, "deleted": done.deleted})
    failpoint("cdc.after_merge")
    return done


def _remember(latest: DataFrame, counts: LatestCounts, destination: Destination, batch: Batch) -> None:
    """Append the batch's deletes and its truncate to the auxiliary table, which takes each batch once."""
    rows = tombstone_rows(latest, destination.target)
    if counts.floor is not None:
        truncate = truncate_row(latest.sparkSession, destination.target, counts.floor)
        rows = truncate.unionByName(rows, allowMissingColumns=True)
    append_rows(rows, destination.auxiliary, destination.target, batch=batch)


def _apply_history(events: DataFrame, destination: Destination, batch_id: int, *, observed: bool) -> CdcMetrics:
    """Apply a batch to an SCD type 2 target: the events into the histories of their keys."""
    session, target = events.sparkSession, destination.target
    with computed_once(events, at_once=observed) as batch:
        with in_background(session, partial(_open, session, destination, batch_id)) as opening:
            counts = count_events(batch, target)
        check_contract(counts, flow=destination.flow, batch_id=batch_id)
        if not counts.rows:
            return CdcMetrics()
        opened = opening.result()
        transaction = opened.transaction
        if transaction is not None and transaction.has_applied(destination.batch(batch_id)):
            return CdcMetrics(rows=counts.rows, skipped=True)
        touched = affected_rows(batch, _rows_to_touch(transaction, session, destination, counts), target, counts)
        with computed_once(compute_history(batch, touched, opened.auxiliary, target, counts)) as history:
            merged = _write_intervals(history, touched, transaction, destination, counts=counts, batch_id=batch_id)
    return replace(merged, rows=counts.rows)


def _rows_to_touch(
    transaction: Transaction | None, session: SparkSession, destination: Destination, counts: BatchCounts
) -> DataFrame:
    """Return the target's rows that the batch may change; their `LOCATION` is null without a transaction."""
    if transaction is not None:
        return transaction.rows(counts.ranges)
    rows = session.table(destination.table.sql).where(key_range(counts.ranges))
    return rows.withColumn(LOCATION, F.lit(None).cast(LOCATION_TYPE))


def _write_intervals(
    history: DataFrame,
    touched: DataFrame,
    transaction: Transaction | None,
    destination: Destination,
    *,
    counts: BatchCounts,
    batch_id: int,
) -> CdcMetrics:
    """Record events that the target will not hold, then write the target: two commits, and a crash between is safe.

    The rows of the target and of the auxiliary table together represent a set of events, and the target's
    rows are a function of that set. The first commit only adds events to it. After a crash between the
    commits the batch is replayed, reads those events from the auxiliary table, and computes the same rows
    from the same set. If another flow's batch was applied in between, its events are in the set too. So
    this append has no transaction identifier: the replayed batch may have more events to record.
    """
    session, target, batch = history.sparkSession, destination.target, destination.batch(batch_id)
    history_counts = count_history(history, target)
    remember = None
    if history_counts.lost:
        remember = partial(append_rows, unrecorded_events(history, target), destination.auxiliary, target)
    if transaction is None:
        if remember is not None:
            remember()
            failpoint("cdc.after_events")
        with committing_once(session, batch):
            done = merge_history(
                history, touched, destination.table, target, history_counts=history_counts, counts=counts
            )
    else:
        with in_background(session, remember) if remember is not None else nullcontext():
            done = replace_history(history, touched, transaction, target, history_counts=history_counts)
        if remember is not None:
            failpoint("cdc.after_events")
        transaction.commit(batch, {"source": counts.rows, "updated": done.upserted, "deleted": done.deleted})
    failpoint("cdc.after_merge")
    return done


_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_registry = threading.Lock()


@contextmanager
def locked(table: TableAddress) -> Iterator[None]:
    """Lock the table for the length of the block; blocks of other threads for the same table wait.

    Two concurrent merges into one table would only conflict in Delta.
    """
    with _registry:
        lock = _locks[table.sql]
    with lock:
        yield
