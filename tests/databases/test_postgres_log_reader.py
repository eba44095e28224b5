"""The reader of PostgreSQL's log delivers whole transactions, once per position, and acknowledges nothing itself."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import InternalError, SourceError
from framework.sources.databases.postgres.log.changes import RowKey
from framework.sources.databases.postgres.lsn import format_lsn, parse_lsn
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.spool import SpooledBatch, SpoolLimits
from tests.support.postgres_log import brief, execute, name, position, query, reader, rows_of, slot_of

_TABLE = "public.t"


def _confirmed(uri: str) -> int:
    [(lsn,)] = query(uri, f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot_of(uri)}'")
    return parse_lsn(lsn)


def _wait_confirmed(uri: str, lsn: int) -> None:
    deadline = time.monotonic() + 10
    while _confirmed(uri) < lsn:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_operation_becomes_rows_in_the_order_of_the_log(database: str, tmp_path: Path) -> None:
    """A key update is a deletion and an insertion, a deletion has the key, a truncation has no payload."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, name text, ok boolean)")
    start = position(database, "t")
    execute(
        database,
        "INSERT INTO t VALUES (1, 'a\"b', true), (2, NULL, false)",
        "UPDATE t SET name = 'c' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "TRUNCATE t",
    )
    log = reader(database, start, tmp_path / "spool")
    batch = log.read_transactions(start.lsn)
    log.close()
    assert [
        (_TABLE, "INSERT", {"id": 1, "name": 'a"b', "ok": True}),
        (_TABLE, "INSERT", {"id": 2, "name": None, "ok": False}),
        (_TABLE, "UPDATE", {"id": 1, "name": "c", "ok": True}),
        (_TABLE, "DELETE", {"id": 2}),
        (_TABLE, "INSERT", {"id": 3, "name": None, "ok": False}),
        (_TABLE, "DELETE", {"id": 3}),
        (_TABLE, "TRUNCATE", None),
    ] == brief(batch)
    assert [0, 1, 0, 0, 1, 0, 0] == [row["ordinal"] for row in rows_of(batch)]
    assert batch.caught_up
    assert 5 == batch.transactions


def test_transactions_come_whole_in_the_order_of_their_commits(database: str, tmp_path: Path) -> None:
    """Interleaved transactions are separated, and what was rolled back is not delivered."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    first, second, third = (psycopg2.connect(database) for _ in range(3))
    first.cursor().execute("INSERT INTO t VALUES (1)")
    second.cursor().execute("INSERT INTO t VALUES (10); SAVEPOINT s; INSERT INTO t VALUES (11); ROLLBACK TO s")
    third.cursor().execute("INSERT INTO t VALUES (20)")
    first.cursor().execute("INSERT INTO t VALUES (2)")
    second.commit()
    third.rollback()
    first.commit()
    log = reader(database, start, tmp_path / "spool")
    batch = log.read_transactions(start.lsn)
    log.close()
    assert [10, 1, 2] == [row["id"] for _, _, row in brief(batch)]
    assert [0, 0, 1] == [row["ordinal"] for row in rows_of(batch)]
    for connection in (first, second, third):
        connection.close()


def test_a_limit_ends_a_batch_at_the_end_of_a_transaction(database: str, tmp_path: Path) -> None:
    """A transaction larger than the limit is one batch; the next batch starts where it ended."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    execute(database, *(f"INSERT INTO t SELECT generate_series({n * 100}, {n * 100 + 49})" for n in range(5)))
    log = reader(database, start, tmp_path / "spool", limits=SpoolLimits(group_rows=7, file_rows=20))
    ends, sizes, ids = [start.lsn], [], []
    for limit in (1, 60, 1000):
        batch = log.read_transactions(ends[-1], ReadLimit(rows=limit))
        ends.append(batch.end)
        sizes.append(batch.rows)
        ids += [row["id"] for _, _, row in brief(batch)]
        assert batch.rows == sum(file.rows for file in batch.files) == batch.rows_by_table[_TABLE]
    log.close()
    assert [50, 100, 100] == sizes
    assert [n * 100 + offset for n in range(5) for offset in range(50)] == ids


