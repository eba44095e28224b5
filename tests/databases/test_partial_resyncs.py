"""Snapshots of some rows of a table: refused if the condition is invalid, and never the end of a gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from framework import Pipeline
from framework.cli.main import cli
from framework.ingest.state import GatewayStore, Request
from tests.support.copied_tables import (
    all_at_source,
    all_copied,
    at_source,
    copied,
    create,
    failures,
    gaps,
    of_both_flows,
    pipeline_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_TABLES = ("orders", "later", "waiting")


def resync(folder: Path, *words: str) -> str:
    """Run `sluice ingest resync`; return the condition of its error, or the first sentence of its answer."""
    called = CliRunner().invoke(cli, ["ingest", "resync", *words, "--spec", str(folder / "pipeline.yml")])
    if called.exit_code:
        assert called.stdout == ""
        return called.stderr.partition("[")[2].partition("]")[0]
    return called.stdout.partition(". ")[0]


def requests(pipeline: Pipeline) -> dict[str, Request]:
    """Return what is asked for."""
    return GatewayStore(pipeline.storage).table_requests("shop")


def test_conditions_are_checked_before_anything_is_asked_for_and_end_no_gap(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """An invalid condition is refused; a table that was out of the publication is held until all rows are read again.

    Also if it was taken out after the request, which then waits.
    """
    create(run, *_TABLES)
    run("CREATE TABLE sales (id INT PRIMARY KEY, name TEXT) PARTITION BY RANGE (id)")
    run("CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10); INSERT INTO sales VALUES (1, 's')")
    pipeline = pipeline_of(interpreting, folder)
    assert failures(pipeline.run()) == {}
    for invalid in ("((", "nosuch = 1", "id", "true) OR (true", ""):
        assert resync(folder, "public.orders", "--where", invalid) == "SNAPSHOT_ROW_FILTER_INVALID"
    assert requests(pipeline) == {}

    for table in ("later", "waiting", "sales"):
        assert resync(folder, table, "--where", "id = 1") == f"public.{table} is read again"
    assert resync(folder, "later", "--where", "id = 3 -- third") == "public.later is read again"
    assert resync(folder, "waiting") == "public.waiting is read again"
    assert resync(folder, "waiting", "--where", "id = 1") == "All rows of public.waiting are read again"
    run("ALTER PUBLICATION sluice_shop DROP TABLE orders, later; UPDATE orders SET name = 'unseen' WHERE id < 3")
    run("UPDATE later SET name = 'unseen'; ALTER PUBLICATION sluice_shop ADD TABLE orders, later")
    run("CREATE TABLE sales_2 (id INT PRIMARY KEY, name TEXT); INSERT INTO sales_2 VALUES (12, 't')")
    run("ALTER TABLE sales DETACH PARTITION sales_1")
    run("ALTER TABLE sales ATTACH PARTITION sales_2 FOR VALUES FROM (10) TO (20)")
    unpublished, partitions = "INGESTION_TABLE_UNPUBLISHED", "INGESTION_PARTITIONS_CHANGED"
    for _ in range(2):  # it stays
        held = failures(pipeline_of(interpreting, folder).run())
        assert held == of_both_flows(orders=unpublished, later=unpublished, sales=partitions)
        assert gaps(pipeline) == {
            f"public.{table}": f"sluice ingest resync public.{table}" for table in ("orders", "later", "sales")
        }
    assert resync(folder, "orders", "--where", "id = 1") == "INGESTION_RESYNC_NEEDS_ALL_ROWS"
    assert copied(pipeline, "waiting") == at_source(run, "waiting")
    # A partition that comes before the command, but after the error, is not among those of the error.
    run("CREATE TABLE sales_3 (id INT PRIMARY KEY, name TEXT); INSERT INTO sales_3 VALUES (22, 'u')")
    run("ALTER TABLE sales ATTACH PARTITION sales_3 FOR VALUES FROM (20) TO (30)")
    # The error has named the first two, so a condition can select their rows. For Spark, "id" would be a text.
    assert resync(folder, "sales", "--where", '"id" = 1 OR id = 12') == "public.sales is read again"
    for table in ("orders", "later"):
        assert resync(folder, table) == f"public.{table} is read again"
    assert failures(pipeline_of(interpreting, folder).run()) == of_both_flows(sales=partitions)
    assert resync(folder, "sales", "--where", "id = 22") == "public.sales is read again"
    assert failures(pipeline_of(interpreting, folder).run()) == {}
    assert gaps(pipeline) == {}
    tables = (*_TABLES, "sales")
    assert all_copied(pipeline, *tables) == all_at_source(run, *tables)
