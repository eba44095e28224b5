"""PostgreSQL and a second kind of database are dialects: both pass the suite that ships."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.sources.databases.source_session import LogName
from framework.testing.dialect_conformance import DialectConformance
from framework.testing.dialect_copies import EngineUnderTest, TypeCase
from tests.databases.conftest import new_database
from tests.support.postgres_log import execute, query


class Postgres:
    """A database of the tests' server."""

    schema = "public"
    number = "int"
    rows = 3000  # of which a chunk has at least 1000
    chunk_options = {"chunkBytes": "1", "maxChunksPerTrigger": "1"}  # noqa: RUF012 - constant
    types = (
        TypeCase(type="bigint", literals=("9223372036854775807", "-9223372036854775808")),
        TypeCase(type="double precision", literals=("0.1::float8 + 0.2::float8", "'-0'", "'Infinity'")),
        TypeCase(type="numeric(38, 9)", literals=("12345678901234567890123456789.123456789", "-0.000000001")),
        TypeCase(type="text", literals=("''", "'Grüße \"日本\" \\ / '", "repeat('x', 10000)")),
        TypeCase(type="boolean", literals=("true", "false")),
        TypeCase(type="date", literals=("'0001-01-01'", "'9999-12-31'", "'1582-10-10'")),
        TypeCase(type="timestamp", literals=("'1899-12-31 23:59:59.999999'", "'9999-12-31 23:59:59.999999'")),
        TypeCase(type="timestamptz", literals=("'2026-03-29 02:30:00.000001+01'", "'1900-01-01 00:00:00+00'")),
        TypeCase(type="bytea", literals=(r"'\x'", r"'\x00ff'")),
        TypeCase(type="int[]", literals=("'{1,NULL,-3}'", "'{}'")),
    )

    def __init__(self, server: PostgresServer, uri: str, folder: Path) -> None:
        self._server, self._uri, self._folder = server, uri, folder
        self.options = {"connection": "bank", "connectionsFolder": str(folder)}
        self._connect(uri)

    def execute(self, *statements: str) -> None:
        """Run statements."""
        execute(self._uri, *statements)

    def lose_log(self, log: LogName) -> None:
        """Let another reader advance the slot."""
        query(self._uri, f"SELECT pg_replication_slot_advance('{log.position}', pg_current_wal_lsn())::text")

    def replace(self) -> None:
        """Connect to another database of the server, in which the slot can't be read."""
        self._connect(self._server.uri())

    def _connect(self, uri: str) -> None:
        (self._folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")


class LedgerFile:
    """A SQLite file, which `tests/support/ledger` reads."""

    schema = "main"
    number = "INTEGER"
    rows = 100
    chunk_options = {"chunkBytes": "30", "maxChunksPerTrigger": "1"}  # noqa: RUF012 - constant
    types = (
        TypeCase(type="INTEGER", literals=("9223372036854775807", "-9223372036854775808")),
        TypeCase(type="REAL", literals=("0.1 + 0.2", "1e300", "5e-324")),
        TypeCase(type="TEXT", literals=("''", "'Grüße \"日本\" \\ / '")),
        TypeCase(type="BOOLEAN", literals=("1", "0")),
    )

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.options = {"connection": "bank", "connectionsFolder": str(folder)}
        uri = f"ledger://local/{quote(str(self.path), safe='')}"
        (folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
        self.path.touch()

    def execute(self, *statements: str) -> None:
        """Run statements."""
        with closing(sqlite3.connect(self.path, isolation_level=None, timeout=30)) as opened:
            for statement in statements:
                opened.execute(statement)

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with closing(sqlite3.connect(self.path)) as opened:
            return opened.execute(query).fetchall()

    def lose_log(self, log: LogName) -> None:
        """Remove all changes, as a clean-up by age."""
        del log
        self.execute("DELETE FROM ledger_changes")

    def replace(self) -> None:
        """Give the file another identity, with the same tables and changes."""
        self.execute("UPDATE ledger_identity SET id = 'another'")


class TestPostgres(DialectConformance):
    """PostgreSQL keeps a position for each reader, and is acknowledged."""

    @pytest.fixture
    def engine(self, server: PostgresServer, tmp_path: Path) -> Iterator[EngineUnderTest]:
        """An empty database."""
        with new_database(server) as uri:
            yield Postgres(server, uri, tmp_path)


class TestLedger(DialectConformance):
    """A database that is polled; it has neither a slot nor an acknowledgement."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> EngineUnderTest:
        """An empty file."""
        return LedgerFile(tmp_path)