def test_a_range_is_read_again_with_the_same_rows(database: str, tmp_path: Path) -> None:
    """A new reader delivers the rows of earlier batches with the same positions, ordinals and schema versions."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, name text)")
    start = position(database, "t")
    log = reader(database, start, tmp_path / "one")
    batches: list[SpooledBatch] = []
    for n in range(4):
        execute(database, f"INSERT INTO t SELECT i, 'x' FROM generate_series({n * 10}, {n * 10 + 3}) AS i")
        batches.append(log.read_transactions(batches[-1].end if batches else start.lsn))
        if n == 1:
            execute(database, "ALTER TABLE t ADD COLUMN more int")
    expected = [rows_of(batch) for batch in batches]
    log.close()
    execute(database, "INSERT INTO t VALUES (1000)")
    again = reader(database, start, tmp_path / "two")
    for batch, rows in zip(batches, expected, strict=True):
        repeated = again.read_range(batch.start, batch.end)
        assert rows == rows_of(repeated)
        assert (batch.start, batch.end) == (repeated.start, repeated.end)
    whole = again.read_range(start.lsn, batches[-1].end)
    again.close()
    assert [row for rows in expected for row in rows] == rows_of(whole)


def test_nothing_is_acknowledged_but_what_the_caller_acknowledges(database: str, tmp_path: Path) -> None:
    """Keepalives and their replies do not move the slot, also after a transaction that began before the acknowledged
    position.
    """  # noqa: D205 - one long promise
    execute(
        database,
        "CREATE TABLE t (id int PRIMARY KEY)",
        f"ALTER DATABASE {database.rpartition('/')[2]} SET wal_sender_timeout = '2s'",
    )
    start = position(database, "t")
    log = reader(database, start, tmp_path / "spool")
    empty = log.read_transactions(start.lsn)
    open_before = psycopg2.connect(database)
    open_before.cursor().execute("INSERT INTO t VALUES (1)")
    execute(database, "INSERT INTO t VALUES (2)")
    first = log.read_transactions(empty.end)
    log.acknowledge(first.end)
    _wait_confirmed(database, first.end)
    execute(database, "INSERT INTO t VALUES (3)")
    open_before.commit()
    second = log.read_transactions(first.end)
    assert [3, 1] == [row["id"] for _, _, row in brief(second)]
    execute(database, "CREATE TABLE other AS SELECT generate_series(1, 1000)")
    log.read_transactions(second.end)
    time.sleep(3)  # the server requests replies meanwhile
    log.read_transactions(second.end)
    assert first.end == _confirmed(database)
    log.close()
    open_before.close()
    assert first.end == _confirmed(database)


@pytest.mark.parametrize("live", [True, False])
def test_an_acknowledgement_loses_no_transaction_after_it(database: str, tmp_path: Path, live: bool) -> None:  # noqa: FBT001 - a parameter
    """Acknowledged at each end of a transaction, the slot still sends exactly the ones after it."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    execute(database, *(f"INSERT INTO t VALUES ({n})" for n in range(30)))
    end = start.lsn
    log = reader(database, start, tmp_path / "spool")
    for n in range(30):
        batch = log.read_transactions(end, ReadLimit(rows=1))
        assert [n] == [row["id"] for _, _, row in brief(batch)]
        end = batch.end
        if not live:
            log.close()
        log.acknowledge(end)
        _wait_confirmed(database, end)
        assert end == _confirmed(database)
        if n % 5 == 0:
            log.close()
    log.close()
    assert [] == list((tmp_path / "spool").iterdir())


