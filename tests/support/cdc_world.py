"""A target table with its AUTO CDC flows, to which tests apply batches by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from framework.cdc.analysis.target_schema import CdcInput, CdcTarget, plan_target
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import AUXILIARY_PREFIX
from framework.cdc.writer import AutoCdcWriter, table_properties
from framework.declare.specs import AutoCdcSpec
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from tests.support.plain_tables import create_empty_table, plain_rows, table_rows

Rows = Sequence[Sequence[object]]

ALL_ROWS, NO_ROWS = 1_000_000, -1
"""For `transaction_write.SHUFFLED_ROWS_PER_KEY` and `FEW_ROWS`: always, or never."""


def name(table: str) -> QualifiedName:
    """A full name in the tests' catalog."""
    return QualifiedName(catalog="main", schema="default", table=table)


def flow(spec: AutoCdcSpec, source: DataFrame, *, called: str = "changes", once: bool = False) -> CdcInput:
    """An analysed flow, as the graph hands it to planning."""
    return CdcInput(name=name(called), spec=spec, once=once, location=None, source=source)


class World:
    """One target and its flows; each flow's batches have the numbers that its checkpoint would give them.

    Args:
        spark: the session.
        root: an empty folder for the two tables.
        flows: per flow its spec, the DDL of its source and whether it is a once flow.
        properties: of the target's table, in addition to those that the engine sets.
        partitions: the columns that the target's table is partitioned by.
        deletes_first: whether deletes come before upserts of their sequence, as if the flows read a change feed.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        flows: Mapping[str, tuple[AutoCdcSpec, str, bool]],
        properties: Mapping[str, str] = MappingProxyType({}),
        partitions: Sequence[str] = (),
        *,
        deletes_first: bool = False,
    ) -> None:
        self.spark = spark
        self.flows = dict(flows)
        self.partitions = tuple(partitions)
        self.table = TableAddress(path=str(root / "target"))
        self.auxiliary = TableAddress(path=str(root / f"{AUXILIARY_PREFIX}target"))
        self.generation: Counter[str] = Counter()
        self._numbers: dict[str, itertools.count[int]] = {called: itertools.count() for called in flows}
        self.target = replace(self.plan(), deletes_first=deletes_first)
        wanted = {**table_properties(properties), **properties}
        create_empty_table(spark, str(self.table.path), self.target.table_schema, wanted, self.partitions)

    def plan(self, stored: StructType | None = None, *, declared: StructType | None = None) -> CdcTarget:
        """Return the target, planned from its flows."""
        inputs = [
            flow(spec, self.spark.createDataFrame([], ddl), called=called, once=once)
            for called, (spec, ddl, once) in self.flows.items()
        ]
        return plan_target(
            name("target"), inputs, declared_schema=declared, stored=stored, partition_columns=self.partitions
        )

    def writer(self, called: str) -> AutoCdcWriter:
        """Return a writer as the engine creates it for an update of this flow."""
        return AutoCdcWriter(
            target=self.target,
            flow=name(called),
            spec=self.flows[called][0],
            table=self.table,
            auxiliary=self.auxiliary,
            application_id=f"{called}-{self.generation[called]}",
        )

    def frame(self, called: str, rows: Rows) -> DataFrame:
        """Rows of a flow's source."""
        return self.spark.createDataFrame([tuple(row) for row in rows], self.flows[called][1])

    def apply(self, called: str, rows: Rows, *, batch_id: int | None = None) -> CdcMetrics:
        """Apply one batch: the flow's next one, or the one with this number."""
        return self.apply_frame(called, self.frame(called, rows), batch_id=batch_id)

    def apply_frame(self, called: str, frame: DataFrame, *, batch_id: int | None = None) -> CdcMetrics:
        """Apply rows of a flow's source as its next batch, or as the one with this number."""
        number = next(self._numbers[called]) if batch_id is None else batch_id
        return self.writer(called).apply(frame, number)

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        """Return the target's rows, sorted; all visible columns unless some are named."""
        shown = columns or tuple(self.target.visible_schema.fieldNames())
        rows = plain_rows(str(self.table.path), lambda _: shown)
        return sorted_rows(self.spark.table(self.table.sql).select(*shown).collect() if rows is None else rows)

    def auxiliary_rows(self) -> list[Row]:
        """The rows of the auxiliary table; empty if the table does not exist."""
        if not DeltaTable.isDeltaTable(self.spark, str(self.auxiliary.path)):
            return []
        return table_rows(self.spark, str(self.auxiliary.path))

    def version(self) -> int:
        """Return the version of the target's last commit, as its log has it."""
        return max(int(commit.stem) for commit in Path(str(self.table.path), "_delta_log").glob("*[0-9].json"))


def sorted_rows(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Rows as plain tuples in an order of their text, so that nulls and any types sort."""
    return sorted((tuple(row) for row in rows), key=repr)
