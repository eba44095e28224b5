"""A target of snapshots, with many small worlds in one table: each has separate keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType

from framework.cdc.analysis.target_schema import plan_target
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import AUXILIARY_PREFIX
from framework.cdc.model.snapshot_versions import SnapshotVersion
from framework.cdc.writer import AutoCdcWriter, table_properties
from framework.declare.specs import AutoCdcSpec
from framework.foundation.table_address import TableAddress
from tests.support.cdc_world import flow, name
from tests.support.plain_tables import create_empty_table, plain_rows

DDL = "test int, k string, a string, b string"
SPEC = AutoCdcSpec(keys=("test", "k"), sequence_by="")

Row = tuple[object, ...]


class SnapshotWorld:
    """One target and its flow.

    Args:
        spark: the session.
        root: an empty folder.
        spec: the spec of the flow.
        ddl: the schema of its source.
    """

    def __init__(self, spark: SparkSession, root: Path, spec: AutoCdcSpec, *, ddl: str = DDL) -> None:
        self.spark, self.spec = spark, spec
        source = replace(flow(spec, spark.createDataFrame([], ddl), called="snapshots"), versions=LongType())
        self.target = plan_target(name("target"), [source])
        self.table = TableAddress(path=str(root / "target"))
        self._ordinals = itertools.count(1)
        create_empty_table(spark, str(self.table.path), self.target.table_schema, table_properties({}))
        self._writer = AutoCdcWriter(
            target=self.target,
            flow=name("snapshots"),
            spec=spec,
            table=self.table,
            auxiliary=TableAddress(path=str(root / f"{AUXILIARY_PREFIX}target")),
            application_id="snapshots-1",
        )

    def take(self, version: int, rows: Iterable[Row], *, ordinal: int | None = None) -> CdcMetrics:
        """Apply a snapshot of all worlds: as the next one, or under the number of an earlier one."""
        return self.take_frame(version, self.spark.createDataFrame(list(rows), DDL), ordinal=ordinal)

    def take_frame(self, version: int, frame: DataFrame, *, ordinal: int | None = None) -> CdcMetrics:
        """Apply a snapshot of the source: as the next one, or under the number of an earlier one."""
        found = SnapshotVersion.of(version)
        assert found is not None
        return self._writer.apply_snapshot(frame, found, next(self._ordinals) if ordinal is None else ordinal)

    def rows(self, *shown: str) -> dict[int, frozenset[Row]]:
        """Return the rows of each world, by SQL expressions over the columns; no row is duplicated."""
        interval = ["__START_AT", "__END_AT"] if self.target.scd_type == 2 else []
        columns = ("test", *(shown or ("k", "a", "b")), *interval)
        collected = plain_rows(str(self.table.path), lambda _: columns)
        if collected is None:
            collected = self.spark.table(self.table.sql).selectExpr(*columns).collect()
        found: dict[int, set[Row]] = {}
        for test, *row in collected:
            mine = found.setdefault(test, set())
            assert tuple(row) not in mine, f"twice in world {test}: {row}"
            mine.add(tuple(row))
        return {test: frozenset(rows) for test, rows in found.items()}
