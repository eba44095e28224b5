"""What happens to partitions without an entry in the log, and what is in the log and must not be taken for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log.lost_changes import Log, lost_changes, unread_log
from framework.sources.databases.postgres.log.position import StartPosition
from framework.sources.databases.postgres.log.seen_partitions import PartitionWatch, SeenPartitions
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import read_table
from framework.sources.databases.postgres.tables.partitions import Partitions, is_older, read_partitions
from framework.sources.databases.streams.spool import SpooledBatch
from framework.sources.databases.tables import TableName
from tests.support.postgres_log import PUBLICATION, position, query, reader, rows_of, set_server, slot_of

Run = Callable[..., list[tuple[Any, ...]]]
SALES = TableName(schema="public", table="sales")
CREATE = """
    CREATE TABLE sales (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id);
    CREATE TABLE p1 PARTITION OF sales FOR VALUES FROM (0) TO (100);
    CREATE TABLE p2 PARTITION OF sales FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (id);
    CREATE TABLE p2a PARTITION OF p2 FOR VALUES FROM (100) TO (150);
    CREATE TABLE p2b PARTITION OF p2 FOR VALUES FROM (150) TO (200);
    CREATE TABLE p0 PARTITION OF sales FOR VALUES FROM (-100) TO (0);
    INSERT INTO sales SELECT i, 0 FROM generate_series(0, 199) i
"""
_NEW = "CREATE TABLE p3 (id INT PRIMARY KEY, n INT)"
_ATTACH = "ALTER TABLE sales ATTACH PARTITION p3 FOR VALUES FROM (200) TO (300)"
_CREATE_P3 = "CREATE TABLE p3 PARTITION OF sales FOR VALUES FROM (200) TO (300)"
_FILL_P3, _FILL_P0 = "INSERT INTO p3 VALUES (250, 1)", "INSERT INTO p0 VALUES (-1, 1)"
_CREATE_P4 = (
    "CREATE TABLE p4 (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id);"
    "CREATE TABLE p4a PARTITION OF p4 FOR VALUES FROM (300) TO (350)"
)
_ATTACH_P4 = "ALTER TABLE sales ATTACH PARTITION p4 FOR VALUES FROM (300) TO (400)"
READ = "the log is read"
"""In place of a statement."""

IN_THE_LOG: dict[str, tuple[str, ...]] = {
    "a new partition of a savepoint": (f"BEGIN; SAVEPOINT here; {_CREATE_P3}; RELEASE here; {_FILL_P3}; COMMIT",),
    "rows": ("INSERT INTO sales VALUES (-0, 1) ON CONFLICT (id) DO UPDATE SET n = 1; DELETE FROM sales WHERE id = 5",),
    "a new partition": (f"{_CREATE_P3}; INSERT INTO p3 VALUES (250, 1)",),
    "an empty table": (f"{_NEW}; {_ATTACH}",),
    "a table that is filled later": (f"{_NEW}", f"{_ATTACH}", "INSERT INTO sales VALUES (250, 1)"),
    "another place": ("VACUUM FULL p2a", "CLUSTER p1 USING p1_pkey"),
    "partitions of a partition that are filled later": (_CREATE_P4, _ATTACH_P4, "INSERT INTO sales VALUES (300, 1)"),
    "a truncated table": ("TRUNCATE sales", "INSERT INTO sales VALUES (7, 7)"),
    "a rewritten table": ("ALTER TABLE sales ALTER COLUMN n TYPE BIGINT",),
    "another name": ("ALTER TABLE p1 RENAME TO first",),
    "a truncated table in a savepoint": (
        "BEGIN; SAVEPOINT here; TRUNCATE sales; COMMIT",
        "INSERT INTO p1 VALUES (7, 7)",
    ),
    "a truncated table whose log is read": ("TRUNCATE sales", READ, "INSERT INTO sales VALUES (7, 7)"),
    "a truncated table with a new partition": (_CREATE_P3, _FILL_P3, READ, _FILL_P0, "TRUNCATE sales", _FILL_P3),
    "a new partition that was empty": (_CREATE_P3, "TRUNCATE p3", READ, _FILL_P3, READ, "VACUUM FULL p3"),
    "a new partition, truncated and filled": (_CREATE_P3, READ, f"TRUNCATE p3; {_FILL_P3}"),
    "an empty partition": ("VACUUM FULL p0", "TRUNCATE p0", _FILL_P0, READ, "INSERT INTO p0 VALUES (-2, 1)"),
}
ATTACHED, DETACHED = "public.p3 was attached with its rows", "public.{} was detached or dropped"
EMPTIED = ("public.p1, public.p2a, public.p2b was truncated", (READ, "TRUNCATE p1, p2a, p2b, p0", READ))
LOST: tuple[tuple[str, tuple[str, ...]], ...] = (
    (ATTACHED, (_NEW, "INSERT INTO p3 VALUES (250, 1)", _ATTACH)),
    (ATTACHED, (f"{_NEW}; INSERT INTO p3 VALUES (250, 1); {_ATTACH}",)),
    (ATTACHED.replace("p3", "p4a"), (_CREATE_P4, "INSERT INTO p4 VALUES (300, 1)", _ATTACH_P4)),
    (DETACHED.format("p1"), ("ALTER TABLE sales DETACH PARTITION p1",)),
    (DETACHED.format("p2b"), ("DROP TABLE p2b",)),
    (
        f"{DETACHED.format('p1')}; {ATTACHED}; public.p2a was truncated",
        ("ALTER TABLE sales DETACH PARTITION p1", _NEW, _FILL_P3, _ATTACH, "TRUNCATE p2a"),
    ),
    ("public.p2a was truncated", ("TRUNCATE p2a", "INSERT INTO sales VALUES (120, 1)")),
    ("public.p1, public.p2a was truncated", ("TRUNCATE p1", "TRUNCATE p2a")),
    ("public.p1, public.p2a, public.p2b was truncated", ("TRUNCATE p1, p2", "INSERT INTO sales VALUES (7, 7)")),
    EMPTIED,
    ("public.p0 was truncated", (_FILL_P0, "TRUNCATE p0")),
    ("public.p0 was truncated", (_FILL_P0, READ, "TRUNCATE p0", _FILL_P0)),
    ("public.p3 was truncated", (_CREATE_P3, _FILL_P3, "TRUNCATE p3")),
    ("public.p3 was truncated", (f"{_CREATE_P3}; {_FILL_P3}", READ, "TRUNCATE p3", _FILL_P3, READ)),
    (DETACHED.format("p3"), (_CREATE_P3, _FILL_P3, READ, "DROP TABLE p3")),
    (DETACHED.format("p0"), (_FILL_P0, READ, "DROP TABLE p0")),
    (DETACHED.format("p3"), (_CREATE_P3, READ, _FILL_P3, READ, "ALTER TABLE sales DETACH PARTITION p3", READ)),
    (
        DETACHED.format("p2"),
        (
            "ALTER TABLE sales DETACH PARTITION p2",
            "DELETE FROM p2a WHERE id = 101",
            "ALTER TABLE sales ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200)",
        ),
    ),
)


class Source:
    """The table at the source, and what its stream of changes has read."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._uri, self._folder = uri, folder
        with Session(Connection(name="bank", uri=uri)) as session:
            self.relation = int(read_table(session, SALES).identity)
            self._before = Partitions.from_json(read_partitions(session, self.relation).to_json())
        filled = {int(oid) for oid in self._before.files} - {*self._before.empty}
        self._watch = PartitionWatch([self.relation], filled)
        self._read: SpooledBatch | None = None
        self.seen = SeenPartitions()

    def read(self, start: StartPosition) -> list[dict[str, Any]]:
        """Return the rows of the log from where it was read to, in a stream of its own, and acknowledge them."""
        log = reader(self._uri, start, self._folder, watch=self._watch, keeps_unreadable=True)
        batch = log.read_transactions(start.lsn if self._read is None else self._read.end)
        rows = rows_of(batch)
        log.acknowledge(batch.end)
        log.release()
        log.close()
        self._read = batch
        self.seen = SeenPartitions.from_value(json.loads(json.dumps(self.seen.then(batch.seen).to_value())))
        return rows

    def lost(self, uri: str | None = None) -> str | None:
        """Return what the log does not have, as the next update finds it."""
        with Session(Connection(name="bank", uri=uri or self._uri)) as session:
            log = Log(seen=self.seen, unread=lambda table: unread_log(session, slot_of(self._uri), PUBLICATION, table))
            return lost_changes(session, SALES, self.relation, self._before, log)