def test_more_than_was_delivered_is_not_acknowledged(database: str, tmp_path: Path) -> None:
    """An acknowledgement past the delivered position is a bug, and moves nothing."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    log = reader(database, start, tmp_path / "spool")
    batch = log.read_transactions(start.lsn)
    with pytest.raises(InternalError) as caught:
        log.acknowledge(batch.end + 1_000_000)
    assert "POSTGRES_LOG_OUT_OF_ORDER" == caught.value.condition
    assert _confirmed(database) == start.lsn


def test_a_slow_caller_keeps_its_connection(database: str, tmp_path: Path) -> None:
    """The server gets feedback while nobody reads, also with messages left unread."""
    execute(
        database,
        "CREATE TABLE t (id int PRIMARY KEY)",
        f"ALTER DATABASE {database.rpartition('/')[2]} SET wal_sender_timeout = '2s'",
    )
    start = position(database, "t")
    execute(database, "INSERT INTO t VALUES (0)", "INSERT INTO t SELECT generate_series(1, 300000)")
    log = reader(database, start, tmp_path / "spool")
    first = log.read_transactions(start.lsn, ReadLimit(rows=1))
    pid = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot_of(database)}'"
    before = query(database, pid)
    time.sleep(5)
    second = log.read_transactions(first.end)
    assert 300_000 == second.rows
    assert before == query(database, pid)
    log.close()


def test_a_lost_connection_is_transient_and_the_rows_come_again(database: str, tmp_path: Path) -> None:
    """After the server ended the connection, the same call gives the same rows."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    log = reader(database, start, tmp_path / "spool")
    first = log.read_transactions(start.lsn)
    execute(database, "INSERT INTO t VALUES (1)")
    execute(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    with pytest.raises(SourceError) as caught:
        log.read_transactions(first.end)
    assert "DATABASE_UNREACHABLE" == caught.value.condition
    assert [(_TABLE, "INSERT", {"id": 1})] == brief(log.read_transactions(first.end))
    log.close()


def test_idle_tables_do_not_hold_the_log_of_the_server(database: str, tmp_path: Path) -> None:
    """Changes of other tables move the end of a batch without rows, and its acknowledgement frees the log."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int)")
    start = position(database, "t")
    log = reader(database, start, tmp_path / "spool")
    first = log.read_transactions(start.lsn)
    execute(database, "INSERT INTO other SELECT generate_series(1, 10000)")
    second = log.read_transactions(first.end)
    assert (0, True) == (second.rows, second.caught_up)
    assert second.end > first.end + 100_000
    log.acknowledge(second.end)
    _wait_confirmed(database, second.end)
    execute(database, "INSERT INTO t VALUES (1)")
    assert [(_TABLE, "INSERT", {"id": 1})] == brief(log.read_transactions(second.end))
    log.close()


def test_an_open_transaction_does_not_stop_a_read(database: str, tmp_path: Path) -> None:
    """The flush position may lie within a record of an open transaction; the read still ends."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, big text)")
    start = position(database, "t")
    log = reader(database, start, tmp_path / "spool")
    connection = psycopg2.connect(database)
    end = start.lsn
    for n in range(5):
        connection.cursor().execute(
            f"INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series({n * 100}, {n * 100 + 70}) AS i"
        )
        began = time.monotonic()
        batch = log.read_transactions(end)
        assert (0, True) == (batch.rows, batch.caught_up)
        assert time.monotonic() - began < 10
        end = batch.end
    connection.commit()
    assert 355 == log.read_transactions(end).rows
    log.close()
    connection.close()


def test_values_have_one_text_whatever_the_database_is_set_to(database: str, tmp_path: Path) -> None:
    """Settings of the database do not change the text of values in the log."""
    own = database.rpartition("/")[2]
    execute(
        database,
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, f float8, b bytea, i interval)",
        f"ALTER DATABASE {own} SET DateStyle = 'SQL, DMY'",
        f"ALTER DATABASE {own} SET TimeZone = 'Asia/Tokyo'",
        f"ALTER DATABASE {own} SET extra_float_digits = '-5'",
        f"ALTER DATABASE {own} SET bytea_output = 'escape'",
        f"ALTER DATABASE {own} SET IntervalStyle = 'iso_8601'",
    )
    start = position(database, "t")
    execute(database, "INSERT INTO t VALUES (1, '2024-02-03 04:05:06.7+00', 0.1::float8 + 0.2, 'ab', '1 day 2 hours')")
    log = reader(database, start, tmp_path / "spool")
    [row] = rows_of(log.read_transactions(start.lsn))
    log.close()
    values = json.loads(row["payload"])
    assert values.pop("at").startswith("2024-02-03T04:05:06.7")
    assert {"id": 1, "f": 0.30000000000000004, "b": "YWI=", "i": "1 day 02:00:00"} == values


def test_a_slot_that_another_process_reads_is_a_named_fault(database: str, tmp_path: Path) -> None:
    """The fault has the server process that holds the slot."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    holder = reader(database, start, tmp_path / "one")
    holder.read_transactions(start.lsn)
    other = reader(database, start, tmp_path / "two")
    other._slot_wait_seconds = 0.3
    [(pid,)] = query(database, f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot_of(database)}'")
    with pytest.raises(SourceError) as caught:
        other.read_transactions(start.lsn)
    assert ("DATABASE_SLOT_IN_USE", pid) == (caught.value.condition, caught.value.fields["pid"])
    holder.close()
    assert 0 == other.read_transactions(start.lsn).rows
    other.close()


def test_a_slot_ahead_of_the_start_is_a_gap(database: str, tmp_path: Path) -> None:
    """The server would skip the changes without an error; the reader does not start."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    execute(database, "INSERT INTO t VALUES (1)")
    log = reader(database, start, tmp_path / "spool")
    log.acknowledge(log.read_transactions(start.lsn).end)
    log.close()
    with pytest.raises(SourceError) as caught:
        log.read_transactions(start.lsn)
    assert "DATABASE_POSITION_LOST.SLOT_AHEAD" == caught.value.condition


