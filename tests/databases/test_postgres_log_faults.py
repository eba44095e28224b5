"""What happens to tables, partitions, publications and slots while the log is not read: named, and never mixed up."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.format_names import CHANGES_OPTIONS, SNAPSHOT_OPTIONS
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.chunks.snapshot_source import SnapshotRequest
from framework.sources.databases.postgres.log.changes_source import ChangesRequest
from framework.sources.databases.postgres.lsn import parse_lsn
from framework.sources.databases.streams.changes_stream import ChangesStreamReader
from framework.sources.databases.streams.snapshot_stream import SnapshotBatchReader
from tests.support.postgres_log import PUBLICATION, brief, execute, name, position, query, reader, rows_of, slot_of


def oid_of(uri: str, table: str) -> int:
    """Return the oid of a table."""
    return int(query(uri, f"SELECT '{table}'::regclass::oid")[0][0])


def test_a_change_is_known_by_its_table_and_not_by_the_name(database: str, tmp_path: Path) -> None:
    """A renamed table keeps the name of its copy; another table that takes the name is named REPLACED."""
    execute(database, "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    start = position(database, "a", "b")
    tables = [(oid_of(database, "a"), name("a"))]
    execute(
        database,
        "INSERT INTO a VALUES (1)",
        "ALTER TABLE a RENAME TO old; INSERT INTO old VALUES (2)",
        "ALTER TABLE b RENAME TO a; INSERT INTO a VALUES (30); TRUNCATE a; DELETE FROM old WHERE id = 1",
        "ALTER TABLE a RENAME TO b; ALTER TABLE old RENAME TO a; INSERT INTO b VALUES (4); INSERT INTO a VALUES (5)",
    )
    log = reader(database, start, tmp_path / "spool", tables=tables)
    batch = log.read_transactions(start.lsn)
    log.close()
    assert brief(batch) == [
        ("public.a", "INSERT", {"id": 1}),
        ("public.a", "INSERT", {"id": 2}),
        ("public.a", "REPLACED", {"id": 30}),
        ("public.a", "REPLACED", None),
        ("public.a", "DELETE", {"id": 1}),
        ("public.b", "INSERT", {"id": 4}),
        ("public.a", "INSERT", {"id": 5}),
    ]
    # The table is copied under its other name now, and the copy of the first name has failed.
    log = reader(database, start, tmp_path / "spool", tables=[*tables, (tables[0][0], name("old"))])
    again = [(table, operation) for table, operation, _ in brief(log.read_transactions(start.lsn))]
    log.close()
    old, other = ("public.old", "INSERT"), ("public.a", "REPLACED")
    assert again == [old, old, other, other, ("public.old", "DELETE"), ("public.b", "INSERT"), old]


def test_partitions_that_were_published_by_themselves_are_changes_of_their_table(database: str, tmp_path: Path) -> None:
    """Without publish_via_partition_root for a while: rows are applied, and a truncated partition is named."""
    execute(
        database,
        "CREATE TABLE sales (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF sales FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF sales FOR VALUES FROM (10) TO (20)",
    )
    start = position(database, "sales")
    partitions = [(oid_of(database, each), name("sales")) for each in ("p1", "p2")]
    alter = f"ALTER PUBLICATION {PUBLICATION} SET (publish_via_partition_root = {{}})"
    execute(
        database,
        "INSERT INTO sales VALUES (1, 1)",
        alter.format("false"),
        "INSERT INTO sales VALUES (2, 2), (12, 2)",
        "UPDATE sales SET id = 13 WHERE id = 1",
        "TRUNCATE p1",
        alter.format("true"),
        "INSERT INTO p2 VALUES (15, 5)",
        "TRUNCATE sales",
    )
    log = reader(
        database, start, tmp_path / "spool", keeps_unreadable=True, partitions=partitions,
        tables=[(oid_of(database, "sales"), name("sales"))],
    )  # fmt: skip
    batch = log.read_transactions(start.lsn)
    rows = [(row["operation"], row["payload"]) for row in rows_of(batch)]
    log.close()
    assert {row["source_table"] for row in rows_of(batch)} == {"public.sales"}
    assert [operation for operation, _ in rows] == [
        "INSERT", "INSERT", "INSERT", "DELETE", "INSERT", "UNREADABLE", "INSERT", "TRUNCATE",
    ]  # fmt: skip
    assert "was truncated" in str(rows[5][1])


def test_a_truncate_of_several_tables_is_one_change_of_each(database: str, tmp_path: Path) -> None:
    """TRUNCATE … CASCADE has each truncated table in the log, in one transaction with what follows."""
    execute(
        database,
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (id int PRIMARY KEY REFERENCES parent)",
        "CREATE TABLE alone (id int PRIMARY KEY)",
    )
    start = position(database, "parent", "child", "alone")
    execute(database, "TRUNCATE parent, alone CASCADE; INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1)")
    log = reader(database, start, tmp_path / "spool")
    batch = log.read_transactions(start.lsn)
    log.close()
    truncated = {
        ("public.parent", "TRUNCATE", None),
        ("public.child", "TRUNCATE", None),
        ("public.alone", "TRUNCATE", None),
    }
    assert {*brief(batch)[:3]} == truncated
    assert brief(batch)[3:] == [("public.parent", "INSERT", {"id": 1}), ("public.child", "INSERT", {"id": 1})]
    assert batch.transactions == 1


def test_a_publication_that_was_made_again_is_a_gap(database: str, tmp_path: Path) -> None:
    """The server can't decode what was written without it: that is a named gap and no lost connection."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    execute(
        database,
        f"DROP PUBLICATION {PUBLICATION}",
        "INSERT INTO t VALUES (1)",
        f"CREATE PUBLICATION {PUBLICATION} FOR TABLE t WITH (publish_via_partition_root = true)",
    )
    if int(query(database, "SHOW server_version_num")[0][0]) >= 180000:
        pytest.skip("since PostgreSQL 18 the membership of the tables tells it, see test_source_replacements.py")
    log = reader(database, start, tmp_path / "spool")
    with pytest.raises(SourceError) as caught:
        log.read_transactions(start.lsn)
    assert caught.value.condition == "DATABASE_POSITION_LOST.PUBLICATION"


