"""Partitions whose changes are not in the log, or have the name of their table: their copies are held, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.ingest.tables.copies import Copy, CopyFinder, FailedCopy
from framework.run.update.results import UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.preflight import check
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.membership import read_membership
from framework.sources.databases.tables import TableName
from tests.databases.test_rights_and_publications import statement_of
from tests.support.copied_tables import (
    all_at_source,
    all_copied,
    at_source,
    copied,
    failures,
    of_both_flows,
    pipeline_of,
    resync,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_FILTERED = "DATABASE_PUBLICATION_FILTERED"
_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[
        {"schema": {"source_schema": "public", "destination_schema": "copies", "exclude": ["parts"]}},
        {"table": {"source_schema": "public", "source_table": "parts_1", "destination_schema": "copies"}},
    ],
)
"""
_NEW_PARTITION = "CREATE TABLE {0}_3 PARTITION OF {0} FOR VALUES FROM (20) TO (30)"
_OWN = "it has a row filter or a list of columns of its own"
_BELOW = "changes of this partition have the name of public.{}, which is published, too. Copy only one of both"
_ABOVE = "changes of its partition public.{} have the name of the partition, which is published by itself"

# What is published, and whether by the partitioned table, with the tables of which rows or columns are missing. The
# table `t` has a generated column; `r` has the partitions `r1`, and `r2` with `r2a`.
PUBLISHED: tuple[tuple[str, bool, dict[str, tuple[str, str]]], ...] = (
    ("t, r", True, {}),
    ("t, r", False, {}),
    ("t (id, a)", True, {}),
    ("t (id)", True, {"t": (_OWN, "t")}),
    ("t WHERE (id > 5)", True, {"t": (_OWN, "t")}),
    ("r WHERE (id > 5)", True, {"r": (_OWN, "r")}),
    ("r1 WHERE (id > 5)", True, {"r1": (_OWN, "r1")}),
    ("r1, r2a", True, {}),
    ("r, r1", True, {"r1": (_BELOW.format("r"), "r")}),
    ("r, r1", False, {"r": (_ABOVE.format("r1"), "r1")}),
    ("r, r1 WHERE (id > 5)", True, {"r1": (_BELOW.format("r"), "r")}),
    ("r, r1 WHERE (id > 5)", False, {"r": (_ABOVE.format("r1"), "r1"), "r1": (_OWN, "r1")}),
    ("r, r2", True, {"r2": (_BELOW.format("r"), "r")}),
    ("r2, r2a", True, {"r2a": (_BELOW.format("r2"), "r2")}),
    ("r, r2a", False, {"r": (_ABOVE.format("r2a"), "r2a")}),
)


@pytest.mark.parametrize(("published", "via_root", "expected"), PUBLISHED)
def test_what_a_publication_leaves_out_of_a_table_is_known(
    database: str, run: Run, published: str, *, via_root: bool, expected: dict[str, tuple[str, str]]
) -> None:
    """With the reason, and with the statement after which it sends everything."""
    run("CREATE TABLE t (id INT PRIMARY KEY, a INT, twice INT GENERATED ALWAYS AS (a * 2) STORED)")
    run("CREATE TABLE r (id INT PRIMARY KEY) PARTITION BY RANGE (id)")
    run("CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10)")
    run("CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)")
    run("CREATE TABLE r2a PARTITION OF r2 FOR VALUES FROM (10) TO (15)")
    run(f"CREATE PUBLICATION p FOR TABLE {published} WITH (publish_via_partition_root = {via_root})")
    with Session(Connection(name="bank", uri=database)) as session:
        partly = read_membership(session, "s", "p").partly
        assert {name.table: each.reason for name, each in partly.items()} == {
            table: reason for table, (reason, _) in expected.items()
        }
        for name, (reason, cause) in expected.items():
            table = TableName(schema="public", table=name)
            found = [each for each in check(session, [table], slot="s", publication="p") if each.condition == _FILTERED]
            # Of a partitioned table, preflight has the option of the publication in its place.
            assert [reason in each.what for each in found] == ([] if name == "r" and not via_root else [True])
            assert partly[table].statement.startswith(f'ALTER PUBLICATION "p" DROP TABLE ONLY "public"."{cause}"')
        while partly:
            run(partly[min(partly)].statement)
            partly = read_membership(session, "s", "p").partly


