"""The memory of a reader of the log: a transaction of any size is written to files while it is read.

By default the transactions are small. `SLUICE_LARGE_ROWS=2000000` has one of 340 MB for each case, which takes minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.mysql_programs import MARIADB, MYSQL
from tests.support.mysql_reading import call
from tests.support.mysql_servers import MysqlServer

_ROWS = int(os.environ.get("SLUICE_LARGE_ROWS", "30000"))
_MOST_MEGABYTES = 400
_AT_ONCE = 10_000
_GTIDS = {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}
_CASES = {
    "mariadb": (MARIADB, {}),
    "mariadb compressed": (MARIADB, {"log-bin-compress": "ON", "log-bin-compress-min-len": "64"}),
    "mysql": (MYSQL, _GTIDS),
    "mysql compressed": (MYSQL, {**_GTIDS, "binlog-transaction-compression": "ON"}),
}


def _fill(server: MysqlServer) -> None:
    """Insert rows of about 170 bytes, which compress badly, in one transaction."""
    server.query("CREATE DATABASE d")
    columns = "a int, b bigint, c decimal(12,2), d datetime, e double, f varchar(40), g varchar(40), h char(32)"
    server.query(f"CREATE TABLE d.t (id int PRIMARY KEY, {columns})")
    server.query("CREATE TABLE d.numbers (n int PRIMARY KEY)")
    server.query("INSERT INTO d.numbers VALUES " + ", ".join(f"({n})" for n in range(_AT_ONCE)))


def _transact(server: MysqlServer) -> None:
    texts = ", ".join(["HEX(RANDOM_BYTES(16))"] * 3)
    values = f"n, n * 7, n / 3, '2024-01-31 10:00:00' + INTERVAL n SECOND, n / 7, {texts}"
    with server.connect("d", autocommit=False) as connection, connection.cursor() as cursor:
        for first in range(0, _ROWS, _AT_ONCE):
            cursor.execute(f"INSERT INTO t SELECT {first} + n, {values} FROM numbers")
        connection.commit()


@pytest.mark.parametrize("case", _CASES)
def test_a_transaction_of_any_size_is_read_in_bounded_memory(
    own_server: Callable[..., MysqlServer], tmp_path: Path, case: str
) -> None:
    """The process that reads it stays below 400 MB, and has all of its rows."""
    name, settings = _CASES[case]
    server = own_server(name, {**settings, "max-allowed-packet": "1G"})
    _fill(server)
    start = call(server, tmp_path / "spool")
    _transact(server)
    rows, transactions, megabytes = call(server, tmp_path / "spool", start)
    assert (rows, transactions) == (_ROWS, 1)
    assert megabytes <= _MOST_MEGABYTES