def test_a_range_that_ends_between_transactions_is_acknowledged_when_it_was_read_again(
    database: str, tmp_path: Path
) -> None:
    """Its end is the position of a keepalive, and the next transaction arrives before another one."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE unseen (id int)")
    start = position(database, "t")
    execute(database, "INSERT INTO unseen SELECT generate_series(1, 1000)")
    killed = reader(database, start, tmp_path / "spool")
    end = killed.read_transactions(start.lsn).end
    killed.close()
    execute(database, "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    log = reader(database, start, tmp_path / "spool")
    assert log.read_range(start.lsn, end).rows == 0
    log.acknowledge(end)
    assert [("INSERT", {"id": 1}), ("INSERT", {"id": 2})] == [row[1:] for row in brief(log.read_transactions(end))]
    _wait_confirmed(database, end)
    log.close()
    assert start.lsn < end == _confirmed(database)


def test_a_full_identity_has_complete_old_rows(database: str, tmp_path: Path) -> None:
    """With a known key an update stays an update; without one it is a deletion and an insertion of whole rows."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, big text)", "CREATE TABLE bag (v int)")
    execute(database, "ALTER TABLE t REPLICA IDENTITY FULL", "ALTER TABLE bag REPLICA IDENTITY FULL")
    execute(database, "ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    start = position(database, "t", "bag")
    execute(
        database,
        "INSERT INTO t VALUES (1, repeat('x', 10000)); INSERT INTO bag VALUES (1), (1)",
        "UPDATE t SET id = 1",
        "UPDATE t SET id = 2",
        "DELETE FROM t",
        "UPDATE bag SET v = 2",
        "DELETE FROM bag",
    )
    log = reader(database, start, tmp_path / "spool", keys={name("t"): RowKey(columns=("id",))})
    rows = brief(log.read_transactions(start.lsn))
    log.close()
    big = "x" * 10000
    assert [
        ("INSERT", {"id": 1, "big": big}),
        ("UPDATE", {"id": 1, "big": big}),
        ("DELETE", {"id": 1, "big": big}),
        ("INSERT", {"id": 2, "big": big}),
        ("DELETE", {"id": 2, "big": big}),
    ] == [(operation, row) for table, operation, row in rows if table == _TABLE]
    assert [
        *[("INSERT", {"v": 1})] * 2,
        *[("DELETE", {"v": 1}), ("INSERT", {"v": 2})] * 2,
        *[("DELETE", {"v": 2})] * 2,
    ] == [(operation, row) for table, operation, row in rows if table == "public.bag"]


def test_the_server_advances_a_slot_to_the_given_end_exactly(database: str, tmp_path: Path) -> None:
    """`pg_replication_slot_advance` confirms the end of a transaction, not the end of a later record."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    execute(database, *(f"INSERT INTO t VALUES ({n})" for n in range(10)))
    log = reader(database, start, tmp_path / "spool")
    end = start.lsn
    ends = []
    for _ in range(10):
        end = log.read_transactions(end, ReadLimit(rows=1)).end
        ends.append(end)
    log.close()
    for end in ends:
        [(advanced,)] = query(
            database, f"SELECT end_lsn FROM pg_replication_slot_advance('{slot_of(database)}', '{format_lsn(end)}')"
        )
        assert end == parse_lsn(advanced)


def test_a_restarted_server_gives_the_same_rows(tmp_path: Path) -> None:
    """After a shutdown while nothing reads the stream, and after a crash, rows and schema versions are as before."""
    with PostgresServer() as server:
        database = server.uri()
        execute(database, "CREATE TABLE t (id int PRIMARY KEY, name text)")
        start = position(database, "t")
        execute(database, "INSERT INTO t VALUES (1, 'a')")
        log = reader(database, start, tmp_path / "spool")
        batch = log.read_transactions(start.lsn)
        rows = rows_of(batch)
        # More than the sockets take.
        execute(database, "INSERT INTO t SELECT i, repeat('b', 1000) FROM generate_series(2, 20000) i")
        for mode in ("fast", "immediate"):
            server.stop(mode)
            server.start()  # fails if the server still waits for the reader
            with pytest.raises(SourceError) as caught:
                log.read_transactions(batch.end)
            assert caught.value.condition == "DATABASE_UNREACHABLE"
            assert rows == rows_of(log.read_range(start.lsn, batch.end))
        assert log.read_transactions(batch.end).rows == 19999
        log.close()
