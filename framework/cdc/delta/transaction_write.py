"""Writes of a target by a transaction: the target is read once, and rows are removed by their location (ADR 13)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from framework.cdc.delta.target_write import CHANGE, FLAGGED, INSERTED, REMOVED, UPDATED, broadcast_if_small
from framework.cdc.events.key_filter import with_keys_of
from framework.cdc.model.columns import column
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.engine.delta.deletion_vectors import LOCATION
from framework.engine.sessions.execution import computed_once, in_background

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from framework.cdc.delta.merge_write import MergeWrite
    from framework.cdc.delta.target_write import KeyedMerge, PriorCommit, Replacement
    from framework.cdc.delta.transaction import Transaction
    from framework.cdc.events.key_bounds import Ranges
    from framework.engine.delta.transaction_identifiers import Batch

SHUFFLED_ROWS_PER_KEY = 10
"""Maximum table rows per affected key to shuffle them; this saves two broadcasts, each a job to wait for."""

FILTERED_ROWS = 200_000
"""Minimum table rows to filter them by the batch's keys before the shuffle; the filter is another job."""

FEW_ROWS = 10_000
"""Maximum removed rows to collect their locations on the driver; for more, jobs write the deletion vectors."""

_NUMBER = "__sluice_number"
_IS_MANUAL = "__sluice_is_manual"
"""The row was inserted manually, not by AUTO CDC."""


class TransactionWrite:
    """Writes a batch by a transaction, which is prepared during the prior commit and committed after it.

    Args:
        session: the session.
        transaction: on the target, begun before the auxiliary table was read.
        batch: the batch.
        merge_write: writes the merges that a transaction cannot.
    """

    def __init__(
        self, session: SparkSession, transaction: Transaction, batch: Batch, *, merge_write: MergeWrite
    ) -> None:
        self._session = session
        self._transaction = transaction
        self._batch = batch
        self._merge_write = merge_write

    def has_applied(self) -> bool:
        """Return whether the target has the batch."""
        return self._transaction.has_applied(self._batch)

    def rows(self, ranges: Ranges) -> DataFrame:
        """Return the target's rows with keys in these ranges, with their `LOCATION`; the commit depends on them."""
        return self._transaction.rows(ranges)

    def merge(self, merge: KeyedMerge, prior: PriorCommit | None) -> CdcMetrics:
        """Commit the changes of a merge after the prior commit.

        A manually inserted row may be older than a recorded delete of its key. If recorded deletes are read only for
        new keys, a batch that updates such a row is written by MERGE instead.
        """
        if merge.sweeps:
            return self._merge_write.merge(merge, prior)
        with nullcontext() if prior is None else in_background(self._session, prior.write):
            done = self._prepare_merge(merge)
        return self._merge_write.merge(merge, prior) if done is None else self._commit(done, merge.row_count, prior)

    def replace(self, replacement: Replacement, prior: PriorCommit | None) -> CdcMetrics:
        """Commit a replacement of rows after the prior commit."""
        deleted = 0
        with nullcontext() if prior is None else in_background(self._session, prior.write):
            removed = replacement.removed()
            if removed is None:
                upserted, _ = self._prepare(replacement.added())
            else:
                remove = partial(self._remove, removed, replacement.removed_rows)
                upserted, (_, deleted) = self._prepare(replacement.added(), remove, replacement.count_deleted)
        return self._commit(CdcMetrics(upserted=upserted, deleted=deleted), replacement.row_count, prior)

    def _remove(self, locations: DataFrame, row_count: int | None) -> None:
        is_few = row_count is not None and row_count <= FEW_ROWS
        self._transaction.remove([row[LOCATION] for row in locations.collect()] if is_few else locations)

    def _commit(self, done: CdcMetrics, row_count: int, prior: PriorCommit | None) -> CdcMetrics:
        if prior is not None:
            prior.reached()
        self._transaction.commit(self._batch, replace(done, rows=row_count))
        return done

    def _prepare_merge(self, merge: KeyedMerge) -> CdcMetrics | None:
        """Prepare the changes of a merge.

        Returns:
            The numbers of rows to upsert and delete; None if a manually inserted row would be updated without a
            check of its key's recorded deletes.
        """
        if not merge.checks_rows:
            return self._prepare_checked(merge)
        with merge.checked_source() as source:
            return self._prepare_checked(replace(merge, source=source, apply_recorded=None))

    def _prepare_checked(self, merge: KeyedMerge) -> CdcMetrics | None:
        transaction, source = self._transaction, merge.source
        rows = transaction.rows(merge.ranges).select("*", column(HIDDEN_COLUMN).isNull().alias(_IS_MANUAL))
        if transaction.read_nothing:
            return CdcMetrics(upserted=transaction.add(_new_rows(source, merge)))
        row_count, few_rows = transaction.rows_to_read, SHUFFLED_ROWS_PER_KEY * merge.row_count
        by_keys = row_count is not None and row_count <= few_rows
        if by_keys and row_count is not None and row_count >= FILTERED_ROWS:
            rows = with_keys_of(rows, source, merge.target.keys, key_count=merge.row_count)
        if not by_keys:
            source = source.withColumn(_NUMBER, F.monotonically_increasing_id())
        with computed_once((_decide_by_keys if by_keys else _decide_by_rows)(source, rows, merge)) as decided:
            added = decided.where(column(CHANGE).isin(INSERTED, UPDATED, FLAGGED)).select(*_row(merge))
            if not by_keys:
                known = F.broadcast(decided.select(_NUMBER))
                added = added.unionByName(_new_rows(source.join(known, _NUMBER, "left_anti"), merge))
            # At most one file per core, regardless of the number of tasks that read.
            added = added.coalesce(self._session.sparkContext.defaultParallelism)
            counting = merge.may_delete or merge.apply_recorded is not None
            upserted, ((deleted, manual),) = self._prepare(
                added, partial(_remove, decided, transaction, row_count=merge.row_count, counting=counting)
            )
        is_unchecked = bool(manual) and merge.apply_recorded is not None and not by_keys
        flagged = 0 if merge.target.flag is None else deleted  # nothing is removed then, and a flagged row is added
        return None if is_unchecked else CdcMetrics(upserted=upserted - flagged, deleted=deleted)

    def _prepare(self, added: DataFrame | None, *background: Callable[[], Any]) -> tuple[int, list[Any]]:
        """Write new files while other work runs in the background; return the number of added rows and the results."""
        with ExitStack() as until_done:
            running = [until_done.enter_context(in_background(self._session, work)) for work in background]
            upserted = 0 if added is None else self._transaction.add(added)
        return upserted, [work.result() for work in running]


