"""The rows that a full refresh's flows have quarantined, as rows and as events of their target.

A backup row that is quarantined again is not lost: its source still has it. It stays only in the quarantine; if it were
also put back, a replay would write it a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.normalize import OPERATION, ORDER, read_events
from framework.cdc.model.columns import column
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rebuilds import Rebuild
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow
from framework.run.flows.state.state_reader import building_of
from framework.run.quarantine.table import KEPT, QuarantineTable, by_columns, is_of
from framework.run.quarantine.values import from_variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.files.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuarantinedAgain:
    """The rows that one rebuild's flows have quarantined.

    Args:
        storage: the pipeline's storage.
        session: reads the quarantine.
        dataset: the dataset that is rebuilt.
        flows: the flows into it.
        rebuild: its rebuild, whose flows have finished.
    """

    storage: Storage
    session: SparkSession
    dataset: GraphDataset
    flows: Sequence[GraphFlow]
    rebuild: Rebuild

    def rows(self, of: QualifiedName | None = None) -> tuple[DataFrame, ...]:
        """Return the rows, one frame for each set of columns, with the columns that their query returned.

        Args:
            of: the flow whose rows to return; None for all flows.
        """
        return tuple(rows for name, rows in self._rows() if of in {None, name})

    def events(self) -> DataFrame | None:
        """Return keys, `ORDER` and `OPERATION` of quarantined AUTO CDC events; None if no row is quarantined."""
        target, flows = self.dataset.cdc, {flow.spec.name: flow.spec for flow in self.flows}
        assert target is not None
        found = []
        for name, rows in self._rows():
            spec = flows[name].cdc if name in flows else None
            if spec is not None:
                events = read_events(rows, spec, CdcTarget.of(target), literal=name in target.literal_flows)
                found.append(events.select(*map(column, (*target.keys, ORDER, OPERATION))))
        return reduce(DataFrame.unionByName, found) if found else None

    def _rows(self) -> Iterator[tuple[QualifiedName, DataFrame]]:
        table = QuarantineTable(storage=self.storage, session=self.session)
        if not table.exists():
            return
        for manifest in GenerationStore(self.storage).list_of(self.dataset.name):
            number = building_of(manifest, self.rebuild)
            if number is None:
                continue
            # After a crash, rows that are kept open are already in the generation, but no batch has read them.
            is_read = (F.col("generation") == F.lit(number)) & (F.col("transaction") != F.lit(KEPT))
            is_own = is_of(manifest.dataset, manifest.flow) & is_read
            for same, columns in by_columns(table.read().where(is_own)):
                yield manifest.flow, same.select(*from_variant(F.col("row"), columns))
