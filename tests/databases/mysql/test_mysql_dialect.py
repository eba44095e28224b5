"""MariaDB and MySQL pass the suite that every dialect passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.sources.databases.source_session import LogName
from framework.testing.dialect_conformance import DialectConformance
from framework.testing.dialect_copies import EngineUnderTest, TypeCase
from tests.support.mysql_programs import KNOWN, MYSQL
from tests.support.mysql_servers import MysqlServer

_GTIDS = {MYSQL: {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}}


class Mysql:
    """A server of the test's own, since its log is broken."""

    schema = "d"
    number = "INT"
    rows = 3000  # of which a chunk has at least 1000
    chunk_options = {"chunkBytes": "1", "maxChunksPerTrigger": "1"}  # noqa: RUF012 - constant
    types = (
        TypeCase(type="BIGINT", literals=("9223372036854775807", "-9223372036854775808")),
        TypeCase(type="BIGINT UNSIGNED", literals=("18446744073709551615", "0")),
        TypeCase(type="FLOAT", literals=("16777216", "-0.1")),
        TypeCase(type="DOUBLE", literals=("0.1e0 + 0.2e0", "-0e0", "5e-324")),
        TypeCase(type="DECIMAL(38, 9)", literals=("12345678901234567890123456789.123456789", "-0.000000001")),
        TypeCase(type="DECIMAL(65, 30)", literals=("99999999999999999999999999999999999.1", "0")),
        TypeCase(
            type="TEXT CHARACTER SET utf8mb4", literals=("''", "'Grüße \"日本\" \\\\ / 😀'", "REPEAT('x', 10000)")
        ),
        TypeCase(type="CHAR(5) CHARACTER SET latin1", literals=("'ü  '", "''")),
        TypeCase(type="BIT(1)", literals=("b'1'", "b'0'")),
        TypeCase(type="BIT(12)", literals=("b'101'", "b'0'")),
        TypeCase(type="DATE", literals=("'0001-01-01'", "'9999-12-31'", "'1582-10-10'")),
        TypeCase(type="DATETIME(6)", literals=("'1899-12-31 23:59:59.999999'", "'9999-12-31 23:59:59.999999'")),
        TypeCase(type="TIMESTAMP(6) NULL", literals=("'2026-03-29 02:30:00.000001'", "'1970-01-01 00:00:01'")),
        TypeCase(type="TIME(3)", literals=("'-838:59:59.000'", "'25:00:00.123'", "'-00:00:00.500'")),
        TypeCase(type="YEAR", literals=("1901", "2155", "0")),
        TypeCase(type="BINARY(4)", literals=("x'00ff'", "''")),
        TypeCase(type="VARBINARY(9)", literals=("x'00ff00'", "''")),
        TypeCase(type="ENUM('a', 'b,\"c')", literals=("'b,\"c'", "'a'")),
        TypeCase(type="SET('x', 'y', 'z')", literals=("'x,z'", "''")),
        TypeCase(type="JSON", literals=('\'{"a": [1, null, "é"]}\'', "'[]'")),
    )

    def __init__(self, start: Callable[..., MysqlServer], name: str, folder: Path) -> None:
        self._start, self._name, self._folder = start, name, folder
        self.options = {"connection": "bank", "connectionsFolder": str(folder)}
        self._server = self._begin()

    def execute(self, *statements: str) -> None:
        """Run statements."""
        for statement in statements:
            self._server.query(statement, database="d")

    def lose_log(self, log: LogName) -> None:
        """Remove all files but a new one, as the server does by age."""
        del log
        self._server.purge_log()

    def replace(self) -> None:
        """Start another server with the same statements in its log, and more of them."""
        port = self._server.port
        self._server.stop()
        time.sleep(1)  # a file of the log says in which second it was begun
        self._server = self._begin(port)
        self.execute("CREATE TABLE items (id INT NOT NULL PRIMARY KEY, n INT)")
        self.execute("INSERT INTO items VALUES " + ", ".join(f"({each}, {each})" for each in range(1, self.rows + 1)))
        self.execute("UPDATE items SET n = 0 WHERE id = 1")

    def _begin(self, port: int = 0) -> MysqlServer:
        server = self._start(self._name, _GTIDS.get(self._name), port=port)
        server.query("CREATE DATABASE d CHARACTER SET utf8mb4")
        (self._folder / "connections.yml").write_text(f"bank: {server.uri('d')}\n", "utf-8")
        return server


class TestMysql(DialectConformance):
    """Servers that keep nothing for a reader, and log every table."""

    @pytest.fixture(params=KNOWN)
    def engine(
        self, request: pytest.FixtureRequest, own_server: Callable[..., MysqlServer], tmp_path: Path
    ) -> EngineUnderTest:
        """An empty database of each server."""
        return Mysql(own_server, request.param, tmp_path)
