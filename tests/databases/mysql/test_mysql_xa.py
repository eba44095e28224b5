"""XA transactions: prepared at one place of the log, and committed at another one, perhaps before and after a start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.sources.databases.mysql.stored_position import StoredPosition
from framework.sources.databases.tables import UNREADABLE
from tests.support.mysql_changes import log_of
from tests.support.mysql_programs import KNOWN, MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer
from tests.support.postgres_log import rows_of

Start = Callable[..., MysqlServer]
_DURABLE = {"sync-binlog": "1", "innodb-flush-log-at-trx-commit": "1"}
_GTIDS = {MYSQL: {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}}


class Bank:
    """A table `t (id, v)`, and a reader of its changes."""

    def __init__(self, server: MysqlServer, schema: str, folder: Path) -> None:
        self.server, self.schema, self.folder = server, schema, folder
        self.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
        self.reopen()

    def reopen(self) -> None:
        """Read as a process that started now."""
        self.log = log_of(self.server, [f"{self.schema}.t"], self.folder, unreadableRows="keep")

    def run(self, *statements: str) -> None:
        """Run statements on a connection of their own, which ends after them."""
        with self.server.connect(self.schema) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def prepare(self, xid: str, *statements: str, settings: tuple[str, ...] = ()) -> None:
        """Prepare a transaction; its connection ends."""
        self.run(*settings, f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")

    def read(self, start: str) -> tuple[list[tuple[str, Any]], str]:
        """Return operation and key of each change after an offset, and the offset at their end."""
        batch, end = self.log.read_transactions(start, None)
        rows = [(row["operation"], row["payload"]) for row in rows_of(batch)]
        keys = [(operation, payload.split(",")[0].removeprefix('{"id":')) for operation, payload in rows]
        return [(operation, key if operation != UNREADABLE else "") for operation, key in keys], end


@pytest.fixture
def bank(mysql_server: MysqlServer, database: str, tmp_path: Path) -> Iterator[Bank]:
    """A bank on each server."""
    made = Bank(mysql_server, database.rpartition("/")[2], tmp_path)
    yield made
    made.log.close()


def test_a_transaction_that_is_prepared_while_the_log_begins_is_read_when_it_is_committed(bank: Bank) -> None:
    """In an earlier file, after another one of the same name that was ended; a rolled back one leaves nothing."""
    name = bank.schema[-8:]
    bank.prepare(f"'{name}','a',3", "INSERT INTO t VALUES (1, 'ended')")
    bank.run(f"XA COMMIT '{name}','a',3")
    bank.prepare(f"'{name}','a',3", "INSERT INTO t VALUES (2, 'open')", "UPDATE t SET v = 'x' WHERE id = 1")
    bank.prepare(f"'{name}','b'", "INSERT INTO t VALUES (3, 'undone')")
    bank.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4, 'before')")
    start = bank.log.start()
    bank.run("INSERT INTO t VALUES (5, 'after')", f"XA COMMIT '{name}','a',3", f"XA ROLLBACK '{name}','b'")
    bank.run("INSERT INTO t VALUES (6, 'last')")
    found, end = bank.read(start)
    assert found == [("INSERT", "5"), ("INSERT", "2"), ("UPDATE", "1"), ("INSERT", "6")]
    assert bank.read(end)[0] == []
    bank.log.close()
    bank.reopen()
    assert bank.log.read_range(start, end).rows == len(found)


def test_a_transaction_that_is_prepared_where_a_reading_begins_is_read(bank: Bank) -> None:
    """The log is opened twice at one place, and the server ends neither."""
    name = bank.schema[-8:]
    start = bank.log.start()
    for number in range(3):
        bank.prepare(f"'{name}'", f"INSERT INTO t VALUES ({number}, 'x')")
        bank.run(f"XA COMMIT '{name}'", f"INSERT INTO t VALUES ({number + 10}, 'y')")
        found, start = bank.read(start)
        assert found == [("INSERT", str(number)), ("INSERT", str(number + 10))]


def test_a_prepared_transaction_without_changes_is_nothing(bank: Bank) -> None:
    """Its COMMIT does not make the tables unreadable, whether or not the server logs it."""
    name = bank.schema[-8:]
    start = bank.log.start()
    for xid, end in ((f"'{name}','r'", "COMMIT"), (f"'{name}','s'", "ROLLBACK")):
        bank.run(f"XA START {xid}", "SELECT * FROM t", f"XA END {xid}", f"XA PREPARE {xid}", f"XA {end} {xid}")
    bank.run("INSERT INTO t VALUES (1, 'x')")
    assert bank.read(start)[0] == [("INSERT", "1")]


@pytest.mark.parametrize("name", KNOWN)
def test_a_prepared_transaction_outlives_its_server(own_server: Start, tmp_path: Path, name: str) -> None:
    """The server is killed and stopped; another session finds it by XA RECOVER, and ends it. No row comes twice."""
    server = own_server(name, {**_DURABLE, **_GTIDS.get(name, {})})
    server.query("CREATE DATABASE d")
    bank = Bank(server, "d", tmp_path)
    bank.prepare("'early'", "INSERT INTO t VALUES (1, 'x')")
    start = bank.log.start()
    bank.prepare("'late'", "INSERT INTO t VALUES (2, 'x')")
    bank.prepare("'undone'", "INSERT INTO t VALUES (3, 'x')")
    found, stored = bank.read(start)
    assert (found, sorted(StoredPosition.from_json(stored).prepared)) == (
        [],
        ["X'6c617465',X'',1", "X'756e646f6e65',X'',1"],
    )
    server.restart(kill=True)
    server.restart()
    assert len(server.query("XA RECOVER")) == 3
    bank.run("XA COMMIT 'late'", "INSERT INTO t VALUES (4, 'x')", "XA COMMIT 'early'", "XA ROLLBACK 'undone'")
    bank.reopen()
    found, stored = bank.read(stored)
    assert found == [("INSERT", "2"), ("INSERT", "4"), ("INSERT", "1")]
    assert StoredPosition.from_json(stored).prepared == {}
    assert [1, 2, 4] == [id_ for (id_,) in server.query("SELECT id FROM d.t ORDER BY id")]
    bank.log.close()


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_a_transaction_whose_begin_was_purged_is_unreadable(own_server: Start, tmp_path: Path, name: str) -> None:
    """The table is held; the stream goes on."""
    server = own_server(name, _GTIDS.get(name))
    server.query("CREATE DATABASE d")
    bank = Bank(server, "d", tmp_path)
    bank.prepare("'early'", "INSERT INTO t VALUES (1, 'x')")
    start = bank.log.start()
    bank.prepare("'late'", "INSERT INTO t VALUES (2, 'x')")
    bank.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 'x')")
    _, stored = bank.read(start)
    bank.log.close()
    file = StoredPosition.from_json(stored).place.file
    for _ in range(100):  # a reader that has just ended holds its file
        server.query(f"PURGE BINARY LOGS TO '{file}'")
        if len(server.query("SHOW BINARY LOGS")) == 1:
            break
        time.sleep(0.05)
    bank.run("XA COMMIT 'early'", "XA COMMIT 'late'", "INSERT INTO t VALUES (4, 'x')")
    found, _ = bank.read(stored)
    assert found == [(UNREADABLE, ""), (UNREADABLE, ""), ("INSERT", "4")]
    bank.log.close()


def test_a_compressed_transaction_is_found_when_it_is_committed(mysql: MysqlServer, tmp_path: Path) -> None:
    """MySQL compresses the rows of a prepared transaction."""
    mysql.query("CREATE DATABASE xa_compressed")
    bank = Bank(mysql, "xa_compressed", tmp_path)
    compressed = ("SET SESSION binlog_transaction_compression = ON",)
    bank.prepare("'early'", "INSERT INTO t VALUES (1, REPEAT('x', 150))", settings=compressed)
    start = bank.log.start()
    bank.prepare("'late'", "INSERT INTO t VALUES (2, REPEAT('x', 150))", settings=compressed)
    bank.run("XA COMMIT 'late'", "XA COMMIT 'early'")
    assert bank.read(start)[0] == [("INSERT", "2"), ("INSERT", "1")]
    bank.log.close()
