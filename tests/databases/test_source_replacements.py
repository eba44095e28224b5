"""Tables that are another one than before, or were out of the log for a while: refused, then read again exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from framework.foundation.clock import SystemClock
from framework.foundation.failpoints import arm, disarm
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.status import IngestedState, read_status
from framework.run.update.results import FlowState, UpdateResult, UpdateState
from tests.databases.test_columns_change import after_definitions, applied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[{"schema": {"source_schema": "public", "destination_schema": "copies", "exclude": ["next_*"]}}],
    options={"chunkBytes": "16k", "maxChunksPerTrigger": "1"},
)
"""


GONE = ("blue", "green", "made_again", "taken_out")


def pipeline_of(spark: SparkSession, folder: Path, module: str = _MODULE) -> Pipeline:
    """Return the pipeline, with the tables that the source has now."""
    (folder / "module.py").write_text(module, "utf-8")
    spec = {"name": "shop", "storage": str(folder / "storage"), "libraries": [{"file": {"path": "module.py"}}]}
    (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    return Pipeline.from_spec(folder / "pipeline.yml", spark=spark)


def create(run: Run, *tables: str, rows: int = 3) -> None:
    """Create tables whose rows have the name of the table."""
    for table in tables:
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, name TEXT)")
        run(f"INSERT INTO {table} SELECT i, '{table}' FROM generate_series(1, {rows}) i; ANALYZE {table}")


