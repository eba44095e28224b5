"""Snapshots of MySQL and MariaDB by the stream `database_snapshot`: concurrent writers, kills, failures of chunks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pymysql
import pytest
from pyarrow.fs import LocalFileSystem

from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import chunks_between
from framework.sources.databases.formats import snapshot_request
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.table_copy import SourceTableCopy
from framework.sources.databases.mysql.tables.key_lookup import missing_keys
from framework.sources.databases.streams.snapshot_stream import SnapshotStreamReader
from tests.support.mysql_changes import log_of
from tests.support.mysql_servers import MysqlServer, new_database
from tests.support.mysql_snapshots import SnapshotWorld
from tests.support.seeds import fresh_seed

_WRITERS = 4
_STABLE = 3000
_SEED = fresh_seed()


@pytest.fixture
def world(mysql_server: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch) -> SnapshotWorld:
    """A table with even keys, which nobody touches; writers have the odd ones."""
    monkeypatch.setenv("SLUICE_CONNECTION_SOURCE", database)
    made = SnapshotWorld(mysql_server, database)
    rows = ", ".join(f"({2 * number}, 'row {number}')" for number in range(_STABLE))
    made.run("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR(50))", f"INSERT INTO t VALUES {rows}", "ANALYZE TABLE t")
    return made


def _reader(world: SnapshotWorld, **options: str) -> SnapshotStreamReader:
    """A reader as a process has it that started now."""
    given = {"connection": "source", "table": str(world.name), "chunkBytes": "16k", "maxChunksPerTrigger": "1"}
    request = snapshot_request({**given, **options})
    return SnapshotStreamReader(request, tuple(each.name for each in request.describe()[1]))


def _rows(reader: SnapshotStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    parts = reader.partitions(start, end)
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def _offsets(world: SnapshotWorld, **options: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Plan all micro-batches, each by a new reader."""
    start = _reader(world, **options).initialOffset()
    while True:
        reader = _reader(world, **options)
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            return
        # As Spark stores it.
        yield start, json.loads(json.dumps(end))
        start = json.loads(json.dumps(end))


