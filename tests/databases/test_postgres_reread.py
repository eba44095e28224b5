"""Values that the log left out are read from the table: by key, as the log writes them, and never too early."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.postgres.log.log_reader import LogReader
from framework.sources.databases.postgres.log.reread import full_transaction_id
from framework.sources.databases.postgres.lsn import format_lsn
from framework.sources.databases.streams.spool import SpooledBatch
from tests.support.database_keys import CITEXT
from tests.support.postgres_log import Folded, brief, execute, name, position, query, reader, rows_of, set_server

_BIG = "x" * 10000


def _create(uri: str, key: str = "id int PRIMARY KEY", *rows: str) -> None:
    execute(uri, f"CREATE TABLE t ({key}, n int, big text)", "ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    execute(uri, *(f"INSERT INTO t VALUES {row}" for row in rows))


def _read(uri: str, tmp_path: Path, *statements: str) -> SpooledBatch:
    start = position(uri, "t")
    execute(uri, *statements)
    log = reader(uri, start, tmp_path / "spool")
    batch = log.read_transactions(start.lsn)
    log.close()
    return batch


def test_an_unchanged_value_is_read_again(database: str, tmp_path: Path) -> None:
    """An update and a key update that leave a large value as it is have the value."""
    _create(database, "id int PRIMARY KEY", f"(1, 0, '{_BIG}')", f"(2, 0, '{_BIG}')")
    batch = _read(database, tmp_path, "UPDATE t SET n = 5 WHERE id = 1", "UPDATE t SET id = 7 WHERE id = 2")
    assert [
        ("public.t", "UPDATE", {"id": 1, "n": 5, "big": _BIG}),
        ("public.t", "DELETE", {"id": 2}),
        ("public.t", "INSERT", {"id": 7, "n": 0, "big": _BIG}),
    ] == brief(batch)


def test_a_row_that_is_gone_is_written_as_deleted(database: str, tmp_path: Path) -> None:
    """Its deletion follows in the log; so does the insertion of a row with the same key."""
    _create(database, "id int PRIMARY KEY", f"(1, 0, '{_BIG}')", f"(2, 0, '{_BIG}')")
    batch = _read(
        database,
        tmp_path,
        "UPDATE t SET n = 5",
        "DELETE FROM t",
        "INSERT INTO t VALUES (2, 6, 'new')",
    )
    assert [
        ("public.t", "DELETE", {"id": 1}),
        ("public.t", "UPDATE", {"id": 2, "n": 5, "big": "new"}),
        ("public.t", "DELETE", {"id": 1}),
        ("public.t", "DELETE", {"id": 2}),
        ("public.t", "INSERT", {"id": 2, "n": 6, "big": "new"}),
    ] == brief(batch)


def test_a_history_has_the_value_of_each_state_or_none(database: str, tmp_path: Path) -> None:
    """A value that a later transaction may have written, or that is gone, is unreadable: it would stay."""
    _create(database, "id int PRIMARY KEY", *(f"({row}, 0, '{_BIG}')" for row in range(1, 5)))
    start = position(database, "t")
    execute(database, "UPDATE t SET n = id", "UPDATE t SET big = 'later' WHERE id = 2", "DELETE FROM t WHERE id = 3")
    execute(database, "UPDATE t SET id = 14 WHERE id = 4")
    log = reader(database, start, tmp_path / "spool", keeps_unreadable=True, histories=[name("t")])
    rows = rows_of(log.read_transactions(start.lsn))
    log.close()
    reason = (
        "The log left out big of an updated row of public.t, because the update did not change it, and the table no "
        'longer has the value of that time; with `ALTER TABLE "public"."t" REPLICA IDENTITY FULL` the log has all '
        "values."
    )
    assert [("UPDATE", {"id": 1, "n": 1, "big": _BIG}), *[("UNREADABLE", reason)] * 3] == [
        (row["operation"], reason if row["payload"] == reason else json.loads(row["payload"])) for row in rows[:4]
    ]
    assert [("UPDATE", "later"), ("DELETE", None), ("DELETE", None), ("INSERT", _BIG)] == [
        (row["operation"], json.loads(row["payload"]).get("big")) for row in rows[4:]
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("char(5)", "ab"),
        ("numeric(20,3)", "1.5"),
        ("uuid", "0b9b3c6e-0000-4000-8000-000000000001"),
        ("timestamptz", "2024-05-06 07:08:09.123456+02"),
        ('"char"', "q"),
        ("inet", "10.0.0.1"),
        ("bytea", "\\x00ff"),
        ("int[]", "{1,2}"),
        ("date", "2024-01-01"),
        ("boolean", "t"),
    ],
)
def test_rows_are_found_by_keys_of_any_type(database: str, tmp_path: Path, key: str, value: str) -> None:
    """The text of a key in the log finds its row."""
    _create(database, f'"the %s ""key""" {key} PRIMARY KEY', f"('{value}', 0, '{_BIG}')")
    [(_, operation, row)] = brief(_read(database, tmp_path, "UPDATE t SET n = 1"))
    assert ("UPDATE", 1, _BIG) == (operation, row["n"], row["big"])