def let_partitions_come_and_go(pipeline: Pipeline, run: Run, swap: pytest.MonkeyPatch) -> None:
    """Have partitions that the catalog does not show at any update, and truncates that the log may not have.

    The first update also reads `parts_1` again.
    """
    found, late = CopyFinder.find, [f"{_NEW_PARTITION.format('areas')}; INSERT INTO areas VALUES (25, 'late')"]

    def find(finder: CopyFinder, folder: Path) -> tuple[Copy | FailedCopy, ...]:
        copies = found(finder, folder)
        while late:
            run(late.pop())
        return copies

    # A partition is made after the catalog was read, and filled before the log is.
    swap.setattr(CopyFinder, "find", find)
    run("DELETE FROM sales WHERE id = 6; TRUNCATE units; INSERT INTO units VALUES (1, 'one'), (11, 'eleven')")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert all_copied(pipeline, "areas", "units") == all_at_source(run, "areas", "units")
    run(f"DROP TABLE areas_3; {_NEW_PARTITION.format('sales')}; INSERT INTO sales VALUES (26, 'gone')")
    run("DROP TABLE sales_3; TRUNCATE units_1, units_2")
    run("INSERT INTO parts VALUES (4, 'seen'), (16, 'not copied')")
    result, partitions = pipeline.run(), "INGESTION_PARTITIONS_CHANGED"
    unreadable = {"sales_cdc_flow": "INGESTION_CHANGE_UNREADABLE"}
    assert failures(result) == {**of_both_flows(areas=partitions, units=partitions), **unreadable}
    resync(pipeline, "areas", "sales", "units")
    assert pipeline.run().state is UpdateState.COMPLETED


def test_partitions_whose_changes_are_not_in_the_log_by_their_name_or_not_at_all_are_named(
    interpreting: SparkSession, folder: Path, run: Run, swap: pytest.MonkeyPatch
) -> None:
    """A partition beside its table, one that comes and goes, and truncates: held, and read again exactly."""
    for table in ("sales", "parts", "areas", "units"):
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, name TEXT) PARTITION BY RANGE (id)")
        run(f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES FROM (0) TO (10)")
        run(f"CREATE TABLE {table}_2 PARTITION OF {table} FOR VALUES FROM (10) TO (20)")
        run(f"INSERT INTO {table} SELECT i, 's' FROM generate_series(1, 15, 2) i")
    pipeline = pipeline_of(interpreting, folder, _MODULE)
    assert pipeline.run().state is UpdateState.COMPLETED
    run("ALTER PUBLICATION sluice_shop SET (publish_via_partition_root = false)")
    run("ALTER PUBLICATION sluice_shop ADD TABLE sales_1 WHERE (id > 5)")
    run("INSERT INTO sales VALUES (2, 'filtered'), (6, 'by its own name'), (12, 'seen'); UPDATE units SET name = 'x'")
    result = pipeline_of(interpreting, folder, _MODULE).run()
    # Beside the gap of all tables, which ends with the option.
    assert failures(result).items() >= of_both_flows(sales=_FILTERED).items()
    run(statement_of(result, "sales_cdc_flow"))
    run("ALTER PUBLICATION sluice_shop SET (publish_via_partition_root = true)")
    run("ALTER PUBLICATION sluice_shop ADD TABLE parts")
    run("INSERT INTO parts VALUES (2, 'by the name of the table'); UPDATE units SET name = 'y'")
    pipeline = pipeline_of(interpreting, folder, _MODULE)
    resync(pipeline, "sales")
    result = pipeline.run()
    assert failures(result) == of_both_flows(parts_1=_FILTERED)
    assert copied(pipeline, "units") == at_source(run, "units")
    run(statement_of(result, "parts_1_cdc_flow"))
    pipeline = pipeline_of(interpreting, folder, _MODULE)
    resync(pipeline, "parts_1")
    let_partitions_come_and_go(pipeline, run, swap)
    tables = ("sales", "areas", "units", "parts_1")
    assert all_copied(pipeline, *tables) == all_at_source(run, *tables)
