"""Replays quarantined rows: checks them again at the point where they were removed, and writes those that pass.

A row is stored as the flow's query returned it, or for AUTO CDC as its source returned it. So a replay begins there,
with the expectations, keys and sequence of the current code; the query itself does not run again.

The durable effects, in order, for the rows with one set of columns, and why a crash after each is safe. The update lock
is held, so that no update and no other replay runs in between.

1. One commit of the quarantine: rows that pass are claimed under the id of the replay, the others get their new
   reasons -> nothing is in the target. The next replay releases the claim, and decides again.
2. The target's commit, with the id of the replay as its transaction. It has the claimed rows, read from the quarantine,
   and evaluates no expectation -> the rows count as replayed, and the next replay finds the transaction and marks them.
3. The rows are marked as replayed.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.model.columns import column, match_field
from framework.cdc.writer import AutoCdcWriter
from framework.checkpoints.rebuilds import RebuildStore
from framework.declare.specs import ViolationAction
from framework.engine.sessions.execution import computed_once
from framework.foundation.errors import UserError
from framework.foundation.failpoints import failpoint
from framework.foundation.names import string_literal
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.recovery.quarantine.fitting import Fitting
from framework.recovery.quarantine.results import Replay
from framework.run.flows.expectations import reasons
from framework.run.flows.repeated_rows import row_ones, unique_ones, with_repeated
from framework.run.flows.streaming_query import session_for
from framework.run.quarantine.append_once import append_once
from framework.run.quarantine.faults import checked_rows, faults_of
from framework.run.quarantine.row_state import RowState
from framework.run.quarantine.states import CLAIM, REPLAY_NUMBER, RowStates, replay_application
from framework.run.quarantine.table import ID, LOST, REASONS, QuarantineTable, by_columns, is_of
from framework.run.quarantine.values import from_variant
from framework.run.tables.table_store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_STAYING = frozenset({ViolationAction.DROP, ViolationAction.FAIL})
TYPE_CHANGED = "QUARANTINE_TYPE_CHANGED"
"""The reason of a row with a value that does not fit the current type of its column."""


def replay_rows(graph: DataflowGraph, store: TableStore, flow: str, *, reason: str | None, dry_run: bool) -> Replay:
    """Replay the open rows of a flow.

    Args:
        graph: the pipeline's graph.
        store: its tables.
        flow: the flow's full name; it has quarantined rows.
        reason: only rows with this reason.
        dry_run: whether to decide without writing.

    Raises:
        UserError: QUARANTINE_FLOW_NOT_DECLARED, FULL_REFRESH_UNFINISHED.
        OperationError: DATASET_NOT_MATERIALIZED, TABLE_NOT_OWNED, TABLE_OF_OTHER_STORAGE.
    """
    found = next((each for each in graph.flows if str(each.spec.name) == flow), None)
    dataset = None if found is None else graph.dataset(found.spec.target)
    if found is None or dataset is None or not dataset.is_table or found.spec.from_snapshots:
        raise UserError("QUARANTINE_FLOW_NOT_DECLARED", flow=flow)
    store.check_readable(dataset.spec)
    store.check_owner(dataset.spec, store.address(dataset.spec))
    RebuildStore(store.storage).check_finished(dataset.name)
    session = session_for(store.spark, graph.settings(found))
    work = _Work(
        graph=graph,
        flow=found,
        dataset=dataset,
        store=store,
        session=session,
        reason=reason,
        table=QuarantineTable(storage=store.storage, session=session),
    )
    if not work.has_rows():
        raise UserError("QUARANTINE_FLOW_NOT_DECLARED", flow=flow)
    if not dry_run:
        work.settle()
    return work.run(dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """One replay of one flow."""

    graph: DataflowGraph
    flow: GraphFlow
    dataset: GraphDataset
    store: TableStore
    session: SparkSession
    table: QuarantineTable
    reason: str | None

    def has_rows(self) -> bool:
        """Whether the flow has rows for its current target."""
        return not self._rows().isEmpty()

    def settle(self) -> None:
        """Finish the replays that a crash interrupted: mark rows that are in the target, and release the others."""
        unfinished = self._rows().where("replay IS NOT NULL AND replayed_at IS NULL")
        claims = unfinished.select(*CLAIM).distinct().collect()
        states = RowStates.of(self.store, self.graph)
        for claim in claims:
            is_claimed = F.col("replay") == F.lit(claim["replay"])
            if states.is_written(claim):
                self._mark(claim["replay"])
            else:
                self.table.table().update(is_claimed, {"replay": F.lit(None).cast("string")})

    def run(self, *, dry_run: bool) -> Replay:
        """Replay the open rows, separately for each set of columns."""
        rows = self._rows()
        states = RowStates.of(self.store, self.graph).column(rows)
        chosen = rows.where(states == F.lit(RowState.OPEN.value))
        if self.reason is not None:
            chosen = chosen.where(F.array_contains("reasons", self.reason))
        # By id, because a claim changes the state of rows that are selected later.
        chosen = chosen.localCheckpoint()
        passed = 0
        failed: dict[tuple[str, ...], int] = {}
        for of_columns, columns in by_columns(chosen):
            with computed_once(self._decided(of_columns, columns)) as decided:
                counts = decided.groupBy(F.array_sort(REASONS).alias("reasons")).count().collect()
                found = {tuple(each["reasons"]): int(each["count"]) for each in counts}
                passed += found.pop((), 0)
                failed = {key: failed.get(key, 0) + found.get(key, 0) for key in [*failed, *found]}
                if not dry_run:
                    self._write(decided, columns)
        return Replay(
            flow=str(self.flow.spec.name),
            dataset=str(self.dataset.name),
            passed=passed,
            dry_run=dry_run,
            failed_by_reasons=tuple(sorted(failed.items())),
        )

    def _decided(self, stored: DataFrame, columns: StructType) -> DataFrame:
        """Return the ids and new reasons of rows, by the current code."""
        values, lost = self._fitted(columns)
        rows = stored.select(F.col("id").alias(ID), *from_variant(F.col("row"), columns))
        rows = rows.select(ID, lost.alias(LOST), *values)
        source = rows.drop(ID, LOST)
        faults = {TYPE_CHANGED: F.col(LOST), **faults_of(source, self.flow.spec, self.dataset)}
        expectations, held = self.dataset.spec.expectations, checked_rows(self.flow.spec)
        found = reasons(row_ones(expectations), _STAYING, held=held, faults=faults)
        decided = rows.withColumn(REASONS, found)
        if unique := unique_ones(expectations):
            table = self.session.read.format("delta").load(self.store.path(self.dataset.spec))
            decided = with_repeated(decided, unique, is_checked=F.size(REASONS) == 0, table=table)
            repeated = reasons(unique, _STAYING, faults={})
            decided = decided.withColumn(REASONS, F.concat(REASONS, repeated))
        return decided.select(ID, REASONS)

    def _write(self, decided: DataFrame, columns: StructType) -> None:
        """Claim the rows that pass, write them to the target, and mark them."""
        replay = str(uuid.uuid4())
        name = string_literal(str(self.flow.spec.name))
        merge = self.table.table().alias("kept")
        merging = merge.merge(decided.alias("new"), f"kept.flow = {name} AND kept.id = new.{ID}")
        # The transaction has this pipeline's name, which may differ from the pipeline name in the rows.
        claim: dict[str, str | Column] = {
            "pipeline": F.lit(self.store.pipeline),
            "replay": F.lit(replay),
            "replays": "kept.replays + 1",
        }
        merging = merging.whenMatchedUpdate(f"size(new.{REASONS}) = 0", claim)
        merging.whenMatchedUpdate(set={"reasons": f"new.{REASONS}", "replays": "kept.replays + 1"}).execute()
        failpoint("quarantine.after_claim")
        claimed = self.table.read().where(F.col("replay") == F.lit(replay))
        if claimed.isEmpty():
            return
        values, _ = self._fitted(columns)
        rows = claimed.select(*from_variant(F.col("row"), columns)).select(*values)
        self._write_to_target(rows, replay_application(self.store.pipeline, replay))
        failpoint("quarantine.after_replay")
        self._mark(replay)

    def _write_to_target(self, rows: DataFrame, application: str) -> None:
        address = self.store.address(self.dataset.spec)
        if self.dataset.cdc is None:
            append_once(rows, address, application, REPLAY_NUMBER)
            return
        assert self.flow.spec.cdc is not None  # all flows of an AUTO CDC target are AUTO CDC flows
        writer = AutoCdcWriter(
            target=CdcTarget.of(self.dataset.cdc),
            flow=self.flow.spec.name,
            spec=self.flow.spec.cdc,
            table=address,
            auxiliary=self.store.auxiliary(self.dataset.spec),
            application_id=application,
        )
        writer.apply(rows, REPLAY_NUMBER)

    def _fitted(self, stored: StructType) -> tuple[list[Column], Column]:
        """Return stored rows in the columns of the current query, and whether a value is lost.

        A column missing in the row is NULL. A column that the query no longer has is kept, because the table has it.
        """
        fitting = Fitting(session=self.session)
        wanted = StructType.fromJson(json.loads(self.flow.schema or '{"type": "struct", "fields": []}'))
        values, lost = [], F.lit(False)  # noqa: FBT003 - a literal column
        for field in stored.fields:
            known = match_field(wanted, field.name) or field
            fitted = fitting.fit(column(field.name), field.dataType, known.dataType)
            lost = lost | fitted.is_lost
            values.append(fitted.value.alias(field.name))
        missing = [field for field in wanted.fields if match_field(stored, field.name) is None]
        return [*values, *(F.lit(None).cast(each.dataType).alias(each.name) for each in missing)], lost

    def _rows(self) -> DataFrame:
        # A flow that moved to this table has read its rows again: rows quarantined for its former table stay there.
        return self.table.read().where(is_of(self.dataset.name, self.flow.spec.name))

    def _mark(self, replay: str) -> None:
        self.table.table().update(F.col("replay") == F.lit(replay), {"replayed_at": F.current_timestamp()})