def test_rows_are_found_by_keys_with_operators_outside_of_the_search_path(database: str, tmp_path: Path) -> None:
    """As of an extension's type in a schema of its own, and of a domain over it; names may have percent signs."""
    schema, without_cast = '"100%s ext"', [each for each in CITEXT if "CREATE CAST" not in each]
    execute(
        database,
        *(each.replace("ext.", f"{schema}.").replace("SCHEMA ext", f"SCHEMA {schema}") for each in without_cast),
    )
    execute(database, f"CREATE DOMAIN name AS {schema}.citext")
    _create(database, f"id {schema}.citext, id2 public.name, PRIMARY KEY (id, id2)", f"('Ab', 'c', 0, '{_BIG}')")
    assert [("public.t", "UPDATE", {"id": "Ab", "id2": "c", "n": 1, "big": _BIG})] == brief(
        _read(database, tmp_path, "UPDATE t SET n = 1")
    )


def test_a_key_that_the_server_does_not_read_any_more_is_a_fault_of_its_table(database: str, tmp_path: Path) -> None:
    """The log has a label of an enum that was renamed: the row is unreadable, and the changes of other tables go on."""
    execute(database, "CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE other (id int PRIMARY KEY)")
    _create(database, "id mood PRIMARY KEY", f"('sad', 0, '{_BIG}')")
    start = position(database, "t", "other")
    execute(
        database, "UPDATE t SET n = 1", "ALTER TYPE mood RENAME VALUE 'sad' TO 'glad'", "INSERT INTO other VALUES (1)"
    )
    log = reader(database, start, tmp_path / "spool", keeps_unreadable=True)
    unreadable, other = rows_of(log.read_transactions(start.lsn))
    log.close()
    assert ("public.t", "UNREADABLE") == (unreadable["source_table"], unreadable["operation"])
    assert 'invalid input value for enum mood: "sad"' in unreadable["payload"]
    assert ("public.other", "INSERT", '{"id":1}') == (other["source_table"], other["operation"], other["payload"])


def test_a_value_is_written_as_the_log_writes_it(database: str, tmp_path: Path) -> None:
    """Also where a cast to text differs from the output function."""
    execute(
        database,
        "CREATE TABLE t (id int, id2 text, n int, c char(9000), b bytea, a int[], empty text, PRIMARY KEY (id, id2))",
        *(f"ALTER TABLE t ALTER {column} SET STORAGE EXTERNAL" for column in ("c", "b", "a")),
        "INSERT INTO t SELECT 1, 'k''%s', 0, 'pad', decode(repeat('ab', 9000), 'hex'), array_agg(i), ''"
        " FROM generate_series(1, 3000) AS i",
    )
    start = position(database, "t")
    execute(database, "UPDATE t SET n = 1", "ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET n = 1")
    log = reader(database, start, tmp_path / "spool", keys={})
    again, _, whole = brief(log.read_transactions(start.lsn))
    log.close()
    # With the full identity, the log itself has the values.
    assert ("UPDATE", "INSERT") == (again[1], whole[1])
    assert whole[2] == again[2]
    assert 9000 == len(again[2]["c"])