def _new_rows(source: DataFrame, merge: KeyedMerge) -> DataFrame:
    """Return the rows of keys that have no row yet."""
    return merge.new_rows(source if merge.apply_recorded is None else merge.apply_recorded(source))


def _row(merge: KeyedMerge) -> list[Column]:
    return [column(name) for name in merge.target.table_schema.fieldNames()]


def _decide_by_rows(source: DataFrame, rows: DataFrame, merge: KeyedMerge) -> DataFrame:
    """Decide the change of each row of an affected key by a join of source rows to target rows."""
    sent = broadcast_if_small(source, merge.row_count)
    return merge.decide(sent, rows, how="inner", carried=(_IS_MANUAL, _NUMBER, LOCATION))


def _decide_by_keys(source: DataFrame, rows: DataFrame, merge: KeyedMerge) -> DataFrame:
    """Decide the change of each affected key by a left join of target rows to source rows, which are sorted by key."""
    checked = source if merge.apply_recorded is None else merge.apply_recorded(source)
    return merge.decide(checked, rows, how="left", carried=(_IS_MANUAL, LOCATION))


def _remove(decided: DataFrame, transaction: Transaction, *, row_count: int, counting: bool) -> tuple[int, int]:
    """Prepare the removal of the rows that are deleted or replaced.

    Args:
        decided: the decided changes.
        transaction: the transaction on the target.
        row_count: the number of source rows.
        counting: whether rows may be deleted, or manual rows matter; if not, no job counts them.

    Returns:
        The number of deleted rows, flagged ones included, and the number of manually inserted rows that are replaced.
    """
    change = column(CHANGE)
    removed = decided.where(change.isin(UPDATED, REMOVED, FLAGGED))
    is_deleted, is_manual = change.isin(REMOVED, FLAGGED), (change == F.lit(UPDATED)) & column(_IS_MANUAL)
    if row_count <= FEW_ROWS:
        rows = removed.select(LOCATION, is_deleted.alias("deleted"), is_manual.alias("manual")).collect()
        transaction.remove([row[LOCATION] for row in rows])
        return sum(row["deleted"] for row in rows), sum(row["manual"] for row in rows)
    transaction.remove(removed.select(LOCATION))
    if not counting:
        return 0, 0
    # Counted last, because nothing waits for the counts; deletion vectors are written in parallel with new rows.
    row = decided.agg(F.count_if(is_deleted).alias("deleted"), F.count_if(is_manual).alias("manual")).first()
    assert row is not None  # an aggregate without groups has one row
    return row["deleted"], row["manual"]
