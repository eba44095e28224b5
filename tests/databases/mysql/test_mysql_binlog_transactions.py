"""Transactions in the log of MySQL and MariaDB: what each of them is as changes, and what can't be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.log.binlog_connection import LogRefusedError
from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.mysql.log.gtids import MariaGtids, MySqlGtids
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.tables import REPLACED, UNREADABLE, TableName
from tests.support.mysql_log import Change, LogReading, end_of_log
from tests.support.mysql_programs import MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer, new_database

_KEYED = CopiedTable(key=("id",), needs_key=True)


class World:
    """A database with a table `t`, and its log from then on."""

    def __init__(self, server: MysqlServer, schema: str, columns: str = "v varchar(200)", **options: Any) -> None:
        self.server, self.schema = server, schema
        self.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
        tables = {TableName(schema=schema, table=name): _KEYED for name in options.pop("tables", ("t",))}
        self.reading = LogReading(server, tables, **options)

    def run(self, *statements: str) -> None:
        """Run statements on one connection."""
        with self.server.connect(self.schema) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def changes(self) -> list[tuple[str, object]]:
        """Return operation and payload of the changes since the last call."""
        return [(change.operation, change.payload) for change in self.reading.read()]


@pytest.fixture
def world(mysql_server: MysqlServer, database: str) -> Iterator[World]:
    """A world on each server."""
    made = World(mysql_server, database.rpartition("/")[2])
    yield made
    made.reading.close()


def _unreadable(changes: list[tuple[str, object]]) -> str:
    ((operation, reason),) = changes
    assert operation == UNREADABLE
    return str(reason)


def test_an_update_of_the_key_is_a_delete_and_an_insert(world: World) -> None:
    """Also if the new key is equal to the old one in the collation of the server."""
    world.run("CREATE TABLE k (id varchar(5) PRIMARY KEY, v int) COLLATE utf8mb4_general_ci")
    world.reading.close()
    table = TableName(schema=world.schema, table="k")
    with LogReading(world.server, {table: _KEYED}) as reading:
        world.run("INSERT INTO k VALUES ('a', 1)", "UPDATE k SET v = 2", "UPDATE k SET id = 'A'")
        found = [(change.operation, change.payload) for change in reading.read()]
    assert found == [
        ("INSERT", {"id": "a", "v": "1"}),
        ("UPDATE", {"id": "a", "v": "2"}),
        ("DELETE", {"id": "a", "v": "2"}),
        ("INSERT", {"id": "A", "v": "2"}),
    ]


def test_a_rolled_back_savepoint_leaves_nothing(world: World) -> None:
    """The rows after it are not in the log, and the others are of one transaction."""
    world.run("BEGIN", "INSERT INTO t VALUES (1, 'a')", "SAVEPOINT s", "INSERT INTO t VALUES (2, 'b')", "ROLLBACK TO s")
    world.run(
        "BEGIN",
        "INSERT INTO t VALUES (3, 'a')",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (4, 'b')",
        "ROLLBACK TO s",
        "COMMIT",
    )
    assert world.changes() == [("INSERT", {"id": "3", "v": "a"})]


def test_a_truncate_is_an_operation(world: World) -> None:
    """It comes between the rows before and after it, whatever the names in it look like."""
    world.run(
        "INSERT INTO t VALUES (1, 'a')",
        f"TRUNCATE /* it */ TABLE `{world.schema}` . `t`",
        "INSERT INTO t VALUES (2, 'b')",
    )
    found = world.reading.read()
    assert [(change.operation, change.payload) for change in found] == [
        ("INSERT", {"id": "1", "v": "a"}),
        ("TRUNCATE", None),
        ("INSERT", {"id": "2", "v": "b"}),
    ]
    # A reading that begins there has seen no description of the table, and has the same row.
    tables = {TableName(schema=world.schema, table="t"): _KEYED}
    with LogReading(world.server, tables, world.reading.commits[-2].begin) as reading:
        assert reading.read() == found[1:]


def test_dml_in_statement_format_is_unreadable(world: World) -> None:
    """The log has the statement, not its rows."""
    world.run("SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 'a')")
    assert "the log has a statement instead of its rows: INSERT INTO t VALUES (1, 'a')" in _unreadable(world.changes())


def test_images_without_all_columns_are_unreadable(world: World) -> None:
    """With binlog_row_image = MINIMAL, an update has only what it sets."""
    world.run("INSERT INTO t VALUES (1, 'a')")
    world.changes()
    world.run("SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET v = 'b'")
    assert "binlog_row_image was not FULL" in _unreadable(world.changes())


def test_a_prepared_transaction_counts_when_it_is_committed(world: World) -> None:
    """XA: the rows have the position of the commit; a rolled back one leaves nothing, one of a single phase counts."""
    world.run("XA START 'a','b',7", "INSERT INTO t VALUES (1, 'xa')", "XA END 'a','b',7", "XA PREPARE 'a','b',7")
    world.run("INSERT INTO t VALUES (2, 'between')")
    assert world.changes() == [("INSERT", {"id": "2", "v": "between"})]
    assert list(world.reading.reader.prepared) == ["X'61',X'62',7"]
    world.run("XA COMMIT 'a','b',7")
    committed = world.reading.commits[-1]
    assert world.changes() == [("INSERT", {"id": "1", "v": "xa"})]
    assert (world.reading.reader.prepared, world.reading.begins[-1].position > committed.place.order - 1) == ({}, True)
    world.run("XA START 'c'", "INSERT INTO t VALUES (3, 'no')", "XA END 'c'", "XA PREPARE 'c'", "XA ROLLBACK 'c'")
    world.run("XA START 'd'", "INSERT INTO t VALUES (4, 'one')", "XA END 'd'", "XA COMMIT 'd' ONE PHASE")
    assert world.changes() == [("INSERT", {"id": "4", "v": "one"})]


def test_a_transaction_that_was_prepared_before_the_start_is_unreadable(world: World) -> None:
    """Its rows are before the place where the log is read; with its place it is read."""
    begin = end_of_log(world.server)
    world.run("XA START 'z'", "INSERT INTO t VALUES (1, 'xa')", "XA END 'z'", "XA PREPARE 'z'")
    place = end_of_log(world.server)
    world.run("XA COMMIT 'z'")
    tables = {TableName(schema=world.schema, table="t"): _KEYED}
    with LogReading(world.server, tables, place) as reading:
        assert [change.operation for change in reading.read()] == [UNREADABLE]
    with LogReading(world.server, tables, place, prepared={"X'7a',X'',1": begin}) as reading:
        assert [change.payload for change in reading.read()] == [{"id": "1", "v": "xa"}]


def test_the_end_of_a_name_is_marked(world: World) -> None:
    """After DROP or RENAME, another table may have the name: a row says so before its rows."""
    world.run("INSERT INTO t VALUES (1, 'a')", "DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY)")
    world.run("INSERT INTO t VALUES (2)", "RENAME TABLE t TO u")
    assert [operation for operation, _ in world.changes()] == ["INSERT", REPLACED, "INSERT", REPLACED]


def test_rows_that_go_with_a_partition_are_unreadable(mysql_server: MysqlServer, database: str) -> None:
    """The log has the statement only."""
    columns = "v int) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (99)"
    world = World(mysql_server, database.rpartition("/")[2], columns)
    world.run("INSERT INTO t VALUES (1, 1), (11, 1)")
    assert [operation for operation, _ in world.changes()] == ["INSERT", "INSERT"]
    world.run("ALTER TABLE t TRUNCATE PARTITION a")
    assert "rows were removed with a partition" in _unreadable(world.changes())
    world.reading.close()


def test_rows_have_the_columns_of_their_moment(world: World) -> None:
    """Columns are added, renamed and dropped between rows; each row has its own names, versions differ."""
    begin = world.reading.place
    world.run("INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t ADD w int DEFAULT 7", "INSERT INTO t VALUES (2, 'b', 8)")
    world.run("ALTER TABLE t RENAME COLUMN v TO u", "INSERT INTO t VALUES (3, 'c', 9)", "ALTER TABLE t DROP w")
    world.run("INSERT INTO t VALUES (4, 'd')", "ALTER TABLE t RENAME COLUMN u TO v", "INSERT INTO t VALUES (5, 'e')")
    tables = {TableName(schema=world.schema, table="t"): _KEYED}
    with LogReading(world.server, tables, begin, keeps_unreadable=False) as reading:
        changes = reading.read()
    assert [change.payload for change in changes] == [
        {"id": "1", "v": "a"},
        {"id": "2", "v": "b", "w": "8"},
        {"id": "3", "u": "c", "w": "9"},
        {"id": "4", "u": "d"},
        {"id": "5", "v": "e"},
    ]
    versions = [change.schema_version for change in changes]
    assert (len({*versions}), versions[0] == versions[-1]) == (4, True)


def test_an_alteration_that_may_change_values_is_unreadable_for_a_copy(world: World) -> None:
    """The log has no rows of it; a column without values changes none."""
    world.run(
        "INSERT INTO t VALUES (1, 'a')",
        "ALTER TABLE t ADD n int NULL",
        "ALTER TABLE t ADD w int DEFAULT 7",
        "INSERT INTO t VALUES (2, 'b', 3, 8)",
    )
    first, altered, last = world.changes()
    assert (first, last) == (
        ("INSERT", {"id": "1", "v": "a"}),
        ("INSERT", {"id": "2", "v": "b", "n": "3", "w": "8"}),
    )
    assert "ALTER TABLE t ADD w int DEFAULT 7" in _unreadable([altered])


def test_generated_and_invisible_columns_are_in_the_log(mysql_server: MysqlServer, database: str) -> None:
    """Virtual and stored ones have their values."""
    invisible = "INVISIBLE DEFAULT 5" if mysql_server.is_mariadb else "DEFAULT 5 INVISIBLE"
    columns = f"v int AS (id + 1) VIRTUAL, s int AS (id + 2) STORED, h int {invisible}"
    world = World(mysql_server, database.rpartition("/")[2], columns)
    world.run("INSERT INTO t (id) VALUES (1)")
    assert world.changes() == [("INSERT", {"id": "1", "v": "2", "s": "3", "h": "5"})]
    world.reading.close()


def test_cascades_are_logged_by_mysql_alone(mysql_server: MysqlServer, database: str) -> None:
    """MySQL 9.7 has the changes of the child rows; MariaDB (10.11, 11.4) does not, so the preflight refuses it."""
    world = World(mysql_server, database.rpartition("/")[2], tables=("t", "c"))
    world.run(
        "CREATE TABLE c (id int PRIMARY KEY, t int)",
        "ALTER TABLE c ADD FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE",
    )
    world.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO c VALUES (1, 1), (2, 2)")
    world.changes()
    world.run("DELETE FROM t WHERE id = 1", "UPDATE t SET id = 20 WHERE id = 2")
    of_child = [change for change in world.reading.read() if change.table.endswith(".c")]
    assert len(of_child) == (0 if mysql_server.is_mariadb else 2)
    world.reading.close()


def test_compressed_transactions_are_read(mysql: MysqlServer) -> None:
    """MySQL compresses a whole transaction, by the setting of a session."""
    with new_database(mysql) as uri:
        world = World(mysql, uri.rpartition("/")[2])
        world.run(
            "SET SESSION binlog_transaction_compression = ON",
            "BEGIN",
            "INSERT INTO t VALUES (1, REPEAT('x', 150))",
            "UPDATE t SET v = 'y'",
            "COMMIT",
        )
        assert world.changes() == [("INSERT", {"id": "1", "v": "x" * 150}), ("UPDATE", {"id": "1", "v": "y"})]
        world.reading.close()


def test_compressed_events_are_read(own_server: Callable[..., MysqlServer]) -> None:
    """MariaDB compresses each event of rows and each statement."""
    server = own_server(MARIADB, {"log-bin-compress": "ON", "log-bin-compress-min-len": "10"})
    server.query("CREATE DATABASE d")
    world = World(server, "d")
    world.run("INSERT INTO t VALUES (1, REPEAT('x', 150))", "UPDATE t SET v = 'y'", "TRUNCATE t")
    assert world.changes() == [
        ("INSERT", {"id": "1", "v": "x" * 150}),
        ("UPDATE", {"id": "1", "v": "y"}),
        ("TRUNCATE", None),
    ]
    world.reading.close()


def test_texts_beside_a_vector_have_their_own_character_sets(mysql: MysqlServer) -> None:
    """The log counts a vector among the columns with a character set."""
    columns = "v vector(2), a varchar(9) character set latin1, b text character set utf8mb4"
    mysql.query("CREATE DATABASE vectors")
    world = World(mysql, "vectors", columns)
    world.run("INSERT INTO t VALUES (1, TO_VECTOR('[1,2]'), 'é', 'é')")
    assert world.changes() == [("INSERT", {"id": "1", "v": "AACAPwAAAEA=", "a": "é", "b": "é"})]
    world.reading.close()


def test_parts_of_json_values_are_unreadable(mysql: MysqlServer) -> None:
    """With binlog_row_value_options = PARTIAL_JSON, an update has what it changes in the document."""
    mysql.query("CREATE DATABASE partial")
    world = World(mysql, "partial", "v json")
    world.run("INSERT INTO t VALUES (1, CONCAT('{\"a\": 1, \"b\": \"', REPEAT('x', 100), '\"}'))")
    world.changes()
    world.run("SET SESSION binlog_row_value_options = PARTIAL_JSON", "UPDATE t SET v = JSON_SET(v, '$.a', 2)")
    assert "PARTIAL_JSON" in _unreadable(world.changes())
    world.reading.close()


def test_a_table_without_names_in_the_log_is_unreadable(own_server: Callable[..., MysqlServer]) -> None:
    """With binlog_row_metadata = MINIMAL, columns have no names and no signs."""
    server = own_server(MARIADB)
    server.query("CREATE DATABASE d")
    world = World(server, "d")
    server.query("SET GLOBAL binlog_row_metadata = MINIMAL")
    world.run("INSERT INTO t VALUES (1, 'a')")
    assert "binlog_row_metadata was not FULL" in _unreadable(world.changes())
    world.reading.close()


def test_a_value_without_a_spark_value_is_unreadable_and_can_be_deleted(world: World) -> None:
    """A zero date: the other rows of its statement are read, an update mends it, and a delete has the key."""
    world.run("CREATE TABLE z (id int PRIMARY KEY, d date)")
    tables = {TableName(schema=world.schema, table="z"): _KEYED}
    with LogReading(world.server, tables) as reading:
        world.run("SET sql_mode = ''", "INSERT INTO z VALUES (1, '2024-01-01'), (2, '0000-00-00'), (3, NULL)")
        world.run(
            "SET sql_mode = ''",
            "UPDATE z SET d = '2024-01-01' WHERE id = 2",
            "UPDATE z SET d = 0 WHERE id = 1",
            "DELETE FROM z WHERE id = 1",
        )
        found = [(change.operation, change.payload) for change in reading.read()]
    assert [operation for operation, _ in found] == ["INSERT", UNREADABLE, "INSERT", "UPDATE", UNREADABLE, "DELETE"]
    assert (found[3][1], found[5][1]) == ({"id": "2", "d": "2024-01-01"}, {"id": "1"})


def test_an_unreadable_row_ends_the_changes_unless_it_is_kept(world: World) -> None:
    """The error names the table."""
    tables = {TableName(schema=world.schema, table="t"): _KEYED}
    with LogReading(world.server, tables, keeps_unreadable=False) as reading:
        world.run("SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 'a')")
        with pytest.raises(SourceError) as caught:
            reading.read()
    assert caught.value.condition == "MYSQL_CHANGE_UNREADABLE"


def test_the_place_goes_on_in_the_next_file(own_server: Callable[..., MysqlServer]) -> None:
    """A rotation moves it; a reading begins at each end of a transaction and has the rest."""
    server = own_server(MARIADB)
    server.query("CREATE DATABASE d")
    world = World(server, "d")
    for key in range(4):
        world.run(f"INSERT INTO t VALUES ({key}, 'a')", "FLUSH LOGS")
    world.reading.read()
    tables = {TableName(schema="d", table="t"): _KEYED}
    for key, commit in enumerate(world.reading.commits):
        with LogReading(server, tables, commit.place) as reading:
            assert [change.payload for change in reading.read()] == [
                {"id": str(n), "v": "a"} for n in range(key + 1, 4)
            ]
    world.reading.close()


def test_a_purged_place_is_refused_by_name(own_server: Callable[..., MysqlServer]) -> None:
    """Error 1236."""
    server = own_server(MARIADB)
    reading = LogReading(server, {}, LogPlace("binlog.000999", 4))
    with reading, pytest.raises(LogRefusedError) as caught:
        reading.read_rows(1)
    assert caught.value.code == 1236


def test_the_log_is_read_after_transactions(own_server: Callable[..., MysqlServer]) -> None:
    """By GTIDs of both kinds, also into another file."""
    for name, kind, settings in (
        (MARIADB, MariaGtids, {}),
        (MYSQL, MySqlGtids, {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}),
    ):
        server = own_server(name, settings)
        server.query("CREATE DATABASE d")
        world = World(server, "d")
        world.run("INSERT INTO t VALUES (1, 'a')")
        ((text,),) = server.query("SELECT @@gtid_binlog_pos" if server.is_mariadb else "SELECT @@gtid_executed")
        world.run("FLUSH LOGS", "INSERT INTO t VALUES (2, 'b')")
        tables = {TableName(schema="d", table="t"): _KEYED}
        with LogReading(server, tables, world.reading.place, gtids=kind.parse(str(text))) as reading:
            assert [change.payload for change in reading.read()] == [{"id": "2", "v": "b"}]
            last = reading.commits[-1]
        assert str(kind.parse(str(text)).add(last.gtid)) != text
        with LogReading(server, tables, last.begin) as reading:
            assert [change.payload for change in reading.read()] == [{"id": "2", "v": "b"}]
        world.reading.close()


def test_a_large_transaction_is_read_again_from_its_begin(own_server: Callable[..., MysqlServer]) -> None:
    """A reader that ends inside of it, and the restart of its server, lose and repeat nothing."""
    server = own_server(MARIADB)
    server.query("CREATE DATABASE d")
    world = World(server, "d")
    start = end_of_log(server)
    world.run("INSERT INTO t SELECT seq, REPEAT('x', 100) FROM seq_1_to_50000")
    with _broken_off(world.reading, 20_000) as changes:
        assert len(changes) >= 20_000
    server.restart(kill=True)
    with LogReading(server, {TableName(schema="d", table="t"): _KEYED}, start) as reading:
        again = reading.read(LogPlace(start.file, start.offset + 1))
    assert [change.payload["id"] for change in again] == [str(n) for n in range(1, 50_001)]  # type: ignore[index]
    assert changes == again[: len(changes)]


@contextmanager
def _broken_off(reading: LogReading, rows: int) -> Iterator[list[Change]]:
    """Read so many rows, and end the reading."""
    yield reading.read_rows(rows)
    reading.close()