def test_a_released_slot_can_be_dropped_at_once(database: str, tmp_path: Path) -> None:
    """The process of the server that read the slot has ended when `release` returns."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    for number in range(10):
        start = position(database, "t")
        execute(database, f"INSERT INTO t VALUES ({number})")
        log = reader(database, start, tmp_path / "spool")
        batch = log.read_transactions(start.lsn)
        assert batch.rows == 1
        log.release()
        query(database, f"SELECT pg_drop_replication_slot('{slot_of(database)}')")
        log.close()


def test_a_snapshot_that_has_begun_needs_the_log_from_there(database: str, tmp_path: Path) -> None:
    """A slot that is gone, or was made again by somebody, before the log was read the first time is a gap."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = position(database, "t")
    (tmp_path / "connections.yml").write_text(f"bank: {database}\n", "utf-8")
    options = {
        "connection": "bank", "connectionsFolder": str(tmp_path), "slot": slot_of(database),
        "publication": PUBLICATION, "tables": "t", "notAfter": str(start.lsn),
    }  # fmt: skip
    log = ChangesStreamReader(ChangesRequest.of(Options.of("postgres_changes", options, CHANGES_OPTIONS)))
    assert parse_lsn(log.initialOffset()["text"]) == start.lsn
    execute(database, f"SELECT pg_drop_replication_slot('{slot_of(database)}')", "INSERT INTO t VALUES (1)")
    assert _refused(log) == "DATABASE_POSITION_LOST.SLOT_MISSING"
    execute(database, f"SELECT pg_create_logical_replication_slot('{slot_of(database)}', 'pgoutput')")
    assert _refused(log) == "DATABASE_POSITION_LOST.SLOT_AHEAD"


def test_changes_that_were_read_from_another_slot_are_not_continued(database: str, tmp_path: Path) -> None:
    """A stream whose option names another slot or publication than its checkpoint: neither of both is read."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    start = dict(json.loads(position(database, "t").stored().to_json()))
    (tmp_path / "connections.yml").write_text(f"bank: {database}\n", "utf-8")
    execute(database, "INSERT INTO t VALUES (1)")
    options = {"connection": "bank", "connectionsFolder": str(tmp_path), "tables": "t"}
    for names in ({"slot": "other", "publication": PUBLICATION}, {"slot": slot_of(database)}):
        request = ChangesRequest.of(Options.of("postgres_changes", {**options, **names}, CHANGES_OPTIONS))
        log = ChangesStreamReader(request)
        with pytest.raises(SourceError) as caught:
            log.latestOffset(start, log.getDefaultReadLimit())
        log.stop()
        assert caught.value.condition == "DATABASE_POSITION_LOST.OTHER_SLOT"
        assert (caught.value.fields["slot"], caught.value.fields["named"]) == (slot_of(database), names["slot"])
    assert query(database, "SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'other'") == []


def _refused(log: ChangesStreamReader) -> str:
    with pytest.raises(SourceError) as caught:
        log.initialOffset()
    return caught.value.condition


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "SQL_ASCII", "EUC_JP"])
def test_a_database_of_another_encoding_has_the_same_texts_here(
    server: PostgresServer, tmp_path: Path, encoding: str
) -> None:
    """Rows of a chunk and of the log, and names of tables and columns, are as the database shows them in UTF-8."""
    word = "日本" if encoding == "EUC_JP" else "Grüße"
    created = f"db_{uuid.uuid4().hex[:12]}"
    settings = f"ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    execute(server.uri(), f"CREATE DATABASE {created} {settings}")
    uri = server.uri(created)
    writer = f"{uri}?client_encoding=UTF8"
    try:
        execute(writer, f'CREATE TABLE "{word}" (id int PRIMARY KEY, "{word}" text)')
        start = position(uri, word)
        execute(writer, f"""INSERT INTO "{word}" VALUES (1, '{word}'), (2, repeat('{word}', 3000))""")
        log = reader(uri, start, tmp_path / "spool")
        batch = log.read_transactions(start.lsn)
        log.release()
        log.close()
        (tmp_path / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
        options = {"connection": "bank", "connectionsFolder": str(tmp_path), "table": f'public."{word}"'}
        request = SnapshotRequest.of(Options.of("postgres_snapshot", options, SNAPSHOT_OPTIONS))
        chunks = SnapshotBatchReader(request, ("id", word))
        read = [row for part in chunks.partitions() for found in chunks.read(part) for row in found.to_pylist()]
        expected = [{"id": 1, word: word}, {"id": 2, word: word * 3000}]
        assert [payload for _, _, payload in brief(batch)] == expected == read
    finally:
        slots = f"FROM pg_replication_slots WHERE database = '{created}'"
        query(uri, f"SELECT count(pg_drop_replication_slot(slot_name)) {slots}")
        execute(server.uri(), f"DROP DATABASE {created} WITH (FORCE)")
