"""What happens to partitions without an entry in the log, and what is in the log and must not be taken for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.catalog import read_table
from framework.sources.databases.postgres.partitions import Partitions, lost_changes, read_partitions
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.tables import TableName

Run = Callable[..., list[tuple[Any, ...]]]
SALES = TableName(schema="public", table="sales")
_CREATE = """
    CREATE TABLE sales (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id);
    CREATE TABLE p1 PARTITION OF sales FOR VALUES FROM (0) TO (100);
    CREATE TABLE p2 PARTITION OF sales FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id);
    CREATE TABLE p2a PARTITION OF p2 FOR VALUES FROM (100) TO (150);
    CREATE TABLE p2b PARTITION OF p2 FOR VALUES FROM (150) TO (200);
    INSERT INTO sales SELECT i, 0 FROM generate_series(0, 199) i
"""
_NEW = "CREATE TABLE p3 (id INT PRIMARY KEY, n INT)"
_ATTACH = "ALTER TABLE sales ATTACH PARTITION p3 FOR VALUES FROM (200) TO (300)"
_CREATE_P3 = "CREATE TABLE p3 PARTITION OF sales FOR VALUES FROM (200) TO (300)"

IN_THE_LOG: dict[str, tuple[str, ...]] = {
    "rows": ("INSERT INTO sales VALUES (-0, 1) ON CONFLICT (id) DO UPDATE SET n = 1; DELETE FROM sales WHERE id = 5",),
    "a new partition": (f"{_CREATE_P3}; INSERT INTO p3 VALUES (250, 1)",),
    "an empty table": (f"{_NEW}; {_ATTACH}",),
    "a table that is filled later": (f"{_NEW}", f"{_ATTACH}", "INSERT INTO sales VALUES (250, 1)"),
    "another place": ("VACUUM FULL p2a", "CLUSTER p1 USING p1_pkey"),
    "a truncated table": ("TRUNCATE sales", "INSERT INTO sales VALUES (7, 7)"),
    "a rewritten table": ("ALTER TABLE sales ALTER COLUMN n TYPE BIGINT",),
    "another name": ("ALTER TABLE p1 RENAME TO first",),
}
ATTACHED, DETACHED = "public.p3 was attached with its rows", "public.{} was detached or dropped"
LOST: tuple[tuple[str, tuple[str, ...]], ...] = (
    (ATTACHED, (_NEW, "INSERT INTO p3 VALUES (250, 1)", _ATTACH)),
    (ATTACHED, (f"{_NEW}; INSERT INTO p3 VALUES (250, 1); {_ATTACH}",)),
    (DETACHED.format("p1"), ("ALTER TABLE sales DETACH PARTITION p1",)),
    (DETACHED.format("p2b"), ("DROP TABLE p2b",)),
    ("public.p2a was truncated", ("TRUNCATE p2a", "INSERT INTO sales VALUES (120, 1)")),
    ("public.p1, public.p2a was truncated", ("TRUNCATE p1", "TRUNCATE p2a")),
    (
        DETACHED.format("p2"),
        (
            "ALTER TABLE sales DETACH PARTITION p2",
            "DELETE FROM p2a WHERE id = 101",
            "ALTER TABLE sales ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200)",
        ),
    ),
)


def change_of(run: Run, database: str, statements: tuple[str, ...]) -> str | None:
    """Return what the statements do to the partitions without an entry in the log."""
    with Session(Connection(name="bank", uri=database)) as session:
        relation = read_table(session, SALES).relation
        before = Partitions.from_json(read_partitions(session, relation).to_json())
        for statement in statements:
            run(statement)
        return lost_changes(session, SALES, relation, before)


@pytest.mark.parametrize("name", IN_THE_LOG)
def test_what_the_log_has_or_needs_not_is_no_loss(database: str, run: Run, name: str) -> None:
    """Rows, new and empty partitions, rewritten ones, and a TRUNCATE of the partitioned table."""
    run(_CREATE)
    assert change_of(run, database, IN_THE_LOG[name]) is None


@pytest.mark.parametrize(("change", "statements"), LOST)
def test_rows_that_come_or_go_with_a_partition_are_noticed(
    database: str, run: Run, change: str, statements: tuple[str, ...]
) -> None:
    """ATTACH, DETACH, DROP and TRUNCATE of a partition are not in the log, also when it has its place back."""
    run(_CREATE)
    assert change_of(run, database, statements) == change


def test_a_role_that_may_not_read_the_partitions_reads_through_their_table(database: str, run: Run) -> None:
    """Rights on the partitioned table are enough."""
    run(_CREATE)
    role = f"reader_{database.rpartition('/')[2].partition('?')[0]}"
    run(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON sales TO {role}")
    own = database.replace("postgres@", f"{role}@", 1)
    assert own != database
    try:
        assert change_of(run, own, LOST[0][1]) == ATTACHED
        assert change_of(run, own, ("VACUUM FULL p1",)) is None
    finally:
        run(f"DROP OWNED BY {role}; DROP ROLE {role}")
