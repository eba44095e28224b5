"""The writer of one AUTO CDC flow: the body of its `foreachBatch`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.caching import computed_once
from framework.cdc.companion import append_rows, floor_of, read_companion, tombstone_rows, tombstones_of, truncate_row
from framework.cdc.events import read_events
from framework.cdc.facts import (
    BatchCounts,
    check_contract,
    clear_dead,
    count_facts,
    gather_facts,
    has_effect,
    settle_facts,
)
from framework.cdc.idempotence import committing_once
from framework.cdc.metrics import CdcMetrics
from framework.cdc.queueing import queued
from framework.cdc.scd1 import merge_facts
from framework.cdc.target import CdcTarget
from framework.declare.specs import AutoCdcSpec
from framework.foundation.addresses import TableAddress
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        companion: where the companion is; created when there is something to remember.
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
        literal = self._flow in self._target.literal_flows
        events = read_events(batch, self._spec, self._target, literal=literal)
        with queued(self._table), computed_once(self._facts(events)) as facts:
            counts = count_facts(facts, self._target)
            check_contract(counts, flow=self._flow, batch_id=batch_id)
            if not counts.rows:
                return CdcMetrics()
            merged = self._write(facts, counts, batch_id)
        late = 0 if merged.skipped else max(0, counts.upserts - merged.upserted)
        return replace(merged, rows=counts.rows, late=late)

    def _facts(self, events: DataFrame) -> DataFrame:
        """What the batch says of each key, less what is undone already: one scan of the batch."""
        facts = gather_facts(events, self._target)
        companion = read_companion(events.sparkSession, self._companion)
        if companion is None:
            return settle_facts(facts, self._target, tombstones=None, floor=None)
        tombstones, floor = tombstones_of(companion, self._target), floor_of(companion, self._target)
        return settle_facts(facts, self._target, tombstones=tombstones, floor=floor)

    def _write(self, facts: DataFrame, counts: BatchCounts, batch_id: int) -> CdcMetrics:
        """What must be remembered first, then the target: two commits, and why stopping between them is safe.

        A tombstone holds back upserts up to its own point, and the target's rows up to that point are
        what this very batch is about to delete; a truncate likewise. So after a crash here nothing but
        rows that must go is there too long, for as long as the flow stands still: the batch comes
        again, its tombstones are skipped by their transaction (writing them twice would say the
        same twice), and the merge does now what it would have done then. It does not matter what
        other flows merge in between: an upsert above the tombstone stays, one below is dropped.
        The other order would not do: a row deleted without a tombstone could rise again.
        """
        session = facts.sparkSession
        with committing_once(session, application_id=self._application_id, batch_id=batch_id):
            if counts.tombstones or counts.floor is not None:
                append_rows(self._remembered(facts, counts), self._companion, self._target)
                failpoint("cdc.after_tombstones")
            if counts.floor is not None:
                facts = clear_dead(facts, self._target, deleted=None, floor=counts.floor)
            source = facts.where(has_effect())
            if counts.effects <= _BROADCAST_ROWS:
                source = F.broadcast(source)
            merged = merge_facts(source, self._table, self._target, ranges=counts.ranges, floor=counts.floor)
        failpoint("cdc.after_merge")
        return merged

    def _remembered(self, facts: DataFrame, counts: BatchCounts) -> DataFrame:
        """The batch's deletes and its truncate, as rows of the companion."""
        deletes = tombstone_rows(facts, self._target)
        if counts.floor is None:
            return deletes
        truncate = truncate_row(facts.sparkSession, self._target, counts.floor)
        return truncate.unionByName(deletes, allowMissingColumns=True)
