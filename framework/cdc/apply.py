"""Application of events to a target, by SCD type: the steps of a batch, and the order of its commits."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from framework.cdc.delta.auxiliary_table import (
    append_rows,
    floor_of,
    table_exists,
    tombstone_rows,
    tombstones_of,
    truncate_row,
)
from framework.cdc.delta.destination import Destination, naming_violations
from framework.cdc.delta.open_tables import OpenTables, open_tables
from framework.cdc.delta.target_write import PriorCommit, TargetWrite
from framework.cdc.delta.transaction import Transaction
from framework.cdc.events.batch_validation import check_contract, count_events
from framework.cdc.events.key_bounds import Ranges, key_range
from framework.cdc.initial_load import Load
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.scd1.latest_events import (
    LatestCounts,
    apply_recorded_deletes,
    collect_latest_events,
    count_latest_events,
)
from framework.cdc.scd1.merge import merge_of
from framework.cdc.scd2.merge import (
    HistoryReplacement,
    affected_rows,
    compute_history,
    count_history,
    unrecorded_events,
)
from framework.engine.delta.transaction_identifiers import CONFLICTS, Batch
from framework.engine.sessions.execution import computed_once, in_background, planned_for
from framework.foundation.failpoints import failpoint
from framework.foundation.table_address import TableAddress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.cdc.analysis.target_schema import CdcTarget

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

    If a commit conflicts with a commit of another process, the batch is retried from the start and reads the rows that
    the other process wrote. A retry is safe because applying a batch again changes nothing.

    Args:
        events: in the shape of `read_events`.
        destination: the destination: the target, its tables and the flow.
        batch_id: the batch's number.
        observed: compute the events in a separate action, so that a listener receives their observed metrics.
        as_rows: events that are complete rows (`may_load`) and have the same effect on an empty target, which can store
            them unchanged; None if there are none.

    Raises:
        OperationError: AUTOCDC_MICROBATCH_VALIDATION.*, with counts, before anything is committed;
            AUTOCDC_CONSTRAINT_VIOLATED, if a row violates a constraint of the target's table.
        pyspark.errors.PySparkException: one of Delta's conflicts, if every attempt fails with a conflict.
    """
    apply = _apply_latest_events if destination.target.scd_type == 1 else _apply_history
    with locked(destination.table), planned_for(events), naming_violations(destination, batch_id):
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
        The metrics if the batch is complete; otherwise the events, read from the uncommitted files if they were
        written.
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
    loaded = CdcMetrics(rows=rows, upserted=rows)
    try:
        transaction.commit(batch, loaded)
    except CONFLICTS:
        return load.events
    failpoint("cdc.after_merge")
    return loaded


def _apply_latest_events(events: DataFrame, destination: Destination, batch_id: int, *, observed: bool) -> CdcMetrics:
    """Apply a batch to an SCD type 1 target: merge the latest events of each key into the key's only row."""
    session, target, truncates = events.sparkSession, destination.target, destination.truncates
    with computed_once(collect_latest_events(events, target, truncates=truncates), at_once=observed) as latest:
        with in_background(session, partial(open_tables, session, destination, batch_id)) as opening:
            counts = count_latest_events(latest, target, truncates=truncates)
        check_contract(counts.batch, flow=destination.flow, batch_id=batch_id)
        if not counts.batch.rows:
            return CdcMetrics()
        written = _write_latest_events(latest, counts, opening.result(), destination, batch_id)
    late = 0 if written.skipped else max(0, counts.upserts - written.upserted)
    return replace(written, rows=counts.batch.rows, late=late)