@contextmanager
def _writers(world: SnapshotWorld) -> Iterator[None]:
    """Insert, update, move and delete rows with odd keys in 4 connections."""
    stop = threading.Event()

    def write(number: int) -> None:
        drawn = Random(_SEED + number)  # noqa: S311 - choices of a test
        with world.server.connect(world.database) as opened, opened.cursor() as cursor:
            while not stop.is_set():
                key = 2 * drawn.randrange(_STABLE) + 1
                cursor.execute(
                    drawn.choice(
                        (
                            f"REPLACE INTO t VALUES ({key}, 'written')",
                            f"DELETE FROM t WHERE k = {key}",
                            f"UPDATE IGNORE t SET k = {2 * drawn.randrange(_STABLE) + 1} WHERE k = {key}",
                        )
                    )
                )

    threads = [threading.Thread(target=write, args=(number,)) for number in range(_WRITERS)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in threads:
            each.join()


def test_rows_that_nobody_touches_are_read_once_beside_writers(world: SnapshotWorld) -> None:
    """Whatever is inserted, moved and deleted between them while chunks are planned and read."""
    found: list[dict[str, Any]] = []
    batches = 0
    with _writers(world):
        for start, end in _offsets(world):
            found += _rows(_reader(world), start, end)
            batches += 1
    stable = sorted((row["k"], row["v"]) for row in found if row["k"] % 2 == 0)
    assert [(2 * number, f"row {number}") for number in range(_STABLE)] == stable, _SEED
    assert batches > 2


def test_a_killed_snapshot_reads_the_chunks_of_its_batch_again(world: SnapshotWorld) -> None:
    """Each step is a new process; a batch has the same ranges again, and those before it are not read."""
    offsets = list(_offsets(world))
    start, end = offsets[1]
    world.run("INSERT INTO t VALUES (-1, 'below'), (1000001, 'above')")
    first = _rows(_reader(world), start, end)
    assert first == _rows(_reader(world), start, end)
    everything = [row for each in offsets for row in _rows(_reader(world), *each)]
    assert len(everything) == _STABLE + 2
    assert len(first) < _STABLE / 2


def test_a_chunk_whose_connection_is_cut_fails_and_leaves_no_file(world: SnapshotWorld, tmp_path: Path) -> None:
    """The next attempt reads the whole chunk; no half of it is taken for the whole."""
    world.run("ALTER TABLE t MODIFY v LONGTEXT", "UPDATE t SET v = REPEAT('x', 4000)", "ANALYZE TABLE t")
    plan = SnapshotWorld(world.server, world.uri, options={"least_rows": 10**6}).plan(None)
    (chunk,) = chunks_between(None, plan)
    stop = threading.Event()

    def cut() -> None:
        with world.server.connect() as opened, opened.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT `k` AS c0%'")
                for (number,) in cursor.fetchall():
                    with suppress(pymysql.Error):  # it has ended by now
                        cursor.execute(f"KILL CONNECTION {number}")

    thread = threading.Thread(target=cut)
    thread.start()
    reader = world.reader(plan)

    def read() -> None:
        for _ in range(50):
            reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
            for file in tmp_path.iterdir():
                file.unlink()

    try:
        with pytest.raises(SourceError, match=r"DATABASE_(UNREACHABLE|BUSY)"):
            read()
    finally:
        stop.set()
        thread.join()
    assert list(tmp_path.iterdir()) == []
    written = reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert (_STABLE, _STABLE) == (written.rows, pq.read_table(written.path).num_rows)


def test_a_chunk_that_is_locked_fails_with_a_named_error(world: SnapshotWorld) -> None:
    """It does not wait for hours for a lock on its table."""
    plan = world.plan(None)
    reader = world.reader(plan, lock_seconds=1)
    with world.server.connect(world.database) as opened, opened.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        with pytest.raises(SourceError, match="DATABASE_BUSY"):
            list(reader.batches(chunks_between(None, plan)[0]))


def test_keys_that_are_missing(world: SnapshotWorld) -> None:
    """Texts as Spark writes them, of each kind of key; texts that the collation takes as equal are different keys."""
    world.run(
        "CREATE TABLE keys_of (a VARCHAR(9) CHARACTER SET latin1, b BIGINT UNSIGNED, c VARBINARY(4), d DATETIME(6), "
        "e TIMESTAMP(3) NULL, f FLOAT, g DATE, n DECIMAL(9,2), PRIMARY KEY (a, b, c, d, g, n, f))",
        "INSERT INTO keys_of VALUES ('é', 18446744073709551615, X'00ff', '2024-01-31 10:00:00.5', "
        "'2024-01-31 10:00:00.25', 0.1, '2024-01-31', 1.5)",
    )
    present = ["é", "18446744073709551615", "\\x00FF", "2024-01-31 10:00:00.5", "2024-01-31 10:00:00.25+00", "0.1"]
    present += ["2024-01-31", "1.50"]
    columns = ["a", "b", "c", "d", "e", "f", "g", "n"]
    others = ["É", "1", "\\x00", "2024-01-31 10:00:00.6", "2024-01-31 10:00:01+00", "0.2", "2024-02-01", "1.51"]
    keys = [present, *([*present[:place], other, *present[place + 1 :]] for place, other in enumerate(others))]
    with Session(world.connection) as session:
        table = SnapshotWorld(world.server, world.uri, table="keys_of").describe().source
        assert [*range(1, 9)] == missing_keys(session, table, columns, keys)
        assert [] == missing_keys(session, table, columns, [present] * 450)
        assert [0] == missing_keys(session, table, ["a"], [["é "], ["é"]])


def test_a_whole_table_is_read_at_one_position(world: SnapshotWorld, tmp_path: Path) -> None:
    """In one transaction, whatever is written meanwhile; the sum of all rows never changes."""
    world.run(
        "CREATE TABLE accounts (id INT PRIMARY KEY, n INT)",
        "INSERT INTO accounts VALUES " + ", ".join(f"({number}, 100)" for number in range(500)),
    )
    stop = threading.Event()

    def transfer() -> None:
        drawn = Random(_SEED)  # noqa: S311 - choices of a test
        with world.server.connect(world.database, autocommit=False) as opened, opened.cursor() as cursor:
            while not stop.is_set():
                first, second = drawn.sample(range(500), 2)
                cursor.execute(f"UPDATE accounts SET n = n - 1 WHERE id = {first}")
                cursor.execute(f"UPDATE accounts SET n = n + 1 WHERE id = {second}")
                opened.commit()

    thread = threading.Thread(target=transfer)
    thread.start()
    try:
        copy = SourceTableCopy.of(world.connection, SnapshotWorld(world.server, world.uri, table="accounts").name)
        for _ in range(5):
            read = copy.fetch(tmp_path)
            assert read.shows_copy
            assert 50_000 == sum(pq.read_table(read.path).column("c1").to_pylist())
    finally:
        stop.set()
        thread.join()


def test_each_reason_for_doubt_about_a_difference_is_named(world: SnapshotWorld, tmp_path: Path) -> None:
    """Changes in the log after the position of the copy, and tables that it does not follow; other changes are none."""
    for table in ("items", "others"):
        world.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(20))")
    log = log_of(world.server, [f"{world.database}.items"], tmp_path / "spool")
    stored = log.start()

    def doubt(table: str = "items") -> str | None:
        copy = SourceTableCopy.of(world.connection, SnapshotWorld(world.server, world.uri, table=table).name)
        read = copy.fetch(tmp_path)
        assert (
            pq.read_table(read.path).num_rows
            == world.server.query(f"SELECT count(*) FROM {world.database}.{table}")[0][0]
        )
        return copy.doubt(read, stored)

    assert doubt() is None
    world.run("INSERT INTO others VALUES (1, 'x')")
    assert doubt() is None
    assert doubt("others") == f"The flow of the copy does not read the changes of {world.database}.others."
    world.run("INSERT INTO items VALUES (1, 'x'), (2, 'y')", "UPDATE items SET name = 'z' WHERE id = 1")
    assert "the log has 3 changes of the table between them" in str(doubt())
    _, stored = log.read_transactions(stored, None)
    log.close()
    assert doubt() is None
    world.run("TRUNCATE items")
    assert "the log has 1 changes of the table" in str(doubt())


@pytest.mark.parametrize("reader", ["fast", "slow"])
def test_a_text_that_is_none_in_unicode_is_an_error_with_its_column(mariadb: MysqlServer, reader: str) -> None:
    """MariaDB stores half of a surrogate pair; both readers name it, as the log does."""
    with new_database(mariadb) as uri:
        world = SnapshotWorld(mariadb, uri, table="halves")
        world.run("CREATE TABLE halves (id INT PRIMARY KEY, a VARCHAR(9), u VARCHAR(9) CHARACTER SET ucs2)")
        world.run("INSERT INTO halves VALUES (1, 'x', 'y'), (2, 'x', _ucs2 X'D800')")
        with pytest.raises(SourceError) as caught:
            world.snapshot(is_fast=reader == "fast")
    assert caught.value.condition == "DATABASE_VALUE_NOT_REPRESENTABLE"
    assert (caught.value.fields["column"], caught.value.fields["value"]) == ("u", r"\xed\xa0\x80")
