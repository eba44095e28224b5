"""The quarantined rows that a full refresh with history keeps open: those that its sources no longer have.

A full refresh supersedes the rows that were quarantined before it, because it has read them again. One that keeps
history moves those that it has not read to the generations of the rebuild, after its rows are published: from then on
it is not given up. A crash before is safe, because the publication is repeated, and moved rows are not moved again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.analysis.compatibility import can_hold
from framework.cdc.delta.table_version import read_table
from framework.cdc.model.columns import align_column, column, match_field
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rebuilds import Rebuild
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.plan.history import ALL_COLUMNS
from framework.run.flows.state_reader import building_of
from framework.run.flows.streaming_query import session_for
from framework.run.quarantine.states import RowState, RowStates
from framework.run.quarantine.table import ID, QuarantineTable, by_columns, is_of
from framework.run.quarantine.values import from_variant
from framework.run.tables.table_store import TableStore
from framework.run.update.history_rows import lost_by_keys
from framework.run.update.quarantined_again import QuarantinedAgain

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptQuarantine:
    """The quarantine of one table whose rows a rebuild with history has replaced.

    Args:
        store: the pipeline's tables.
        graph: its graph.
        dataset: the dataset of the table.
        rebuild: the rebuild, whose copy is still there.
    """

    store: TableStore
    graph: DataflowGraph
    dataset: GraphDataset
    rebuild: Rebuild

    def keep(self) -> None:
        """Keep the open rows that the rebuild has neither written nor quarantined; again, it changes nothing."""
        table = QuarantineTable(storage=self.store.storage, session=session_for(self.store.spark, {}))
        if not table.exists():
            return
        for manifest in GenerationStore(self.store.storage).list_of(self.dataset.name):
            number = building_of(manifest, self.rebuild)
            if number is not None:
                rows = self._open(table, manifest.flow).where(F.col("generation") != F.lit(number)).localCheckpoint()
                for same, columns in by_columns(rows):
                    table.keep(self._lost(same, columns).select(ID), manifest.flow, number)

    def _open(self, table: QuarantineTable, flow: QualifiedName) -> DataFrame:
        rows = table.rows().where(is_of(self.dataset.name, flow))
        state = RowStates.of(self.store, self.graph).column(rows)
        return rows.where(state == F.lit(RowState.OPEN.value))

    def _lost(self, rows: DataFrame, columns: StructType) -> DataFrame:
        """Return those of some rows with these columns that the rebuild has not read, with `ID`."""
        kept = rows.select(F.col("id").alias(ID), *from_variant(F.col("row"), columns))
        again = QuarantinedAgain(
            storage=self.store.storage, session=rows.sparkSession, dataset=self.dataset,
            flows=self.graph.flows_into(self.dataset.name), rebuild=self.rebuild,
        ).rows()  # fmt: skip
        if self.dataset.cdc is None:
            known = read_table(rows.sparkSession, self.store.address(self.dataset.spec, self.rebuild.number))
        else:  # rows of the source: an event that the rebuild has applied changes nothing in a replay
            known = kept.drop(ID).limit(0)
        fields = known.schema.fields
        for each in again:
            known = known.unionByName(_shaped(each, fields))
        by_all = self.dataset.cdc is not None or self.rebuild.history_keys == ALL_COLUMNS
        keys = known.columns if by_all else self.rebuild.history_keys
        return lost_by_keys(_shaped(kept, [*fields, kept.schema[ID]]), known, keys)


def _shaped(rows: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """Return rows with these columns; one that they lack, or whose values have another type, is NULL."""
    return rows.select(*(_shaped_column(rows.schema, field).alias(field.name) for field in fields))


def _shaped_column(schema: StructType, field: StructField) -> Column:
    own = match_field(schema, field.name)
    if own is None or not can_hold(field.dataType, own.dataType):
        return F.lit(None).cast(field.dataType)
    return align_column(column(own.name), own.dataType, field.dataType)
