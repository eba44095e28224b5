"""The quarantine of a pipeline for programs and commands: its rows with their states, replay, and drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from framework.engine.jvm.java_errors import Py4JError
from framework.foundation.errors import OperationError, SluiceError, UserError
from framework.foundation.names import string_literal
from framework.foundation.nearest import meant_names, qualified_hint
from framework.foundation.processes import user_name
from framework.graph.graph import DataflowGraph
from framework.record.drafts import user_action
from framework.recovery.quarantine.replay import replay_rows
from framework.recovery.quarantine.results import QuarantinedRows, Replay
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.flows.streaming_query import session_for
from framework.run.quarantine.row_state import RowState
from framework.run.quarantine.states import RowStates
from framework.run.quarantine.table import QuarantineTable
from framework.run.tables.table_store import TableStore
from framework.run.update.checkpoint_actions import changing
from framework.run.update.fault_classification import flow_fault, unreadable_quarantine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE = "state"
_SHOWN = (
    "id",
    "flow",
    "dataset",
    STATE,
    "reasons",
    "quarantined_at",
    "generation",
    "batch",
    "update_id",
    "position",
    "file",
    "replays",
    "replayed_at",
    "row",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quarantine:
    """The quarantine of a pipeline.

    Args:
        store: the pipeline's tables.
        graph: returns the pipeline's graph; only a replay needs it.
    """

    store: TableStore
    graph: Callable[[], DataflowGraph]

    def list(self) -> tuple[QuarantinedRows, ...]:
        """Return the numbers of rows by flow, reasons and state.

        Raises:
            OperationError: QUARANTINE_UNREADABLE.
        """
        times = F.min("quarantined_at").alias("first"), F.max("quarantined_at").alias("last")
        with self._readable():
            grouped = self._shown(self._of_pipeline()).groupBy(
                "flow", "dataset", F.array_sort("reasons").alias("reasons"), STATE
            )
            found = grouped.agg(F.count(F.lit(1)).alias("rows"), *times).orderBy("flow", "reasons", STATE).collect()
        return tuple(
            QuarantinedRows(
                flow=row["flow"],
                dataset=row["dataset"],
                reasons=tuple(row["reasons"]),
                state=RowState(row[STATE]),
                rows=row["rows"],
                first=row["first"],
                last=row["last"],
            )
            for row in found
        )

    def waiting(self) -> tuple[WaitingRows, ...]:
        """Return the flows with open rows, which wait for a fix and a replay, sorted by name.

        Rows that are replayed, superseded or of an uncommitted batch are not open. No Spark job runs if no row was ever
        quarantined.
        """
        found: dict[str, WaitingRows] = {}
        for each in self.list() if self._exists() else ():
            if each.state is RowState.OPEN:
                known = found.get(each.flow, WaitingRows(flow=each.flow, rows=0, since=each.first))
                found[each.flow] = replace(known, rows=known.rows + each.rows, since=min(known.since, each.first))
        return tuple(found.values())

    def rows(self, flow: str | None = None, *, reason: str | None = None) -> DataFrame:
        """Return quarantined rows with their states; `row` is the row itself, as a VARIANT.

        Args:
            flow: one flow, by its full name or its last parts; None for all.
            reason: only rows with this reason, an expectation or a condition.

        Raises:
            UserError: QUARANTINE_FLOW_NOT_FOUND, QUARANTINE_REASON_NOT_FOUND.
            OperationError: QUARANTINE_UNREADABLE.
        """
        with self._readable():
            found = self._of_pipeline(self._table().rows())
            if flow is not None:
                found = _with_reason(found, self._flow(self._of_pipeline(), flow), reason)
            return self._shown(found)

    def _shown(self, found: DataFrame) -> DataFrame:
        return found.withColumn(STATE, self._states().column(found)).select(*_SHOWN)

    def replay(self, flow: str, *, reason: str | None = None, dry_run: bool = False) -> Replay:
        """Check the open rows of a flow again with the current expectations, and write those that pass.

        Args:
            flow: the flow, by its full name or its last parts.
            reason: only rows with this reason.
            dry_run: whether to write nothing.

        Raises:
            UserError: QUARANTINE_FLOW_NOT_FOUND, QUARANTINE_REASON_NOT_FOUND, QUARANTINE_FLOW_NOT_DECLARED.
            OperationError: an update is running; QUARANTINE_REPLAY_FAILED.
        """
        with self._readable():
            rows = self._of_pipeline()
            name = self._flow(rows, flow)
            _with_reason(rows, name, reason)
        graph = self.graph()
        if dry_run:
            return self._replayed(graph, name, reason, dry_run=True)
        with changing(self.store.storage, self.store.pipeline) as log:
            done = self._replayed(graph, name, reason, dry_run=False)
            text = f"Quarantine of {name} replayed: {done.passed} rows written, {done.failed} failed again."
            log.record(user_action(action="REPLAY_QUARANTINE", user_name=user_name(), message=text))
            return done

    def _replayed(self, graph: DataflowGraph, flow: str, reason: str | None, *, dry_run: bool) -> Replay:
        try:
            return replay_rows(graph, self.store, flow, reason=reason, dry_run=dry_run)
        except (PySparkException, Py4JError) as error:
            declared = next(each.spec for each in graph.flows if str(each.spec.name) == flow)
            fault = flow_fault(error, declared.name, declared.location)
            if fault.condition != "FLOW_FAILED":
                raise fault from None
            cause = fault.fields["cause"]
            raise OperationError("QUARANTINE_REPLAY_FAILED", location=fault.location, flow=flow, cause=cause) from None

    def drop(self, flow: str, *, reason: str | None = None, replayed: bool = False) -> int:
        """Permanently delete the rows of a flow that are not replayed, in one commit.

        Args:
            flow: the flow, by its full name or its last parts.
            reason: only rows with this reason.
            replayed: delete the replayed rows instead.

        Returns:
            The number of deleted rows.

        Raises:
            UserError: QUARANTINE_FLOW_NOT_FOUND, QUARANTINE_REASON_NOT_FOUND.
            OperationError: an update is running.
        """
        with changing(self.store.storage, self.store.pipeline) as log, self._readable():
            rows = self._of_pipeline(certain=True)
            name = self._flow(rows, flow)
            rows = _with_reason(rows, name, reason)
            is_replayed = self._states().column(rows) == RowState.REPLAYED.value
            chosen = rows.where(is_replayed if replayed else ~is_replayed).select("id")
            count = chosen.count()
            if count:
                merge = self._table().table().alias("kept").merge(chosen.alias("gone"), _same_row(name))
                merge.whenMatchedDelete().execute()
            text = f"Quarantine of {name}: {count} rows dropped."
            log.record(user_action(action="DROP_QUARANTINE", user_name=user_name(), message=text))
            return count

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Convert a failure to read the quarantine in the block to an error that names the table."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            found = unreadable_quarantine(error, self.store.storage)
            if found is None:
                raise
            raise found from error

    def _states(self) -> RowStates:
        return RowStates.of(self.store, self._valid_graph())

    def _valid_graph(self) -> DataflowGraph | None:
        try:
            return self.graph()
        except SluiceError:  # the rows must be readable even if the code has errors
            return None

    def _table(self) -> QuarantineTable:
        return QuarantineTable(storage=self.store.storage, session=session_for(self.store.spark, {}))

    def _exists(self) -> bool:
        return QuarantineTable(storage=self.store.storage, session=self.store.spark).exists()

    def _of_pipeline(self, rows: DataFrame | None = None, *, certain: bool = False) -> DataFrame:
        """Return the rows of this pipeline: those with its name, and those of its datasets, because it may be renamed.

        Another pipeline may share the storage. If the code has errors, the datasets are unknown, and all rows count.

        Args:
            rows: rows of the quarantine; None for all current rows.
            certain: whether to return only rows with its name then, so that no row of another pipeline is deleted.
        """
        rows, graph = self._table().read() if rows is None else rows, self._valid_graph()
        if graph is None and not certain:
            return rows
        datasets = [] if graph is None else [str(each.name) for each in graph.datasets]
        return rows.where((F.col("pipeline") == F.lit(self.store.pipeline)) | F.col("dataset").isin(datasets))

    def _flow(self, rows: DataFrame, flow: str) -> str:
        """Return the full name of a flow with quarantined rows."""
        known = [str(row["flow"]) for row in rows.select("flow").distinct().collect()]
        found = meant_names(flow, known)
        if len(found) == 1:
            return found[0]
        several = f" It has several flows of that name: {', '.join(sorted(found))}."
        hint = several if found else qualified_hint(flow, known)
        raise UserError("QUARANTINE_FLOW_NOT_FOUND", flow=flow, hint=hint)


def _with_reason(rows: DataFrame, flow: str, reason: str | None) -> DataFrame:
    found = rows.where(F.col("flow") == F.lit(flow))
    if reason is None:
        return found
    chosen = found.where(F.array_contains("reasons", reason))
    if chosen.isEmpty():
        known = sorted(row[0] for row in found.select(F.explode("reasons")).distinct().collect())
        raise UserError("QUARANTINE_REASON_NOT_FOUND", flow=flow, reason=reason, reasons=", ".join(known))
    return chosen


def _same_row(flow: str) -> str:
    return f"kept.flow = {string_literal(flow)} AND kept.id = gone.id"
