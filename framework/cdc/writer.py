"""The writer of one AUTO CDC flow: the body of its `foreachBatch`."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.cdc.caching import computed_once
from framework.cdc.columns import column
from framework.cdc.companion import LATE, append_tombstones, drop_deleted, read_tombstones, table_exists
from framework.cdc.events import read_events
from framework.cdc.idempotence import committing_once
from framework.cdc.merging import merge_winners
from framework.cdc.metrics import CdcMetrics
from framework.cdc.queueing import queued
from framework.cdc.target import CdcTarget
from framework.cdc.winners import BatchCounts, check_contract, count_winners, pick_winners
from framework.declare.specs import AutoCdcSpec
from framework.foundation.addresses import TableAddress
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName

TABLE_PROPERTIES: tuple[tuple[str, str], ...] = (("delta.enableDeletionVectors", "true"),)
"""What the engine should create a target with, where the user says nothing else."""

_BROADCAST_ROWS = 200_000


class AutoCdcWriter:
    """Applies the micro-batches of one flow to its target and the companion beside it.

    Args:
        target: what the flows of the target make of it.
        flow: the flow's name.
        spec: what the flow declares.
        table: the target's Delta table, which exists with `target.table_schema`.
        companion: where the companion is; created when the first delete comes.
        application_id: the flow's and its checkpoint generation's own; batches are numbered anew in
            a new generation, and must not be taken for those of the last one.
    """

    def __init__(
        self,
        *,
        target: CdcTarget,
        flow: QualifiedName,
        spec: AutoCdcSpec,
        table: TableAddress,
        companion: TableAddress,
        application_id: str,
    ) -> None:
        self._target = target
        self._flow = flow
        self._spec = spec
        self._table = table
        self._companion = companion
        self._application_id = application_id

    def apply(self, batch: DataFrame, batch_id: int) -> CdcMetrics:
        """Apply a batch; applying it again, whole or after a crash at any point, changes nothing.

        Raises:
            OperationError: AUTOCDC_MICROBATCH_VALIDATION.*, with counts, before anything is written.
        """
        with queued(self._table), computed_once(self._winners(batch)) as winners:
            counts = count_winners(winners, self._target)
            check_contract(counts, flow=self._flow, batch_id=batch_id)
            if not counts.rows:
                return CdcMetrics()
            merged = self._write(winners, counts, batch_id)
        late = 0 if merged.skipped else counts.keys - counts.deletes - merged.upserted
        return replace(merged, rows=counts.rows, late=late)

    def _winners(self, batch: DataFrame) -> DataFrame:
        """The one event of each key that may change the target: one scan of the batch makes and counts them."""
        literal = self._flow in self._target.literal_flows
        winners = pick_winners(read_events(batch, self._spec, self._target, literal=literal), self._target)
        if not table_exists(batch.sparkSession, self._companion):
            return winners.withColumn(LATE, F.lit(0) == F.lit(1))
        tombstones = read_tombstones(batch.sparkSession, self._companion, self._target)
        return drop_deleted(winners, tombstones, self._target)

    def _write(self, winners: DataFrame, counts: BatchCounts, batch_id: int) -> CdcMetrics:
        """Tombstones first, then the target: two commits, and why stopping between them is safe.

        A tombstone holds back upserts up to its own sequence, and the target's rows up to that
        sequence are what this very batch is about to delete. So after a crash here nothing but
        rows that must go is there too long, for as long as the flow stands still: the batch comes
        again, its tombstones are skipped by their transaction (writing them twice would say the
        same twice), and the merge does now what it would have done then. It does not matter what
        other flows merge in between: an upsert above the tombstone stays, one below is dropped.
        The other order would not do: a row deleted without a tombstone could rise again.
        """
        session = winners.sparkSession
        if counts.deletes:
            append_tombstones(
                winners, self._companion, self._target, application_id=self._application_id, batch_id=batch_id
            )
            failpoint("cdc.after_tombstones")
        source = winners.where(~column(LATE))
        if counts.keys <= _BROADCAST_ROWS:
            source = F.broadcast(source)
        with committing_once(session, application_id=self._application_id, batch_id=batch_id):
            merged = merge_winners(source, self._table, self._target, counts.ranges)
        failpoint("cdc.after_merge")
        return merged
