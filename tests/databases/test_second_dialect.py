"""An ingestion of a database that is polled: snapshot, changes, resume and gap, by the engine that PostgreSQL has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.clock import SystemClock
from framework.foundation.errors import SluiceError
from framework.foundation.failpoints import arm, disarm
from framework.ingest.gateway_status import IngestedState
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.state import GatewayStore
from framework.ingest.status import read_status
from framework.recovery.doctor.diagnoses import diagnosis_of
from framework.recovery.doctor.diagnosis import Way
from framework.run.update.results import UpdateState
from framework.views.ingestion import status_head
from tests.databases.test_dialects import LedgerFile
from tests.support.copied_tables import copied, failures, pipeline_of
from tests.support.ledger.facts import HELD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[{"schema": {"source_schema": "main", "destination_schema": "copies"}}],
    options={"chunkBytes": "20", "maxChunksPerTrigger": "2"},
)
"""


def _at_source(ledger: LedgerFile, table: str) -> list[tuple[Any, ...]]:
    return ledger.read(f"SELECT id, name, amount, CAST(done AS BOOLEAN) FROM {table} ORDER BY id")


def _assert_equal(pipeline: Pipeline, ledger: LedgerFile) -> None:
    for table in ("orders", "lines"):
        expected = [(*row[:3], None if row[3] is None else bool(row[3])) for row in _at_source(ledger, table)]
        assert copied(pipeline, table) == expected


def _assert_a_gap_of_its_own(pipeline: Pipeline, ledger: LedgerFile) -> None:
    """The dialect says what its condition means, and which statement ends it."""
    ledger.execute("INSERT INTO ledger_holds VALUES ('an audit')", "UPDATE lines SET amount = 0.5 WHERE id = 5")
    result = pipeline.run()
    assert failures(result)["shop_changes"] == HELD
    (status,) = read_status(pipeline.storage, SystemClock().now())
    assert (status.gap, status.way_out, status.is_lost) == (HELD, "DELETE FROM ledger_holds", False)
    assert "nothing is lost, `DELETE FROM ledger_holds` ends it" in status_head(status)
    found = diagnosis_of(HELD)
    assert (found.name, found.ways) == ("LEDGER_HELD", (Way.FOLLOW,))
    ledger.execute(str(status.way_out))
    assert pipeline.run().state is UpdateState.COMPLETED
    _assert_equal(pipeline, ledger)


def _assert_a_pause_of_the_log(pipeline: Pipeline, ledger: LedgerFile) -> None:
    """A table that was without triggers has another continuity: a gap of this table alone, which a resync ends."""
    before = _continuity(pipeline)
    triggers = ledger.read("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'orders'")
    ledger.execute(
        *(f'DROP TRIGGER "{name}"' for name, _ in triggers), "UPDATE orders SET amount = 7 WHERE id = 7",
        *(sql for _, sql in triggers), "UPDATE ledger_members SET number = number + 10 WHERE name = 'orders'",
    )  # fmt: skip
    assert set(failures(pipeline.run()).values()) == {"INGESTION_TABLE_UNPUBLISHED"}
    (status,) = read_status(pipeline.storage, SystemClock().now())
    states = {each.source: (each.state, each.way_out) for each in status.tables}
    assert states == {
        "main.orders": (IngestedState.GAP, "sluice ingest resync main.orders"),
        "main.lines": (IngestedState.FOLLOWING, None),
    }
    assert _continuity(pipeline) == before
    tables = GatewayTables(gateways=pipeline.gateways)
    Operations(storage=pipeline.storage).resync(*tables.table("main.orders"), None)
    assert pipeline.run().state is UpdateState.COMPLETED
    _assert_equal(pipeline, ledger)
    after = _continuity(pipeline)
    assert {table for table in before if before[table] != after[table]} == {"main.orders"}


def _continuity(pipeline: Pipeline) -> dict[str, str]:
    state = GatewayStore(pipeline.storage).read("shop")
    assert state is not None
    return {each.table.source: each.continuity for each in state.tables}


def test_the_whole_path_of_an_ingestion_needs_neither_slot_nor_acknowledgement(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """A kill in the snapshot, changes meanwhile, changes of keys, a log that was cleaned up, and a new start."""
    ledger = LedgerFile(tmp_path)
    for table in ("orders", "lines"):
        ledger.execute(
            f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, amount REAL, done BOOLEAN)",
            f"INSERT INTO {table} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90) "
            "SELECT i, 'row ' || i, i / 3.0, i % 2 FROM n",
        )

    def die() -> None:
        raise SystemError

    arm("staging.after_files", nth=2, action=die)
    try:
        assert pipeline_of(interpreting, tmp_path, MODULE).run().state is not UpdateState.COMPLETED
    finally:
        disarm()
    ledger.execute("UPDATE orders SET amount = 0.1 + 0.2 WHERE id = 1", "DELETE FROM lines WHERE id = 90")
    pipeline = pipeline_of(interpreting, tmp_path, MODULE)
    assert pipeline.run().state is UpdateState.COMPLETED
    _assert_equal(pipeline, ledger)

    ledger.execute("UPDATE orders SET id = 1000, name = NULL WHERE id = 2", "INSERT INTO lines VALUES (91, 'x', 1, 1)")
    assert pipeline.run().state is UpdateState.COMPLETED
    _assert_equal(pipeline, ledger)
    (status,) = read_status(pipeline.storage, SystemClock().now())
    assert {each.state for each in status.tables} == {IngestedState.FOLLOWING}
    assert (status.gap, {each.lag_bytes for each in status.tables}) == (None, {0})
    assert status_head(status).startswith("shop, staged up to change ")
    with pytest.raises(SluiceError, match="RECONCILE_DATABASE_NOT_COMPARED"):
        pipeline.reconcile("database:bank/main.orders", "copies.orders")

    _assert_a_gap_of_its_own(pipeline, ledger)
    _assert_a_pause_of_the_log(pipeline, ledger)
    ledger.execute("DELETE FROM orders WHERE id = 3", "UPDATE lines SET done = NULL WHERE id = 4")
    ledger.execute("DELETE FROM ledger_changes")
    assert failures(pipeline.run())["shop_changes"] == "DATABASE_POSITION_LOST.LOG_REMOVED"
    (status,) = read_status(pipeline.storage, SystemClock().now())
    assert status.gap == "DATABASE_POSITION_LOST.LOG_REMOVED"
    assert {each.state for each in status.tables} == {IngestedState.GAP}
    Operations(storage=pipeline.storage).replace_position(GatewayTables(gateways=pipeline.gateways).gateway("shop"))
    pipeline = pipeline_of(interpreting, tmp_path, MODULE)
    assert pipeline.run().state is UpdateState.COMPLETED
    _assert_equal(pipeline, ledger)
