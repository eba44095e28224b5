"""Each finding of the preflight, made at a real server and mended by exactly the statement that it prints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql import preflight
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.tables import TableName
from tests.support.mysql_programs import MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer

_T, _CHILD, _WITHOUT_KEY, _OLD = (TableName(schema="d", table=each) for each in ("t", "child", "without_key", "old"))
_SCHEMA = (
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY)",
    "CREATE TABLE d.child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES d.t (id) ON DELETE CASCADE)",
    "CREATE TABLE d.without_key (a INT)",
    "CREATE TABLE d.old (id INT PRIMARY KEY) ENGINE = MyISAM",
)


def _findings(server: MysqlServer, *names: TableName, user: str = "root") -> dict[str, str]:
    """Return the statement of each finding by its condition and its setting or right."""
    with Session(Connection(name="bank", uri=server.uri(user=user))) as session:
        found = preflight.check(session, names)
    return {f"{each.condition} {each.statement.split(' = ')[0]}": each.statement for each in found}


def _mend(server: MysqlServer, findings: dict[str, str]) -> None:
    for statement in findings.values():
        server.query(statement)


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_a_sound_server_has_no_finding(own_server: Callable[..., MysqlServer], name: str) -> None:
    """Neither for an administrator nor for a user with the rights that the page names."""
    server = own_server(name)
    for statement in _SCHEMA:
        server.query(statement)
    server.query("CREATE USER copier@localhost")
    server.query("GRANT SELECT ON d.* TO copier@localhost")
    server.query("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO copier@localhost")
    assert _findings(server, _T) == {}
    assert _findings(server, _T, user="copier") == {}


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_settings_of_the_log_are_mended_by_their_statements(own_server: Callable[..., MysqlServer], name: str) -> None:
    """Format, images, metadata and retention can be set while the server runs."""
    broken = {
        "binlog-format": "STATEMENT",
        "binlog-row-image": "MINIMAL",
        "binlog-row-metadata": "MINIMAL",
        "binlog-expire-logs-seconds": "3600",
    }
    if name == MYSQL:
        broken["binlog-row-value-options"] = "PARTIAL_JSON"
    server = own_server(name, broken)
    found = _findings(server)
    conditions = [each.split()[0] for each in found]
    assert conditions == ["MYSQL_LOG_SETTING"] * (len(broken) - 1) + ["MYSQL_LOG_KEPT_BRIEFLY"]
    _mend(server, found)
    assert _findings(server) == {}


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_missing_rights_are_granted_by_their_statements(own_server: Callable[..., MysqlServer], name: str) -> None:
    """A user without rights is told each of them."""
    server = own_server(name)
    for statement in _SCHEMA:
        server.query(statement)
    server.query("CREATE USER copier@localhost")
    server.query("GRANT SELECT ON d.* TO copier@localhost")
    found = _findings(server, _T, user="copier")
    assert [each.split()[0] for each in found] == ["MYSQL_GRANT_MISSING"] * 2
    _mend(server, found)
    assert _findings(server, _T, user="copier") == {}


@pytest.mark.parametrize("name", [MARIADB, MYSQL])
def test_tables_are_mended_by_their_statements(own_server: Callable[..., MysqlServer], name: str) -> None:
    """A table without a key, one without transactions, and one whose rows a foreign key changes."""
    server = own_server(name)
    for statement in _SCHEMA:
        server.query(statement)
    found = _findings(server, _T, _CHILD, _WITHOUT_KEY, _OLD)
    cascades = [] if name == MYSQL else ["MYSQL_CASCADES"]  # MySQL 9.6 and newer logs the rows
    expected = [*cascades, "DATABASE_TABLE_WITHOUT_KEY", "MYSQL_NO_TRANSACTIONS"]
    assert [each.split()[0] for each in found] == expected
    # The catalog hides foreign keys from a user who may only read.
    server.query("CREATE USER copier@localhost")
    server.query("GRANT SELECT ON d.* TO copier@localhost")
    server.query("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO copier@localhost")
    assert _findings(server, _T, _CHILD, _WITHOUT_KEY, _OLD, user="copier") == found
    _mend(server, found)
    assert _findings(server, _T, _CHILD, _WITHOUT_KEY, _OLD) == {}


def test_a_server_without_a_log_is_named(own_server: Callable[..., MysqlServer]) -> None:
    """Nothing else is said of it: a restart is needed."""
    server = own_server(MARIADB, {"skip-log-bin": "1"})
    assert [each.split()[0] for each in _findings(server)] == ["MYSQL_LOG_OFF"]


def test_a_log_that_leaves_databases_out_is_named(own_server: Callable[..., MysqlServer]) -> None:
    """The setting can only be changed in the server's configuration."""
    server = own_server(MARIADB, {"binlog-ignore-db": "d"})
    assert [each.split()[0] for each in _findings(server)] == ["MYSQL_LOG_FILTERED"]


def test_a_replica_without_its_updates_is_named(own_server: Callable[..., MysqlServer]) -> None:
    """Its log lacks what it replicates."""
    primary = own_server(MARIADB)
    replica = own_server(MARIADB, server_id=2)
    replica.replicate_from(primary)
    assert [each.split()[0] for each in _findings(replica)] == ["MYSQL_REPLICA_LOG_OFF"]
