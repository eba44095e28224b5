"""Writes of a target by Delta's MERGE, for tables and versions of Delta that `TransactionWrite` does not support."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from delta.tables import DeltaMergeBuilder, DeltaTable
from pyspark.sql import functions as F

from framework.cdc.delta.target_write import (
    CHANGE,
    FLAGGED,
    INSERTED,
    REMOVED,
    SOURCE,
    TARGET,
    Clauses,
    broadcast_if_small,
    same_key,
)
from framework.cdc.events.key_bounds import key_range
from framework.cdc.model.columns import column, quote
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.engine.delta.deletion_vectors import LOCATION, LOCATION_TYPE
from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.delta.transaction_identifiers import committing_once, or_conflict, raising_conflicts
from framework.engine.sessions.execution import computed_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.delta.target_write import KeyedMerge, PriorCommit, Replacement
    from framework.cdc.events.key_bounds import Ranges
    from framework.engine.delta.transaction_identifiers import Batch
    from framework.foundation.table_address import TableAddress

_SEEN = "__sluice_seen"


class MergeWrite:
    """Writes a batch by MERGE, after the prior commit.

    Args:
        session: the session.
        table: the target's table.
        batch: the batch.
    """

    def __init__(self, session: SparkSession, table: TableAddress, batch: Batch) -> None:
        self._session = session
        self._table = table
        self._batch = batch

    def has_applied(self) -> bool:
        """Return false: Delta itself skips the command if the target has the batch."""
        return False

    def rows(self, ranges: Ranges) -> DataFrame:
        """Return the target's rows with keys in these ranges, with a null `LOCATION`."""
        rows = self._session.table(self._table.sql).where(key_range(ranges))
        return rows.withColumn(LOCATION, F.lit(None).cast(LOCATION_TYPE))

    def merge(self, merge: KeyedMerge, prior: PriorCommit | None) -> CdcMetrics:
        """Commit the changes of a merge after the prior commit."""
        _commit_first(prior)
        with committing_once(self._session, self._batch), merge.checked_source() as source:
            if merge.clauses is None:
                return self._merge_decided(source, merge)
            matching = key_range(merge.ranges, of=TARGET) & same_key(merge.target)
            builder = self._builder(broadcast_if_small(source, merge.row_count), matching)
            return _metrics(_with_clauses(builder, merge.clauses))

    def _merge_decided(self, source: DataFrame, merge: KeyedMerge) -> CdcMetrics:
        """Read the affected rows, decide the change of each, and merge the changes.

        The MERGE reads the rows again; if another process changed a row in between, that is a conflict.
        """
        rows, how, matching = self._session.table(self._table.sql), "full_outer", same_key(merge.target)
        if not merge.sweeps:
            rows, how = rows.where(key_range(merge.ranges)), "left"
            matching = key_range(merge.ranges, of=TARGET) & matching
        seen = rows.select("*", column(HIDDEN_COLUMN).alias(_SEEN))
        decided = merge.decide(source, seen, how=how, carried=(_SEEN,))
        is_new = column(CHANGE, of=SOURCE) == F.lit(INSERTED)
        is_same = column(_SEEN, of=SOURCE).eqNullSafe(column(HIDDEN_COLUMN, of=TARGET))
        # Delta evaluates the conditions for unmatched rows too.
        is_safe = or_conflict(column(merge.target.keys[0], of=TARGET).isNull() | (~is_new & is_same))
        has_key = reduce(operator.and_, (column(key).isNotNull() for key in merge.target.keys))
        with computed_once(decided.where(column(CHANGE).isNotNull() & has_key)) as decided_rows, raising_conflicts():
            # A truncate changes as many rows as the target has.
            changes = decided_rows if merge.sweeps else broadcast_if_small(decided_rows, merge.row_count)
            done = _metrics(_with_changes(self._builder(changes, matching), merge.target, is_safe=is_safe))
            if merge.target.flag is None or not done.upserted:
                return done
            flagged = decided_rows.where(column(CHANGE) == F.lit(FLAGGED)).count()
            return replace(done, upserted=done.upserted - flagged, deleted=flagged)

    def replace(self, replacement: Replacement, prior: PriorCommit | None) -> CdcMetrics:
        """Commit a replacement of rows after the prior commit."""
        _commit_first(prior)
        with committing_once(self._session, self._batch):
            changes = broadcast_if_small(replacement.changes(), replacement.row_count)
            builder = self._builder(changes, replacement.matching())
            return _metrics(_with_changes(builder, replacement.target))

    def _builder(self, source: DataFrame, matching: Column) -> DeltaMergeBuilder:
        """Return the MERGE without clauses.

        Delta binds a MERGE to the table that exists when it runs, so the table id is compared as late as possible.
        """
        if can_open(self._table):
            TableVersion(self._session, self._table)
        table = DeltaTable.forName(self._session, self._table.sql).alias(TARGET)
        return table.merge(source.alias(SOURCE), matching)


def _commit_first(prior: PriorCommit | None) -> None:
    if prior is not None:
        prior.write()
        prior.reached()


def _with_clauses(merge: DeltaMergeBuilder, clauses: Clauses) -> DeltaMergeBuilder:
    merge = merge.whenMatchedDelete(condition=clauses.delete)
    merge = merge.whenMatchedUpdate(condition=clauses.update, set=_assignments(clauses.updated))
    merge = merge.whenNotMatchedInsert(condition=clauses.insert, values=_assignments(clauses.inserted))
    if clauses.sweep is not None:
        merge = merge.whenNotMatchedBySourceDelete(condition=clauses.sweep)
    return merge


def _with_changes(merge: DeltaMergeBuilder, target: CdcTarget, *, is_safe: Column | None = None) -> DeltaMergeBuilder:
    """Return the MERGE of decided changes: a row whose `CHANGE` is not a removal is written.

    Args:
        merge: the MERGE without clauses.
        target: the target.
        is_safe: a condition that raises a conflict for a matched row; None if there is nothing to check.
    """
    is_removed = column(CHANGE, of=SOURCE) == F.lit(REMOVED)
    row = {name: column(name, of=SOURCE) for name in target.table_schema.fieldNames()}
    values = {name: value for name, value in row.items() if name not in target.keys}
    merge = merge.whenMatchedDelete(condition=is_removed if is_safe is None else is_safe & is_removed)
    merge = merge.whenMatchedUpdate(set=_assignments(values))
    return merge.whenNotMatchedInsert(condition=~is_removed, values=_assignments(row))


def _assignments(row: Mapping[str, Column]) -> dict[str, str | Column]:
    """Return columns by quoted name, in the form of Delta's merge builder."""
    return {quote(name): value for name, value in row.items()}


def _metrics(merge: DeltaMergeBuilder) -> CdcMetrics:
    """Run a MERGE and return its metrics; `skipped` if Delta had applied the batch before."""
    counts = merge.execute().first()
    if counts is None:
        return CdcMetrics(skipped=True)
    return CdcMetrics(
        upserted=counts["num_updated_rows"] + counts["num_inserted_rows"], deleted=counts["num_deleted_rows"]
    )