def test_a_value_of_a_changed_schema_is_unreadable(database: str, tmp_path: Path) -> None:
    """A column that was renamed, retyped or dropped cannot be read; one of a renamed table can."""
    _create(database, "id int PRIMARY KEY", f"(1, 0, '{_BIG}')")
    start = position(database, "t")
    log = reader(database, start, tmp_path / "spool", keeps_unreadable=True)
    execute(database, "UPDATE t SET n = 1", 'ALTER TABLE t RENAME TO "moved t"')
    first = log.read_transactions(start.lsn)
    assert [("public.t", "UPDATE", {"id": 1, "n": 1, "big": _BIG})] == brief(first)
    end, operations = first.end, []
    for statement in ("RENAME big TO b2", "ALTER b2 TYPE varchar", "DROP b2"):
        execute(database, 'UPDATE "moved t" SET n = n + 1', f'ALTER TABLE "moved t" {statement}')
        batch = log.read_transactions(end)
        operations += [row["operation"] for row in rows_of(batch)]
        end = batch.end
    execute(database, 'UPDATE "moved t" SET n = 9', 'DROP TABLE "moved t"')
    last = log.read_transactions(end)
    log.close()
    assert ["UNREADABLE"] * 3 == operations
    assert [("public.moved t", "UPDATE", {"id": 1, "n": 9})] == brief(last)


