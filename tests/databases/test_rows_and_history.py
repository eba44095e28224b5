"""One table of a database as its present rows and as its history, in one ingestion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.clock import SystemClock
from framework.foundation.errors import UserError
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.state import GatewayStore
from framework.ingest.status import read_status
from tests.databases.test_ingest_database import pipeline_of, rows_of, shop, table
from tests.support.copied_tables import failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
History = list[tuple[int, int, bool]]

ROWS, LATE = table("orders"), table("late")
HISTORY = table("orders", destination_table="order_history", table_configuration={"scd_type": "SCD_TYPE_2"})
LATE_HISTORY = table("late", destination_table="late_history", table_configuration={"scd_type": "SCD_TYPE_2"})


def history(pipeline: Pipeline, name: str) -> History:
    """Return the versions of a history: key, value, and whether it is the present one."""
    rows = rows_of(pipeline, f"copies.{name}", "id", "n", "__END_AT", "__START_AT")
    ordered = sorted(rows, key=lambda row: (row[0], [*row[3]]))
    return [(key, n, end is None) for key, n, end, _ in ordered]


def generations(pipeline: Pipeline) -> dict[str, int]:
    """Return how often each copy was read again, of those that are declared."""
    state = GatewayStore(pipeline.storage).read("shop")
    assert state is not None
    return {each.table.target.table: each.number for each in state.tables if each.is_declared}


def test_a_table_is_copied_as_its_rows_and_as_its_history(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """Each copy has a snapshot, a state and commands of its own; one stream has the changes of both, from one slot."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, n INT); CREATE TABLE late (id INT PRIMARY KEY, n INT)")
    run("INSERT INTO orders VALUES (1, 10), (2, 20), (3, 30); INSERT INTO late VALUES (1, 10), (2, 20)")
    pipeline = pipeline_of(interpreting, folder, shop(ROWS, HISTORY, LATE))
    assert failures(pipeline.run()) == {}
    run("UPDATE orders SET n = 11 WHERE id = 1; DELETE FROM orders WHERE id = 2; UPDATE late SET n = 11 WHERE id = 1")
    # In another order of the code, and paused: only the history waits.
    operations, tables = Operations(storage=pipeline.storage), GatewayTables(gateways=pipeline.gateways)
    operations.pause(*tables.table("order_history"))
    pipeline = pipeline_of(interpreting, folder, shop(HISTORY, ROWS, LATE))
    assert failures(pipeline.run()) == {}
    assert rows_of(pipeline, "copies.orders", "*") == [(1, 11), (3, 30)]
    assert history(pipeline, "order_history") == [(1, 10, True), (2, 20, True), (3, 30, True)]
    (status,) = read_status(pipeline.storage, SystemClock().now())
    states = {(each.source, each.target.table): each.state.value for each in status.tables}
    assert states == {
        ("public.orders", "orders"): "FOLLOWING", ("public.orders", "order_history"): "PAUSED",
        ("public.late", "late"): "FOLLOWING",
    }  # fmt: skip
    # The name of the source is that of two copies; one of them is read again. A history joins later.
    with pytest.raises(UserError) as raised:
        tables.table("public.orders")
    assert raised.value.condition == "INGESTION_TABLE_AMBIGUOUS"
    operations.resume(*tables.table("order_history"))
    operations.resync(*tables.table("main.copies.orders"), None)
    run("UPDATE orders SET n = 31 WHERE id = 3; UPDATE late SET n = 21 WHERE id = 2")
    pipeline = pipeline_of(interpreting, folder, shop(HISTORY, ROWS, LATE, LATE_HISTORY))
    assert failures(pipeline.run()) == {}
    assert rows_of(pipeline, "copies.orders", "*") == [(1, 11), (3, 31)]
    versions = [(1, 10, False), (1, 11, True), (2, 20, False), (3, 30, False), (3, 31, True)]
    assert history(pipeline, "order_history") == versions
    # The changes that were staged before it joined are older than its rows.
    assert history(pipeline, "late_history") == [(1, 11, True), (2, 21, True)]
    assert generations(pipeline) == {"orders": 1, "order_history": 0, "late": 0, "late_history": 1}
    # One copy leaves, and the other one goes on.
    run("UPDATE orders SET n = 12 WHERE id = 1; DELETE FROM late WHERE id = 1")
    pipeline = pipeline_of(interpreting, folder, shop(HISTORY, LATE_HISTORY, LATE))
    assert failures(pipeline.run()) == {}
    assert history(pipeline, "order_history") == [(1, 10, False), (1, 11, False), (1, 12, True), *versions[2:]]
    assert history(pipeline, "late_history") == [(1, 11, False), (2, 21, True)]
    assert rows_of(pipeline, "copies.late", "*") == [(2, 21)]
    assert generations(pipeline) == {"order_history": 0, "late": 0, "late_history": 1}
    assert run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(1,)]
