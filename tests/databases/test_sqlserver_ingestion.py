"""An ingestion of SQL Server on the stand-in: a kill, changes, a gap, and a new start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from framework import Pipeline
from framework.foundation.clock import SystemClock
from framework.foundation.failpoints import arm, disarm
from framework.ingest.gateway_status import IngestedState
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.status import read_status
from framework.run.update.results import UpdateState
from tests.support.copied_tables import copied, failures, pipeline_of
from tests.support.sources import ROOT
from tests.support.sqlserver.engine import StandIn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs/sqlserver.md").read_text("utf-8")
MODULE = (
    "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    .replace('"destination_schema": "shop"', '"destination_schema": "copies"')
    .replace("    objects=", '    options={"chunkBytes": "1", "maxChunksPerTrigger": "1"},\n    objects=')
)
_TABLES = ("orders", "lines")


def _assert_equal(pipeline: Pipeline, engine: StandIn) -> None:
    for table in _TABLES:
        found = engine.database.rows(f"SELECT id, name, amount FROM dbo.{table} ORDER BY id")
        rows = copied(pipeline, table)
        assert [(*row[:2], None if row[2] is None else str(row[2])) for row in rows] == found


def _fill(engine: StandIn) -> None:
    for table in _TABLES:
        engine.execute(
            f"CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, name nvarchar(50), amount decimal(9, 2))",
            f"INSERT INTO {table} VALUES " + ", ".join(f"({i}, N'row {i}', '{i}.25')" for i in range(1, 2101)),
        )


def test_an_ingestion_goes_on_after_a_kill_and_begins_again_after_a_gap(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Copies are equal at each quiet point, and the gap has a name and a way out."""
    engine = StandIn(tmp_path)
    _fill(engine)

    def die() -> None:
        raise SystemError

    arm("staging.after_files", nth=2, action=die)
    try:
        assert pipeline_of(interpreting, tmp_path, MODULE).run().state is not UpdateState.COMPLETED
    finally:
        disarm()
    engine.execute(
        "UPDATE orders SET amount = '0.30' WHERE id = 1",
        "DELETE FROM lines WHERE id = 2000",
        "UPDATE orders SET id = 9000, name = NULL WHERE id = 2",
        "INSERT INTO lines VALUES (9001, N'x', '1.00')",
    )
    pipeline = pipeline_of(interpreting, tmp_path, MODULE)
    assert pipeline.run().state is UpdateState.COMPLETED
    _assert_equal(pipeline, engine)
    (status,) = read_status(pipeline.storage, SystemClock().now())
    assert {each.state for each in status.tables} == {IngestedState.FOLLOWING}
    assert (status.gap, {each.lag_bytes for each in status.tables}) == (None, {0})
    assert (status.lost_at is not None, status.reach is None or status.reach.setting) == (
        True, "sp_cdc_change_job @retention",
    )  # fmt: skip

    engine.execute("DELETE FROM orders WHERE id = 3", "UPDATE lines SET name = NULL WHERE id = 4")
    engine.database.clean_up(engine.database.captured)
    assert failures(pipeline.run())["shop_changes"] == "DATABASE_POSITION_LOST.LOG_REMOVED"
    (status,) = read_status(pipeline.storage, SystemClock().now())
    assert status.gap == "DATABASE_POSITION_LOST.LOG_REMOVED"
    Operations(storage=pipeline.storage).replace_position(GatewayTables(gateways=pipeline.gateways).gateway("shop"))
    pipeline = pipeline_of(interpreting, tmp_path, MODULE)
    assert pipeline.run().state is UpdateState.COMPLETED
    _assert_equal(pipeline, engine)