def test_a_row_is_not_read_before_its_transaction_is_visible(tmp_path: Path) -> None:
    """The log has a commit before a query sees it: a value that is read too early is stale for ever."""
    with PostgresServer() as server:
        uri = server.uri()
        _create(uri, "id int PRIMARY KEY", "(1, 0, 'old')")
        start = position(uri, "t")
        log = reader(uri, start, tmp_path / "spool")
        start_lsn = log.read_transactions(start.lsn).end
        # A commit that waits for a standby is in the log, but not visible.
        set_server(uri, "synchronous_standby_names", "nobody")
        writing = threading.Thread(
            target=_execute_unless_lost, args=[uri, f"UPDATE t SET big = '{_BIG}'; UPDATE t SET n = 1"], daemon=True
        )
        writing.start()
        while not query(uri, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            writing.join(0.01)
            assert writing.is_alive()
        found: list[SpooledBatch] = []
        reading = threading.Thread(target=lambda: found.append(log.read_transactions(start_lsn)), daemon=True)
        reading.start()
        reading.join(1.5)
        assert reading.is_alive()
        assert [("old",)] == query(uri, "SELECT big FROM t")
        set_server(uri, "synchronous_standby_names", "")
        reading.join(20)
        writing.join(20)
        log.close()
        assert {"id": 1, "n": 1, "big": _BIG} == brief(found[0])[-1][2]


def test_a_transaction_that_never_becomes_visible_is_a_named_fault(tmp_path: Path) -> None:
    """The wait is bounded."""
    with PostgresServer() as server:
        uri = server.uri()
        _create(uri, "id int PRIMARY KEY", f"(1, 0, '{_BIG}')")
        start = position(uri, "t")
        log = reader(uri, start, tmp_path / "spool")
        log._omitted._wait_seconds = 0.3
        set_server(uri, "synchronous_standby_names", "nobody")
        writing = threading.Thread(target=_execute_unless_lost, args=[uri, "UPDATE t SET n = 1"], daemon=True)
        writing.start()
        while not query(uri, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            writing.join(0.01)
        with pytest.raises(SourceError) as caught:
            log.read_transactions(start.lsn)
        assert "DATABASE_COMMIT_NOT_VISIBLE" == caught.value.condition


def _execute_unless_lost(uri: str, statement: str) -> None:
    try:
        execute(uri, statement)
    except psycopg2.OperationalError:
        return


def test_an_open_transaction_does_not_hold_up_a_read(database: str, tmp_path: Path) -> None:
    """Only the transaction of the row must be visible, not all older ones."""
    _create(database, "id int PRIMARY KEY", f"(1, 0, '{_BIG}')")
    start = position(database, "t")
    old = psycopg2.connect(database)
    old.cursor().execute("CREATE TABLE other ()")
    execute(database, "UPDATE t SET n = 1")
    log = reader(database, start, tmp_path / "spool")
    log._omitted._wait_seconds = 5
    assert [("public.t", "UPDATE", {"id": 1, "n": 1, "big": _BIG})] == brief(log.read_transactions(start.lsn))
    log.close()
    old.close()


def test_rows_that_move_between_chunks_keep_their_large_values(database: str, tmp_path: Path) -> None:
    """No chunk of the snapshot saw a moved row, and the log says "unchanged": the fold still equals the source."""
    _create(database, "id int PRIMARY KEY")
    execute(database, "INSERT INTO t SELECT i, 0, repeat(chr(97 + i % 26), 10000) FROM generate_series(1, 100) AS i")
    start = position(database, "t")
    folded = Folded({"public.t": ("id",)})
    low = [row for (row,) in query(database, "SELECT row_to_json(t) FROM t WHERE id <= 50")]
    execute(database, "UPDATE t SET id = id - 200 WHERE id > 50", "UPDATE t SET n = 1 WHERE id < 0 AND id % 2 = 0")
    high = [row for (row,) in query(database, "SELECT row_to_json(t) FROM t WHERE id > 50")]
    log = reader(database, start, tmp_path / "spool")
    folded.add_snapshot("public.t", low + high)
    folded.add(log.read_transactions(start.lsn))
    log.close()
    expected = {(row["id"],): row for (row,) in query(database, "SELECT row_to_json(t) FROM t")}
    assert 100 == len(expected)
    assert {"public.t": expected} == folded.tables()


def test_a_missing_right_is_a_named_fault(database: str, tmp_path: Path) -> None:
    """The fault has the table and the statement."""
    own = f"reader_{database.rpartition('_')[2]}"
    _create(database, "id int PRIMARY KEY", f"(1, 0, '{_BIG}')")
    start = position(database, "t")
    execute(database, f"CREATE ROLE {own} LOGIN REPLICATION", "UPDATE t SET n = 1")
    log: LogReader = reader(database.replace("postgres@", f"{own}@"), start, tmp_path / "spool")
    with pytest.raises(SourceError) as caught:
        log.read_transactions(start.lsn)
    assert "DATABASE_PERMISSION" == caught.value.condition
    assert "GRANT SELECT" in str(caught.value)
    execute(database, f"DROP ROLE {own}")


@pytest.mark.parametrize(
    ("xid", "newest", "expected"),
    [
        (100, 105, 100),
        (110, 105, 110),
        (0xFFFFFFF0, (3 << 32) + 4, (2 << 32) + 0xFFFFFFF0),
        (4, (2 << 32) + 0xFFFFFFF0, (3 << 32) + 4),
    ],
)
def test_the_full_id_of_a_transaction_survives_a_wrap_around(xid: int, newest: int, expected: int) -> None:
    """The epoch is that of the nearest id, before or after."""
    assert expected == full_transaction_id(xid, newest)


def test_positions_have_the_text_of_the_server() -> None:
    """Upper-case hexadecimal digits without leading zeros."""
    assert "16/B374D848" == format_lsn(0x16B374D848)
