"""The servers that the tests of MySQL and MariaDB use."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.mysql_programs import MYSQL
from tests.support.mysql_servers import MysqlServer


def test_a_server_logs_rows_with_names(mysql_server: MysqlServer) -> None:
    """Each server writes whole rows and the names of their columns into its log."""
    found = mysql_server.query("SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata")
    assert found == [(1, "ROW", "FULL", "FULL")]


def test_a_killed_server_keeps_its_rows(own_server: Callable[..., MysqlServer]) -> None:
    """A server that is killed and started again has what was committed, at the same port."""
    server = own_server("mariadb-10.11")
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (a INT PRIMARY KEY)")
    server.query("INSERT INTO d.t VALUES (7)")
    server.restart(kill=True)
    assert server.query("SELECT a FROM d.t") == [(7,)]


def test_a_replica_follows(own_server: Callable[..., MysqlServer]) -> None:
    """A replica has the rows of its primary, with the same GTIDs."""
    settings = {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}
    primary = own_server(MYSQL, settings)
    replica = own_server(MYSQL, settings, server_id=2)
    replica.replicate_from(primary)
    primary.query("CREATE DATABASE d")
    primary.await_replica(replica)
    assert replica.query("SELECT @@gtid_executed") == primary.query("SELECT @@gtid_executed")