def _write_latest_events(
    latest: DataFrame, counts: LatestCounts, tables: OpenTables, destination: Destination, batch_id: int
) -> CdcMetrics:
    """Record deletes in the auxiliary table, then write the target: two commits, and a crash between them is safe.

    A tombstone suppresses upserts up to its own point, and this batch deletes the target's rows up to
    that point. The same holds for a truncate. So after a crash between the commits, the only effect is that rows to be
    deleted remain until the flow runs again. Then the batch is replayed: its tombstones are skipped by their
    transaction identifier (a duplicate would have no effect), and the merge has the same result as without the crash.
    Merges of other flows in between do not matter: an upsert above the tombstone stays, and one below is dropped or
    becomes a row that the replayed batch deletes. The reverse order is not safe: a late event could restore a row that
    was deleted without a tombstone.
    """
    if tables.write.has_applied():
        return CdcMetrics(skipped=True)
    target, prior, apply_recorded = destination.target, None, None
    if counts.tombstones or counts.floor is not None:
        record = partial(_record_deletes, latest, counts, destination, destination.batch(batch_id))
        prior = PriorCommit(write=record, failpoint="cdc.after_tombstones")
    if tables.auxiliary is not None:
        recorded = tables.auxiliary, counts.batch.ranges
        apply_recorded = partial(_apply_recorded, *recorded, target)
    written = tables.write.merge(merge_of(latest, counts, target, apply_recorded=apply_recorded), prior)
    failpoint("cdc.after_merge")
    return written


def _apply_recorded(auxiliary: DataFrame, ranges: Ranges, target: CdcTarget, latest: DataFrame) -> DataFrame:
    """Apply the deletes and truncates of an auxiliary table to latest events whose keys are within `ranges`."""
    tombstones = tombstones_of(auxiliary.where(key_range(ranges)), target)
    return apply_recorded_deletes(latest, target, tombstones=tombstones, floor=floor_of(auxiliary, target))


def _record_deletes(latest: DataFrame, counts: LatestCounts, destination: Destination, batch: Batch) -> None:
    """Append the batch's deletes and its truncate to the auxiliary table, which takes each batch once."""
    rows = tombstone_rows(latest, destination.target)
    if counts.floor is not None:
        truncate = truncate_row(latest.sparkSession, destination.target, counts.floor)
        rows = truncate.unionByName(rows, allowMissingColumns=True)
    append_rows(rows, destination.auxiliary, destination.target, batch=batch, once=True)


def _apply_history(events: DataFrame, destination: Destination, batch_id: int, *, observed: bool) -> CdcMetrics:
    """Apply a batch to an SCD type 2 target: merge the events into the histories of their keys."""
    session, target = events.sparkSession, destination.target
    with computed_once(events, at_once=observed) as batch:
        with in_background(session, partial(open_tables, session, destination, batch_id)) as opening:
            counts = count_events(batch, target)
        check_contract(counts, flow=destination.flow, batch_id=batch_id)
        if not counts.rows:
            return CdcMetrics()
        tables = opening.result()
        if tables.write.has_applied():
            return CdcMetrics(rows=counts.rows, skipped=True)
        touched = affected_rows(batch, tables.write.rows(counts.ranges), target, counts)
        with computed_once(compute_history(batch, touched, tables.auxiliary, target, counts)) as history:
            history_counts = count_history(history, target)
            replacement = HistoryReplacement(
                target=target, history=history, touched=touched, counts=history_counts, batch=counts
            )
            written = _write_history(replacement, tables.write, destination, batch_id)
    return replace(written, rows=counts.rows)


def _write_history(
    replacement: HistoryReplacement, write: TargetWrite, destination: Destination, batch_id: int
) -> CdcMetrics:
    """Record events that the target will not hold, then write it: two commits; a crash between them is safe.

    The rows of the target and of the auxiliary table together represent a set of events, and the target's
    rows are a function of that set. The first commit only adds events to it. After a crash between the
    commits the batch is replayed, reads those events from the auxiliary table, and computes the same rows
    from the same set. If another flow's batch was applied in between, its events are in the set too. So
    this append has no transaction identifier: the replayed batch may have more events to record.
    """
    prior = None
    if replacement.counts.unrecorded:
        rows = unrecorded_events(replacement.history, replacement.target)
        batch = destination.batch(batch_id)
        record = partial(append_rows, rows, destination.auxiliary, replacement.target, batch=batch, once=False)
        prior = PriorCommit(write=record, failpoint="cdc.after_events")
    written = write.replace(replacement, prior)
    failpoint("cdc.after_merge")
    return written


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
