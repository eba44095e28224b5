"""`ingest_database` of a server that keeps nothing for a reader: snapshot, changes, resync, gap and new start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.clock import SystemClock
from framework.foundation.failpoints import arm, disarm
from framework.ingest.gateway_status import IngestedState
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.status import read_status
from framework.run.update.results import UpdateState
from tests.support.copied_tables import copied, failures, pipeline_of
from tests.support.mysql_programs import KNOWN, MYSQL
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GTIDS = {MYSQL: {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}}
_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[
        {"schema": {"source_schema": "shop", "destination_schema": "copies", "exclude": ["tmp_*", "history"]}},
        {"table": {
            "source_schema": "shop", "source_table": "history", "destination_schema": "copies",
            "table_configuration": {"scd_type": "SCD_TYPE_2"},
        }},
    ],
    options={"chunkBytes": "16k", "maxChunksPerTrigger": "1"},
)
"""
_TABLES = ("orders", "lines")


class Shop:
    """A source with tables of 3000 rows, and the pipeline that copies it."""

    def __init__(self, server: MysqlServer, spark: SparkSession, folder: Path) -> None:
        self.server, self._spark, self._folder = server, spark, folder
        self.run("CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", database=None)
        (folder / "connections.yml").write_text(f"bank: {server.uri('shop')}\n", "utf-8")
        rows = ", ".join(f"({n}, 'row {n}', {n}.25)" for n in range(1, 3001))
        for table in (*_TABLES, "tmp_orders"):
            self.run(f"CREATE TABLE `{table}` (id INT PRIMARY KEY, name VARCHAR(50), amount DECIMAL(10,2))")
            self.run(f"INSERT INTO `{table}` VALUES {rows}")
        self.run("CREATE TABLE history (id INT PRIMARY KEY, name VARCHAR(50))")
        self.run("INSERT INTO history VALUES (1, 'a'), (2, 'b')")

    def run(self, statement: str, *values: object, database: str | None = "shop") -> list[tuple[Any, ...]]:
        """Run a statement at the source."""
        return self.server.query(statement, *values, database=database)

    def pipeline(self) -> Pipeline:
        """Return the pipeline with the tables that the source has now."""
        return pipeline_of(self._spark, self._folder, _MODULE)

    def update(self) -> Pipeline:
        """Run an update that must complete, and compare the copies with the source."""
        pipeline = self.pipeline()
        result = pipeline.run()
        assert (result.state, failures(result)) == (UpdateState.COMPLETED, {})
        for table in _TABLES:
            assert copied(pipeline, table) == self.run(f"SELECT * FROM `{table}` ORDER BY id")
        return pipeline


@pytest.mark.parametrize("name", KNOWN)
def test_an_ingestion_from_snapshot_to_a_new_start(
    own_server: Callable[..., MysqlServer], interpreting: SparkSession, tmp_path: Path, name: str
) -> None:
    """A kill in the snapshot, changes meanwhile, keys that change, truncates, a resync, a purged log, a new start."""
    shop = Shop(own_server(name, _GTIDS.get(name)), interpreting, tmp_path)

    def die() -> None:
        raise SystemError

    arm("staging.after_files", nth=2, action=die)
    try:
        assert shop.pipeline().run().state is not UpdateState.COMPLETED
    finally:
        disarm()
    shop.run("UPDATE orders SET amount = 0.1 WHERE id = 1")
    shop.run("DELETE FROM `lines` WHERE id = 90")
    shop.update()

    shop.run("UPDATE orders SET id = 10000, name = NULL WHERE id = 2")
    shop.run("INSERT INTO `lines` VALUES (3001, 'é', NULL)")
    shop.run("UPDATE history SET name = 'c' WHERE id = 1")
    pipeline = shop.update()
    history = sorted((row[0], row[1]) for row in copied(pipeline, "history"))
    assert history == [(1, "a"), (1, "c"), (2, "b")]
    (status,) = read_status(pipeline.storage, SystemClock().now())
    assert {each.state for each in status.tables} == {IngestedState.FOLLOWING}
    assert (status.gap, {each.lag_bytes for each in status.tables}) == (None, {0})

    shop.run("TRUNCATE `lines`")
    shop.run("INSERT INTO `lines` VALUES (7, 'after', 1)")
    pipeline = shop.update()
    Operations(storage=pipeline.storage).resync(*GatewayTables(gateways=pipeline.gateways).table("shop.orders"), None)
    shop.run("DELETE FROM orders WHERE id = 3")
    pipeline = shop.update()

    shop.run("UPDATE orders SET name = 'lost' WHERE id = 4")
    shop.server.purge_log()
    assert failures(pipeline.run())["shop_changes"] == "DATABASE_POSITION_LOST.LOG_REMOVED"
    (status,) = read_status(pipeline.storage, SystemClock().now())
    assert status.gap == "DATABASE_POSITION_LOST.LOG_REMOVED"
    Operations(storage=pipeline.storage).replace_position(GatewayTables(gateways=pipeline.gateways).gateway("shop"))
    shop.update()