def change_of(run: Run, database: str, folder: Path, statements: tuple[str, ...]) -> str | None:
    """Return what the statements do to the partitions without an entry in the log."""
    start, source = position(database, "sales"), Source(database, folder / "spool")
    for statement in statements:
        if statement is READ:
            assert "UNREADABLE" not in {row["operation"] for row in source.read(start)}
        else:
            run(statement)
    return source.lost()


@pytest.mark.parametrize("name", IN_THE_LOG)
def test_what_the_log_has_or_needs_not_is_no_loss(database: str, run: Run, tmp_path: Path, name: str) -> None:
    """Rows, new and empty partitions, rewritten ones, and a TRUNCATE of the partitioned table."""
    run(CREATE)
    assert change_of(run, database, tmp_path, IN_THE_LOG[name]) is None


def test_a_table_that_is_truncated_and_loaded_again_needs_no_temporary_file(
    database: str, run: Run, tmp_path: Path
) -> None:
    """The log that is not read yet has all of its rows; the server must not write them to its disk once more."""
    run(CREATE)
    position(database, "sales")
    source = Source(database, tmp_path / "spool")
    run("TRUNCATE sales")
    run("INSERT INTO sales SELECT i, 1 FROM generate_series(0, 199) i")
    for _ in range(20):
        run("UPDATE sales SET n = n + 1")
    assert source.lost(f"{database}?options=-c%20temp_file_limit%3D64%20-c%20work_mem%3D64") is None


