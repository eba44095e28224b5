"""Tables that are another one than before, or were out of the log for a while: refused, then read again exactly."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from framework.foundation.failpoints import arm_all, disarm
from framework.ingest.operations import GatewayTables, Operations
from tests.support.copied_tables import (
    after_definitions,
    all_at_source,
    all_copied,
    applied,
    at_source,
    create,
    failures,
    gaps,
    of_both_flows,
    pipeline_of,
    resync,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]


GONE = ("blue", "green", "made_again", "taken_out")
_REPLACED, _UNPUBLISHED = "INGESTION_TABLE_REPLACED", "INGESTION_TABLE_UNPUBLISHED"


def create_all(run: Run) -> None:
    """Create small tables, one of several chunks, and a partitioned one."""
    create(run, "blue", "green", "made_again", "renamed", "taken_out")
    create(run, "orders", rows=2000)
    create(run, "next_orders")
    run("INSERT INTO next_orders SELECT i, 'next_orders' FROM generate_series(100, 2000, 100) i")  # in each chunk
    run("CREATE TABLE sales (id INT PRIMARY KEY, name TEXT) PARTITION BY RANGE (id)")
    run("CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10)")
    run("CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM (10) TO (20)")
    run("INSERT INTO sales SELECT i, 's' FROM generate_series(1, 15) i")


def exchange_in_the_snapshot(run: Run, folder: Path) -> Callable[[], None]:
    """Return an action that exchanges `orders` for another table when some of its chunks are committed."""
    statements = ["ALTER TABLE orders RENAME TO next_old; ALTER TABLE next_orders RENAME TO orders"]

    def exchange() -> None:
        if [*folder.glob("storage/checkpoints/*orders/*snapshot_flow/*/commits/[0-9]*")]:
            with suppress(IndexError):  # flows end at the same time
                run(statements.pop())

    return exchange


def replace_tables(run: Run) -> None:
    """Exchange tables, make one again, rename one to and fro, take one out of the log, and truncate a partition."""
    run("ALTER TABLE blue RENAME TO next_one; ALTER TABLE green RENAME TO blue; ALTER TABLE next_one RENAME TO green")
    run("INSERT INTO blue VALUES (4, 'was green'); INSERT INTO green VALUES (5, 'was blue')")
    run("DROP TABLE made_again")
    create(run, "made_again", rows=2)
    run("ALTER PUBLICATION sluice_shop ADD TABLE made_again; INSERT INTO made_again VALUES (7, 'later')")
    run("ALTER TABLE renamed RENAME TO next_two; UPDATE next_two SET name = 'under another name' WHERE id = 1")
    run("ALTER TABLE next_two RENAME TO renamed; DELETE FROM renamed WHERE id = 2")
    run("ALTER PUBLICATION sluice_shop DROP TABLE taken_out; DELETE FROM taken_out WHERE id = 1")
    run("ALTER PUBLICATION sluice_shop ADD TABLE taken_out")
    # The flow of changes has added it, if it began after the exchange.
    if not run("SELECT 1 FROM pg_publication_tables WHERE pubname = 'sluice_shop' AND tablename = 'orders'"):
        run("ALTER PUBLICATION sluice_shop ADD TABLE orders")
    run("UPDATE orders SET name = 'y' WHERE id < 10; TRUNCATE sales_1; INSERT INTO sales VALUES (5, 't')")


def test_another_table_under_the_name_of_a_copied_one_is_never_continued(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Swapped, also in its snapshot, created again or taken out of the log: named, until it is read again.

    A table that has its name back, and the others, go on; no chunk and no change of another table is in a copy.
    """
    create_all(run)
    pipeline = pipeline_of(interpreting, folder)
    exchange = exchange_in_the_snapshot(run, folder)
    arm_all({("staging.after_commit", nth): exchange for nth in range(1, 20)})
    try:
        result = pipeline.run()
    finally:
        disarm()
    assert failures(result) == {"orders_snapshot_flow": "SNAPSHOT_TABLE_REPLACED"}
    before = all_copied(pipeline, *GONE)
    replace_tables(run)
    create(run, "skipped")
    pipeline = pipeline_of(interpreting, folder)
    Operations(storage=pipeline.storage).skip_snapshot(
        *GatewayTables(gateways=pipeline.gateways).table("public.skipped")
    )
    assert {*gaps(pipeline)} == {"public.blue", "public.green", "public.made_again", "public.orders"}
    assert failures(pipeline.run()) == of_both_flows(
        blue=_REPLACED, green=_REPLACED, made_again=_REPLACED, orders=_REPLACED, taken_out=_UNPUBLISHED,
        sales="INGESTION_PARTITIONS_CHANGED",
    )  # fmt: skip
    found = all_copied(pipeline, *GONE, "orders", "renamed")
    assert {table: found[table] for table in GONE} == before
    assert {name for _, name in found["orders"]} == {"orders"}
    assert found["renamed"] == at_source(run, "renamed")
    assert run("SELECT count(*) FROM pg_publication_tables WHERE tablename = 'skipped'") == [(1,)]
    assert gaps(pipeline) == {
        f"public.{table}": f"sluice ingest resync public.{table}" for table in (*GONE, "orders", "sales")
    }
    read_again(pipeline, run)
    assert all_copied(pipeline, "green", "taken_out", "skipped") == {
        "green": before["green"], "taken_out": before["taken_out"], "skipped": [(3, "changed")],
    }  # fmt: skip


def read_again(pipeline: Pipeline, run: Run) -> None:
    """Read all tables again but two, and follow their changes; the two stay as they are."""
    run("UPDATE skipped SET name = 'changed' WHERE id = 3; INSERT INTO blue VALUES (8, 'eight')")
    resync(pipeline, "blue", "made_again", "orders", "sales")
    # The snapshots have begun, and the log has all changes.
    with after_definitions(lambda: run("UPDATE blue SET name = 'last'; UPDATE made_again SET id = 9 WHERE id = 1")):
        result = pipeline.run()
    held = of_both_flows(green=_REPLACED, taken_out=_UNPUBLISHED)
    assert failures(result) == held
    assert applied(result) == {"blue", "made_again", "skipped"}
    run("CREATE TABLE sales_3 PARTITION OF sales FOR VALUES FROM (20) TO (30)")
    run("DELETE FROM orders WHERE id % 2 = 0; INSERT INTO sales VALUES (25, 'u')")
    assert failures(pipeline.run()) == held
    tables = ("blue", "made_again", "renamed", "orders", "sales")
    assert all_copied(pipeline, *tables) == all_at_source(run, *tables)
