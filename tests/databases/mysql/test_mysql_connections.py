"""Connections to MySQL and MariaDB: TLS, whose certificate is checked, sockets, and logins that fail."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.chunks.row_readers import has_fast_reader, read_fast
from framework.sources.databases.mysql.chunks.tls_relay import tls_relay
from framework.sources.databases.mysql.connecting import Login
from framework.sources.databases.mysql.history import LogHistory
from framework.sources.databases.mysql.position import read_log_end
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.tables import TableName
from tests.support.mysql_programs import MARIADB, MYSQL
from tests.support.mysql_servers import MysqlServer

_PASSWORD = "p@ss:w/örd"  # noqa: S105 - of a server of the test
_CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"


def _certificates(folder: Path) -> dict[str, str]:
    """Make an authority, and the certificate of a server on this machine; return the settings of a server with it."""

    def call(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    call("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    call("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "server.csr", "-subj", "/CN=server")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n", "utf-8")
    call(
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-out", "cert.pem", "-extfile", "names", "-days", "30"),
    )
    return {
        "ssl-ca": str(folder / "ca.pem"),
        "ssl-cert": str(folder / "cert.pem"),
        "ssl-key": str(folder / "key.pem"),
        "require-secure-transport": "ON",
    }


@pytest.fixture(params=[MARIADB, MYSQL])
def secured(
    request: pytest.FixtureRequest, own_server: Callable[..., MysqlServer], tmp_path: Path
) -> tuple[MysqlServer, Path]:
    """A server that accepts TLS alone, and its authority."""
    settings = _certificates(tmp_path)
    is_mariadb = request.param == MARIADB
    first = {**settings, **({"ssl": "ON"} if is_mariadb else {}), "require-secure-transport": "OFF"}
    server = own_server(request.param, first)
    server.query("CREATE USER sluice@'%%' IDENTIFIED BY %s REQUIRE SSL", _PASSWORD)
    server.query("GRANT ALL ON *.* TO sluice@'%'")
    server.query("CREATE TABLE mysql.big (id INT PRIMARY KEY, t LONGTEXT)")
    server.query("INSERT INTO mysql.big VALUES (1, REPEAT('x', 5000000)), (2, 'y')")
    server.query("SET GLOBAL require_secure_transport = ON")
    return server, tmp_path / "ca.pem"


def _connection(server: MysqlServer, query: str, host: str = "localhost") -> Connection:
    uri = f"mysql://sluice:{quote(_PASSWORD, safe='')}@{host}:{server.port}/mysql?{query}"
    return Connection(name="test", uri=uri)


@pytest.mark.parametrize("options", ["ssl-mode=required", "ssl-ca={ca}", "ssl-mode=verify-ca&ssl-ca={ca}"])
def test_rows_are_read_over_tls(secured: tuple[MysqlServer, Path], options: str) -> None:
    """By both readers; the one that knows no TLS gets it from a relay, also for packets of any size."""
    server, authority = secured
    connection = _connection(server, options.format(ca=authority))
    with Session(connection) as session:
        assert session.rows(_CIPHER)[0][1]
    assert has_fast_reader(connection, bounded=True)
    assert not has_fast_reader(connection, bounded=False)
    for _ in range(2):  # the password is known to the server the second time
        batches = list(read_fast(connection, "SELECT id, t FROM mysql.big ORDER BY id", []))
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert [(1, 5_000_000), (2, 1)] == [(row["id"], len(row["t"])) for row in rows]
    (cipher,) = read_fast(connection, "SHOW SESSION STATUS LIKE 'Ssl_version'", [])
    assert "TLS" in str(cipher.to_pylist())


def test_a_certificate_that_is_not_the_servers_is_refused(secured: tuple[MysqlServer, Path], tmp_path: Path) -> None:
    """Another authority, or another name, is a named error, before a password is sent."""
    server, authority = secured
    (tmp_path / "other").mkdir()
    _certificates(tmp_path / "other")
    for options, host in (
        (f"ssl-ca={tmp_path / 'other' / 'ca.pem'}", "localhost"),
        (f"ssl-ca={authority}", "127.0.0.1"),
    ):
        with pytest.raises(SourceError, match="DATABASE_TLS_FAILED"):
            Session(_connection(server, options, host))


def test_tls_is_required_unless_the_server_is_on_this_machine() -> None:
    """Without a word about it in the connection string."""
    modes = {
        host: Login.of(Connection(name="a", uri=f"mysql://u:p@{host}/d")).mode
        for host in ("db.example.com", "10.0.0.7", "localhost", "127.0.0.1", "[::1]")
    }
    assert {
        "db.example.com": "required",
        "10.0.0.7": "required",
        "localhost": "preferred",
        "127.0.0.1": "preferred",
        "[::1]": "preferred",
    } == modes


def test_a_relay_ends_with_its_block(mariadb: MysqlServer) -> None:
    """Its socket is in a folder of this user alone, and is removed."""
    login = Login.of(Connection(name="a", uri=f"{mariadb.uri()}?ssl-mode=required"))
    with tls_relay(login) as path:
        assert 0o700 == Path(path).parent.stat().st_mode & 0o777
    assert not Path(path).parent.exists()


def test_rows_are_read_by_a_socket(mysql_server: MysqlServer) -> None:
    """By both readers."""
    connection = Connection(name="a", uri=f"mysql://root@localhost:1/mysql?socket={quote(str(mysql_server.socket))}")
    with Session(connection) as session:
        assert [(1,)] == session.rows("SELECT 1")
    assert [{"one": 1}] == [row for batch in read_fast(connection, "SELECT 1 AS one", []) for row in batch.to_pylist()]


def test_a_refused_login_has_no_password_in_its_text(mysql_server: MysqlServer) -> None:
    """And says which user it was."""
    connection = Connection(name="a", uri=f"mysql://nobody:hunter2@127.0.0.1:{mysql_server.port}/mysql")
    with pytest.raises(SourceError, match="DATABASE_LOGIN_REFUSED") as caught:
        Session(connection)
    assert "hunter2" not in str(caught.value)
    assert "nobody" in str(caught.value)


def test_each_missing_right_is_granted_by_the_statement_of_its_error(mysql_server: MysqlServer, database: str) -> None:
    """To the account of the session, which has a host, until rows and the log can be read."""
    name, account = database.rpartition("/")[2], "'stranger'@'localhost'"
    mysql_server.query(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    mysql_server.query(f"CREATE TABLE {name}.u (id INT PRIMARY KEY)")
    mysql_server.query(f"CREATE USER {account}")
    mysql_server.query(f"GRANT SELECT ON {name}.u TO {account}")
    connection = Connection(name="bank", uri=mysql_server.uri(name, user="stranger"))

    def read() -> None:
        with Session(connection) as session:
            session.rows("SELECT id FROM t", table=TableName(schema=name, table="t"))
            LogHistory(session, "test").begun(read_log_end(session))

    granted = list[str]()
    try:
        for _ in range(3):
            with pytest.raises(SourceError) as caught:
                read()
            assert caught.value.condition == "DATABASE_PERMISSION"
            granted.append(str(caught.value.fields["statement"]))
            mysql_server.query(granted[-1])
        read()
    finally:
        mysql_server.query(f"DROP USER {account}")
    assert granted == [
        f"GRANT SELECT ON `{name}`.`t` TO {account}",
        f"GRANT REPLICATION CLIENT ON *.* TO {account}",
        f"GRANT REPLICATION SLAVE ON *.* TO {account}",
    ]


def test_a_database_without_rights_is_granted_by_the_statement_of_its_error(
    mysql_server: MysqlServer, database: str
) -> None:
    """The login itself is refused."""
    name = database.rpartition("/")[2]
    mysql_server.query("CREATE USER stranger@localhost")
    try:
        with pytest.raises(SourceError) as caught:
            Session(Connection(name="bank", uri=mysql_server.uri(name, user="stranger")))
        statement = f"GRANT SELECT ON `{name}`.* TO 'stranger'@'localhost'"
        assert (caught.value.condition, caught.value.fields["statement"]) == ("DATABASE_PERMISSION", statement)
        mysql_server.query(statement)
        Session(Connection(name="bank", uri=mysql_server.uri(name, user="stranger"))).close()
    finally:
        mysql_server.query("DROP USER stranger@localhost")


def test_a_server_that_never_answers_is_unreachable() -> None:
    """Such as one behind a balancer, which accepts the connection: the limit of a start ends it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"mariadb://root@127.0.0.1:{silent.getsockname()[1]}/d?connect-timeout=1"
        with pytest.raises(SourceError) as caught:
            Session(Connection(name="bank", uri=uri))
    assert caught.value.condition == "DATABASE_UNREACHABLE"
