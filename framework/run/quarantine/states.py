"""The states of quarantined rows, derived from checkpoints, target transactions and replay claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import BY_LOSS, BY_REFRESH, Generation, GenerationState, Manifest
from framework.checkpoints.offsets import read_progress
from framework.checkpoints.rebuilds import last_refresh
from framework.foundation.table_address import TableAddress
from framework.run.quarantine.append_once import has_taken, last_taken
from framework.run.quarantine.row_state import RowState
from framework.run.quarantine.table import KEPT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from framework.graph.graph import DataflowGraph
    from framework.run.tables.table_store import TableStore

REPLAY_NUMBER = 0
"""The number of a replay's single batch in the target's transactions."""


CLAIM = ("pipeline", "dataset", "flow", "replay")
"""The columns that identify a replay; the pipeline's name may have changed since."""

_ORIGIN = ("dataset", "flow", "generation", "transaction")


def replay_application(pipeline: str, replay: str) -> str:
    """Return the application id of a replay in the target's transactions."""
    return f"sluice:{pipeline}:replay:{replay}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowStates:
    """Derives the states of quarantined rows.

    Args:
        store: the pipeline's tables.
        manifests: the manifests of the pipeline's flows, by the names of dataset and flow.
        graph: the pipeline's graph; None if the code has errors, in which case recorded table paths are used.
    """

    store: TableStore
    manifests: Mapping[tuple[str, str], Manifest]
    graph: DataflowGraph | None

    @classmethod
    def of(cls, store: TableStore, graph: DataflowGraph | None) -> RowStates:
        """Read the manifests of a pipeline."""
        found = GenerationStore(store.storage).list_all()
        manifests = {(str(each.dataset), str(each.flow)): each for each in found}
        return cls(store=store, manifests=manifests, graph=graph)

    def column(self, rows: DataFrame) -> Column:
        """Return the state of each of these quarantined rows."""
        # One job reads the claims and the origins of all rows.
        wanted = dict.fromkeys((*CLAIM, *_ORIGIN))
        unreplayed = rows.where("replayed_at IS NULL").select(*wanted).distinct().collect()
        claims = {tuple(row[name] for name in CLAIM): row for row in unreplayed if row["replay"] is not None}
        origins = {tuple(row[name] for name in _ORIGIN): row for row in unreplayed}
        done = [claim["replay"] for claim in claims.values() if self.is_written(claim)]
        state = F.when(
            F.col("replayed_at").isNotNull() | F.coalesce(F.col("replay").isin(done), F.lit(False)),  # noqa: FBT003 - a literal column
            F.lit(RowState.REPLAYED.value),
        )
        for origin in origins.values():
            is_same = F.lit(True)  # noqa: FBT003 - a literal column
            for name in _ORIGIN:
                is_same = is_same & (F.col(name) == F.lit(origin[name]))
            for condition, value in self._cases(origin, is_same):
                state = state.when(condition, F.lit(value.value))
        return state.otherwise(F.lit(RowState.OPEN.value))

    def is_written(self, claim: Row) -> bool:
        """Return whether the target has the rows of a replay.

        Args:
            claim: a row with the columns `CLAIM`.
        """
        table = self._table(claim["dataset"], claim["flow"])
        application = replay_application(claim["pipeline"], claim["replay"])
        return table is not None and has_taken(self.store.spark, table, application, REPLAY_NUMBER)

    def _cases(self, origin: Row, is_same: Column) -> list[tuple[Column, RowState]]:
        manifest = self.manifests.get((origin["dataset"], origin["flow"]))
        generation = None if manifest is None else manifest.find(origin["generation"])
        # After a full refresh without the flow, or if its table was deleted, its next run reads everything again.
        if manifest is None or generation is None or generation.undone_by in {BY_REFRESH, BY_LOSS}:
            return [(is_same, RowState.SUPERSEDED)]
        # A checkpoint that was deleted by hand has a successor with the same number.
        cases = []
        if not self._is_of_stream(manifest, generation, origin):
            cases.append((is_same & (F.col("quarantined_at") < _time(generation.begun_at)), RowState.SUPERSEDED))
        refresh = last_refresh(manifest)
        if refresh is not None and generation.number < refresh.number:
            # The refresh has not read rows that the generation quarantined later, after a roll-back to it.
            is_read_again = F.col("quarantined_at") < _time(refresh.begun_at)
            cases.append((is_same & is_read_again, RowState.SUPERSEDED))
        last = self._last_committed(manifest, generation, origin)
        return cases if last is None else [*cases, (is_same & (F.col("batch") > last), RowState.UNCOMMITTED)]

    def _is_of_stream(self, manifest: Manifest, generation: Generation, origin: Row) -> bool:
        """Whether appended rows come from a generation's present stream, by the stream's id instead of a clock."""
        if origin["transaction"] == KEPT:
            return True
        path = GenerationStore(self.store.storage).path(manifest.dataset, manifest.flow, generation.number)
        stream = generation.query or read_progress(self.store.storage, path).query_id
        return stream is not None and origin["transaction"] == stream

    def _last_committed(self, manifest: Manifest, generation: Generation, origin: Row) -> int | None:
        """Return a generation's last batch whose rows are in the target; None if all are."""
        if origin["transaction"] == KEPT:
            return None
        if generation.state is GenerationState.BUILDING:
            return -1
        if generation.completed:
            return None
        path = GenerationStore(self.store.storage).path(manifest.dataset, manifest.flow, generation.number)
        committed = read_progress(self.store.storage, path).last_commit_batch
        table = self._table(origin["dataset"], origin["flow"])
        taken = -1 if table is None else last_taken(self.store.spark, table, origin["transaction"])
        return max(taken, -1 if committed is None else committed)

    def _table(self, dataset: str, flow: str) -> TableAddress | None:
        manifest = self.manifests.get((dataset, flow))
        if manifest is None:
            return None
        declared = None if self.graph is None else self.graph.dataset(manifest.dataset)
        if declared is not None and declared.is_table:
            address = self.store.address(declared.spec)
        else:
            record = self.store.record(manifest.dataset)
            if record is None:
                return None
            address = TableAddress(path=record.path)
        return address if self.store.exists(address) else None


def _time(text: str) -> Column:
    return F.lit(text).cast("timestamp")