@pytest.mark.parametrize(("change", "statements"), LOST)
def test_rows_that_come_or_go_with_a_partition_are_noticed(
    database: str, run: Run, tmp_path: Path, change: str, statements: tuple[str, ...]
) -> None:
    """ATTACH, DETACH, DROP and TRUNCATE of a partition are not in the log, also when it has its place back."""
    run(CREATE)
    assert change_of(run, database, tmp_path, statements) == change


def test_rows_of_a_partition_that_is_gone_before_the_log_is_read_are_unreadable(
    database: str, run: Run, tmp_path: Path
) -> None:
    """Made, filled and dropped or detached: the catalog never had it. Other new partitions and tables are readable."""
    run(CREATE)
    run("CREATE TABLE other (id INT PRIMARY KEY)")
    start, source = position(database, "sales", "other"), Source(database, tmp_path)
    run(_CREATE_P3)
    run("INSERT INTO sales VALUES (250, 1); TRUNCATE sales, other; INSERT INTO other VALUES (1)")
    run(f"ALTER TABLE sales DETACH PARTITION p3; {_NEW.replace('p3', 'p4')}")
    run("CREATE TABLE p5 PARTITION OF sales FOR VALUES FROM (500) TO (600) PARTITION BY RANGE (id)")
    run("CREATE TABLE p5a PARTITION OF p5 FOR VALUES FROM (500) TO (550)")
    run("INSERT INTO sales VALUES (500, 5); UPDATE sales SET id = 7 WHERE id = 500; DROP TABLE p5")
    run(f"{_CREATE_P3.replace('p3', 'p6')}; INSERT INTO sales VALUES (251, 6), (8, 6)")
    rows = [(row["operation"], row["payload"]) for row in source.read(start)]
    assert [operation for operation, _ in rows] == [
        "INSERT", "TRUNCATE", "TRUNCATE", "INSERT", "UNREADABLE",
        "INSERT", "DELETE", "INSERT", "UNREADABLE", "INSERT", "INSERT",
    ]  # fmt: skip
    assert [f"partition public.{name}" in str(rows[at][1]) for name, at in (("p3", 4), ("p5a", 8))] == [True, True]
    assert source.lost() == "public.p3, public.p5a was detached or dropped"


def test_a_partition_is_looked_for_when_the_commit_that_made_it_is_visible(tmp_path: Path) -> None:
    """A commit that waits for a standby is in the log, but not visible: its partition is not taken for gone."""
    with PostgresServer() as server, ThreadPoolExecutor(2) as threads:
        uri = server.uri()
        query(uri, CREATE)
        start, source = position(uri, "sales"), Source(uri, tmp_path)
        set_server(uri, "synchronous_standby_names", "nobody")
        writing = threads.submit(query, uri, f"{_CREATE_P3}; {_FILL_P3}")
        while not query(uri, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            with pytest.raises(TimeoutError):
                writing.result(0.01)
        reading = threads.submit(source.read, start)
        with pytest.raises(TimeoutError):
            reading.result(1)
        set_server(uri, "synchronous_standby_names", "")
        assert [row["operation"] for row in reading.result(30)] == ["INSERT"]
        assert source.lost() is None


def test_a_slot_that_is_read_by_another_process_is_named(database: str, run: Run, tmp_path: Path) -> None:
    """Whether the log has a TRUNCATE of the table is then unknown."""
    run(CREATE)
    start, source = position(database, "sales"), Source(database, tmp_path / "own")
    log = reader(database, start, tmp_path / "other")
    log.read_transactions(start.lsn)
    run("TRUNCATE sales")
    with pytest.raises(SourceError) as caught:
        source.lost()
    assert caught.value.condition == "DATABASE_SLOT_IN_USE"
    log.release()
    log.close()
    assert source.lost() is None


def test_a_role_that_may_not_read_the_partitions_reads_through_their_table(
    database: str, run: Run, tmp_path: Path
) -> None:
    """Rights on the partitioned table are enough."""
    run(CREATE)
    role = f"reader_{database.rpartition('/')[2].partition('?')[0]}"
    run(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON sales TO {role}")
    own = database.replace("postgres@", f"{role}@", 1)
    assert own != database
    try:
        source = Source(own, tmp_path)
        for statement in ("VACUUM FULL p1", *LOST[0][1]):
            assert source.lost() is None
            run(statement)
        assert source.lost() == ATTACHED
    finally:
        run(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.parametrize(
    ("ids_ago", "is_before"), [(1, False), (5, True), (10**9, True), (3 * 10**9, True), ((1 << 32) - 10, True)]
)
def test_the_age_of_a_row_does_not_wrap(database: str, ids_ago: int, *, is_before: bool) -> None:
    """A row of more than 2^31 transactions ago has a negative age."""
    ((current,),) = query(database, "SELECT pg_current_xact_id()::text::bigint")
    row = (current - ids_ago) % (1 << 32)
    older = is_older(f"'{current - 3}'::xid")
    assert query(database, f"SELECT {older} FROM (SELECT '{row}'::xid AS xmin) AS t") == [(is_before,)]