def copied(pipeline: Pipeline, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a copy."""
    return sorted(tuple(row) for row in pipeline.table(f"copies.{table}").collect())


def at_source(run: Run, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table at the source."""
    return run(f"SELECT * FROM {table} ORDER BY id")


def failures(result: UpdateResult) -> dict[str, str]:
    """Return the conditions of the failed flows."""
    failed = [flow for flow in result.flows if flow.state is FlowState.FAILED and flow.error is not None]
    return {flow.flow.table: flow.error.condition for flow in failed if flow.error is not None}


def of_both_flows(**conditions: str) -> dict[str, str]:
    """Return the conditions of the flows of tables."""
    return {f"{table}_{flow}_flow": each for table, each in conditions.items() for flow in ("snapshot", "cdc")}


def resync(pipeline: Pipeline, *tables: str) -> None:
    """Ask for another snapshot of tables."""
    for table in tables:
        named = GatewayTables(gateways=pipeline.gateways).table(f"public.{table}")
        Operations(storage=pipeline.storage).resync(*named, None)


def test_another_table_under_the_name_of_a_copied_one_is_never_continued(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Swapped, created again or taken out of the log: named; a table that has its name back, and the others, go on."""
    tables = ("blue", "green", "made_again", "renamed", "taken_out", "kept")
    create(run, *tables)
    pipeline = pipeline_of(interpreting, folder)
    assert pipeline.run().state is UpdateState.COMPLETED
    before = {table: copied(pipeline, table) for table in GONE}
    run("ALTER TABLE blue RENAME TO next_one; ALTER TABLE green RENAME TO blue; ALTER TABLE next_one RENAME TO green")
    run("INSERT INTO blue VALUES (4, 'was green'); INSERT INTO green VALUES (5, 'was blue')")
    run("DROP TABLE made_again")
    create(run, "made_again", rows=2)
    run("ALTER PUBLICATION sluice_shop ADD TABLE made_again; INSERT INTO made_again VALUES (7, 'later')")
    run("ALTER TABLE renamed RENAME TO next_two; UPDATE next_two SET name = 'under another name' WHERE id = 1")
    run("ALTER TABLE next_two RENAME TO renamed; DELETE FROM renamed WHERE id = 2")
    run("ALTER PUBLICATION sluice_shop DROP TABLE taken_out; DELETE FROM taken_out WHERE id = 1")
    run("ALTER PUBLICATION sluice_shop ADD TABLE taken_out; UPDATE kept SET name = 'changed'")
    create(run, "skipped")
    pipeline = pipeline_of(interpreting, folder)
    Operations(storage=pipeline.storage).skip_snapshot(
        *GatewayTables(gateways=pipeline.gateways).table("public.skipped")
    )

    (gateway,) = read_status(pipeline.storage, SystemClock().now())
    gaps = {each.source for each in gateway.tables if each.state is IngestedState.GAP}
    assert gaps == {"public.blue", "public.green", "public.made_again"}
    replaced, unpublished = "INGESTION_TABLE_REPLACED", "INGESTION_TABLE_UNPUBLISHED"
    conditions = of_both_flows(blue=replaced, green=replaced, made_again=replaced, taken_out=unpublished)
    assert failures(pipeline.run()) == conditions
    for table in GONE:
        assert copied(pipeline, table) == before[table]
    for table in ("renamed", "kept"):
        assert copied(pipeline, table) == at_source(run, table)
    assert run("SELECT count(*) FROM pg_publication_tables WHERE tablename = 'skipped'") == [(1,)]

    (gateway,) = read_status(pipeline.storage, SystemClock().now())
    ways = {each.source: each.way_out for each in gateway.tables if each.state is IngestedState.GAP}
    assert ways == {f"public.{table}": f"sluice ingest resync public.{table}" for table in GONE}
    run("UPDATE skipped SET name = 'changed' WHERE id = 3; INSERT INTO blue VALUES (8, 'eight')")
    resync(pipeline, "blue", "made_again")
    # The snapshots have begun, and the log has all changes.
    with after_definitions(lambda: run("UPDATE blue SET name = 'last'; UPDATE made_again SET id = 9 WHERE id = 1")):
        result = pipeline.run()
    assert failures(result) == of_both_flows(green=replaced, taken_out=unpublished)
    assert applied(result) == {"blue", "made_again", "skipped"}
    for table in ("blue", "made_again", "renamed", "kept"):
        assert copied(pipeline, table) == at_source(run, table), table
    for table in ("green", "taken_out"):
        assert copied(pipeline, table) == before[table]
    assert copied(pipeline, "skipped") == [(3, "changed")]


def test_a_table_that_is_swapped_while_its_snapshot_runs_is_not_mixed_with_the_other(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """No chunk and no change of the other table is in the copy before it is read again from its beginning."""
    create(run, "orders", "next_orders", rows=3000)
    create(run, "others")
    run("CREATE TABLE sales (id INT PRIMARY KEY, name TEXT) PARTITION BY RANGE (id)")
    run("CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10)")
    run("CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM (10) TO (20)")
    run("INSERT INTO sales SELECT i, 's' FROM generate_series(1, 15) i")
    swap = (
        "ALTER TABLE orders RENAME TO next_old; ALTER TABLE next_orders RENAME TO orders; UPDATE others SET name = 'x'"
    )
    pipeline = pipeline_of(interpreting, folder)

    def exchange() -> None:
        run(swap)

    arm("staging.after_commit", nth=4, action=exchange)  # the other tables have one batch each
    try:
        result = pipeline.run()
    finally:
        disarm()
    assert failures(result) == {"orders_snapshot_flow": "SNAPSHOT_TABLE_REPLACED"}
    # The flow of changes has added it, if it began after the exchange.
    if not run("SELECT 1 FROM pg_publication_tables WHERE pubname = 'sluice_shop' AND tablename = 'orders'"):
        run("ALTER PUBLICATION sluice_shop ADD TABLE orders")
    run("UPDATE orders SET name = 'y' WHERE id < 10")
    run("TRUNCATE sales_1; INSERT INTO sales VALUES (5, 't')")
    conditions = of_both_flows(orders="INGESTION_TABLE_REPLACED", sales="INGESTION_PARTITIONS_CHANGED")
    assert failures(pipeline.run()) == conditions
    assert copied(pipeline, "others") == at_source(run, "others")
    assert {name for _, name in copied(pipeline, "orders")} == {"orders"}
    resync(pipeline, "orders", "sales")
    assert pipeline.run().state is UpdateState.COMPLETED
    run("CREATE TABLE sales_3 PARTITION OF sales FOR VALUES FROM (20) TO (30)")
    run("DELETE FROM orders WHERE id % 2 = 0; INSERT INTO sales VALUES (25, 'u')")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert copied(pipeline, "orders") == at_source(run, "orders")
    assert copied(pipeline, "sales") == at_source(run, "sales")
