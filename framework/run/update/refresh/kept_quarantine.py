"""The quarantined rows that a full refresh with history keeps open, because the sources no longer have them.

A full refresh supersedes the rows quarantined before it, because it reads them again. A full refresh with history moves
the rows that it has not read to the rebuild's generations, after its rows are published, when it can no longer be
abandoned. A crash before that is safe: the publication is repeated, and moved rows are not moved again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.cdc.analysis.compatibility import can_hold
from framework.cdc.model.columns import align_column, column, match_field
from framework.checkpoints.backups import BackupStore
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rebuilds import Rebuild
from framework.engine.delta.table_version import read_table
from framework.foundation.failpoints import failpoint
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.plan.history import ALL_COLUMNS
from framework.run.flows.state.state_reader import building_of
from framework.run.flows.streaming_query import session_for
from framework.run.quarantine.row_state import RowState
from framework.run.quarantine.states import RowStates
from framework.run.quarantine.table import ID, QuarantineTable, by_columns, is_of
from framework.run.quarantine.values import from_variant
from framework.run.tables.table_store import TableStore
from framework.run.update.refresh.history_rows import lost_by_keys, lost_rows
from framework.run.update.refresh.quarantined_again import QuarantinedAgain

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptQuarantine:
    """The quarantine of one table that a rebuild with history has replaced.

    Args:
        store: the pipeline's tables.
        graph: its graph.
        dataset: the dataset of the table.
        rebuild: the rebuild, whose copy still exists.
    """

    store: TableStore
    graph: DataflowGraph
    dataset: GraphDataset
    rebuild: Rebuild

    def keep(self) -> None:
        """Keep the open rows that the rebuild has neither written nor quarantined. Idempotent.

        One commit moves the rows of all flows, because a row may equal a different row of another flow.
        """
        table = QuarantineTable(storage=self.store.storage, session=session_for(self.store.spark, {}))
        if not table.exists():
            return
        found: list[tuple[QualifiedName, DataFrame]] = []
        for manifest in GenerationStore(self.store.storage).list_of(self.dataset.name):
            number = building_of(manifest, self.rebuild)
            if number is not None:
                rows = self._open(table, manifest.flow).where(F.col("generation") != F.lit(number)).localCheckpoint()
                moved = F.struct("id", "flow", F.lit(number).alias("generation")).alias(ID)
                for same, columns in by_columns(rows):
                    found.append((manifest.flow, same.select(moved, *from_variant(F.col("row"), columns))))
        if found:
            is_cdc = self.dataset.cdc is not None
            lost = self._lost_events(table, found) if is_cdc else self._lost_rows(table, [rows for _, rows in found])
            table.keep(lost.select(ID), {flow for flow, _ in found})
            failpoint("rebuilds.after_quarantine")

    def _open(self, table: QuarantineTable, flow: QualifiedName) -> DataFrame:
        rows = table.read().where(is_of(self.dataset.name, flow))
        state = RowStates.of(self.store, self.graph).column(rows)
        return rows.where(state == F.lit(RowState.OPEN.value))

    def _lost_events(self, table: QuarantineTable, found: Sequence[tuple[QualifiedName, DataFrame]]) -> DataFrame:
        """Return the source rows that their own flow has not quarantined again.

        They may include events that the rebuild has applied: replaying these changes nothing.
        """
        lost = []
        for flow, rows in found:
            known = rows.drop(ID).limit(0)
            for each in self._again(table).rows(flow):
                known = known.unionByName(_shaped(each, known.schema.fields))
            lost.append(lost_by_keys(rows, known, known.columns).select(ID))
        return reduce(DataFrame.unionByName, lost)

    def _lost_rows(self, table: QuarantineTable, found: Sequence[DataFrame]) -> DataFrame:
        """Return the rows that are neither in the copy nor quarantined again, compared by the history's keys.

        Without keys, rows are compared by count: of equal rows, as many are lost as there are fewer than before. Rows
        of the copy first count for the rows that the table had, and only the remaining ones for quarantined rows.
        """
        assert self.rebuild.backup is not None
        known = read_table(table.session, self.store.address(self.dataset.spec, self.rebuild.number))
        fields = known.schema.fields
        for each in self._again(table).rows():
            known = known.unionByName(_shaped(each, fields))
        kept = reduce(DataFrame.unionByName, (_shaped(each, [*fields, each.schema[ID]]) for each in found))
        if self.rebuild.history_keys != ALL_COLUMNS:
            return lost_by_keys(kept, known, self.rebuild.history_keys)
        backups, name = BackupStore(self.store.storage), self.dataset.name
        if backups.read(name, self.rebuild.backup) is not None:  # else dropped after its rows were put back
            copy = read_table(table.session, TableAddress(path=backups.table(name, self.rebuild.backup)))
            known = lost_rows(known, _shaped(copy, fields))
        return lost_rows(kept, known, known.columns)

    def _again(self, table: QuarantineTable) -> QuarantinedAgain:
        return QuarantinedAgain(
            storage=self.store.storage,
            session=table.session,
            dataset=self.dataset,
            flows=self.graph.flows_into(self.dataset.name),
            rebuild=self.rebuild,
        )


def _shaped(rows: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """Return rows with these columns; a missing column, or a value of another type, becomes NULL."""
    return rows.select(*(_shaped_column(rows.schema, field).alias(field.name) for field in fields))


def _shaped_column(schema: StructType, field: StructField) -> Column:
    own = match_field(schema, field.name)
    if own is None or not can_hold(field.dataType, own.dataType):
        return F.lit(None).cast(field.dataType)
    return align_column(column(own.name), own.dataType, field.dataType)
