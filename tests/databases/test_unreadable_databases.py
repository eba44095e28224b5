"""A schema that is gone, and a database that can't be reached: what is known stays known, and everything else runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.errors import OperationError, SourceError
from framework.plan.steps import KeepStored
from framework.run.update.results import FlowState, UpdateState
from tests.support.copied_tables import copied, failures, of_both_flows, pipeline_of
from tests.support.engine_world import states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[
        {"schema": {"source_schema": "public", "destination_schema": "copies"}},
        {"schema": {"source_schema": "depot", "destination_schema": "depot"}},
    ],
)


@dp.table
def total():
    return spark.read.table("depot.parts").selectExpr("count(*) AS n")


@dp.table
def sound():
    return spark.range(3)
"""
_NO_SERVER = "postgresql://postgres@127.0.0.1:1/none"


def test_only_what_can_not_be_read_of_a_database_fails(
    interpreting: SparkSession, folder: Path, run: Run, database: str
) -> None:
    """The tables of a renamed schema fail, then all copies of a stopped server; afterwards each row is there once.

    Before the first update nothing is known of the tables, and their readers wait for the database.
    """
    for table in ("orders", "depot.parts"):
        run("CREATE SCHEMA IF NOT EXISTS depot")
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT); INSERT INTO {table} VALUES (1, 1), (2, 2)")
    connections = folder / "connections.yml"
    connections.write_text(f"bank: {_NO_SERVER}\n", "utf-8")
    first = pipeline_of(interpreting, folder, _MODULE).run()
    unknown = {"shop_changes": FlowState.FAILED, "total": FlowState.SKIPPED}
    assert states(first) == {**unknown, "sound": FlowState.COMPLETED}
    connections.write_text(f"bank: {database}\n", "utf-8")
    pipeline = pipeline_of(interpreting, folder, _MODULE)
    assert pipeline.run().state is UpdateState.COMPLETED

    run("ALTER SCHEMA depot RENAME TO moved")
    run("INSERT INTO orders VALUES (3, 3); INSERT INTO moved.parts VALUES (3, 3); DELETE FROM moved.parts WHERE id = 1")
    result = pipeline.run()
    assert failures(result) == of_both_flows(parts="DATABASE_SCHEMA_MISSING")
    assert (states(result)["total"], states(result)["sound"]) == (FlowState.SKIPPED, FlowState.IDLE)
    assert copied(pipeline, "orders") == [(1, 1), (2, 2), (3, 3)]
    depot = folder / "storage/tables/main/depot/parts"
    assert sorted(map(tuple, interpreting.read.format("delta").load(str(depot)).select("id", "n").collect())) == [
        (1, 1), (2, 2)
    ]  # fmt: skip
    _assert_nothing_is_left(pipeline)

    connections.write_text(f"bank: {_NO_SERVER}\n", "utf-8")
    state = folder / "storage/ingest/shop/gateway.json"
    before = state.read_bytes()
    _assert_cut_off(pipeline_of(interpreting, folder, _MODULE))
    assert state.read_bytes() == before

    connections.write_text(f"bank: {database}\n", "utf-8")
    run("ALTER SCHEMA moved RENAME TO depot; INSERT INTO orders VALUES (4, 4); INSERT INTO depot.parts VALUES (4, 4)")
    pipeline = pipeline_of(interpreting, folder, _MODULE)
    for _ in range(2):  # the second one applies what the snapshot of the first one may leave
        assert pipeline.run().state is UpdateState.COMPLETED
    assert copied(pipeline, "orders") == run("SELECT * FROM orders ORDER BY id")
    parts = interpreting.read.format("delta").load(str(depot)).select("id", "n").collect()
    assert sorted(map(tuple, parts)) == run("SELECT * FROM depot.parts ORDER BY id") == [(2, 2), (3, 3), (4, 4)]


def _assert_cut_off(cut: Pipeline) -> None:
    """All copies of a database that can't be reached fail with the cause, and are readable and known."""
    assert [each.condition for each in cut.validate().faults] == ["DATABASE_UNREACHABLE"]
    result = cut.run()
    of_changes = {"shop_changes": "DATABASE_UNREACHABLE"}
    both = of_both_flows(orders="DATABASE_UNREACHABLE", parts="DATABASE_UNREACHABLE")
    assert failures(result) == of_changes | both
    assert (states(result)["total"], states(result)["sound"]) == (FlowState.SKIPPED, FlowState.IDLE)
    _assert_nothing_is_left(cut)
    (finding,) = cut.doctor.examine().findings
    assert (finding.condition, finding.diagnosis.name) == ("DATABASE_UNREACHABLE", "CONNECTION_LOST")
    assert "orders_cdc_flow" in finding.evidence[-1]
    assert cut.sql("SELECT id FROM copies.orders").count() == cut.table("copies.orders").count() == 3
    with pytest.raises(SourceError, match="DATABASE_UNREACHABLE"):
        _ = cut.gateways  # `sluice ingest` has to ask the database


def _assert_nothing_is_left(pipeline: Pipeline) -> None:
    """No table counts as one that nobody declares, and nothing is pruned."""
    assert [step for step in pipeline.plan().steps if isinstance(step, KeepStored)] == []
    with pytest.raises(OperationError, match="PRUNE_SOURCES_UNREAD"):
        pipeline.left_tables()
