"""Rows of chunks read at any moment and the rows of the log fold to the source's tables, whatever fails meanwhile."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.cursors import DictCursor

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.changes_source import MysqlLog
from framework.sources.databases.position import position_of
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.spool import SpooledBatch
from tests.support.mysql_changes import log_of
from tests.support.mysql_load import ROWS, TABLES, Workload
from tests.support.mysql_programs import MARIADB, MARIADB_11, MYSQL
from tests.support.mysql_servers import MysqlServer
from tests.support.postgres_log import Folded

_KEYS = {"d.a": ("id",), "d.b": ("k", "part"), "d.c": ("id",)}
_TRANSACTIONS = 60 * int(os.environ.get("SLUICE_KILLS", "3"))
_SURE_KILLS = (2, 6, 11)
_GTIDS = {"gtid-mode": "ON", "enforce-gtid-consistency": "ON"}
_SERVERS: dict[str, tuple[str, dict[str, str]]] = {
    "mariadb": (MARIADB, {}),
    "mariadb 11 compressed": (MARIADB_11, {"log-bin-compress": "ON", "log-bin-compress-min-len": "10"}),
    "mysql compressed": (MYSQL, {**_GTIDS, "binlog-transaction-compression": "ON"}),
}


def _change_schema(cursor: Any, n: int) -> None:
    """Add a column, drop the one before the last, rename the last; then every row has a new version."""
    if n % 40 != 20:
        return
    cursor.execute(f"ALTER TABLE a ADD COLUMN added{n} INT")
    if n > 60:
        cursor.execute(f"ALTER TABLE a CHANGE COLUMN added{n - 40} renamed{n - 40} INT")
    if n > 100:
        cursor.execute(f"ALTER TABLE a DROP COLUMN renamed{n - 80}")
    cursor.execute("UPDATE a SET n = n + 1")


class Follower:
    """A process that follows the log as a stream does: planned range, durable rows, commit.

    Args:
        server: the server.
        folder: for the spools.
        draw: its choices.
    """

    def __init__(self, server: MysqlServer, folder: Path, draw: random.Random) -> None:
        self.folded = Folded(_KEYS)
        self.kills = self._asked = 0
        self._server = server
        self._folder = folder
        self._draw = draw
        self._log: MysqlLog | None = None
        self._start = self._open().start()
        # What a checkpoint has: planned ranges, and how many of them are committed.
        self._planned: list[tuple[str, str]] = []
        self._committed = 0

    def step(self) -> bool:
        """Follow the log by a batch, or be killed somewhere within; whether all was read."""
        try:
            return self._step()
        except SourceError as error:
            if error.condition not in {"DATABASE_UNREACHABLE", "DATABASE_BUSY"}:
                raise
            self._kill()
            threading.Event().wait(0.05)
            return False

    def finish(self) -> None:
        """Read the rest."""
        while not self.step():
            pass
        self._kill()

    def _step(self) -> bool:
        log = self._log = self._log or self._open()
        batch: SpooledBatch
        if self._committed < len(self._planned):
            batch = log.read_range(*self._planned[-1])
            assert batch.end == position_of(self._planned[-1][1]).order
        else:
            start = self._planned[-1][1] if self._planned else self._start
            batch, end = log.read_transactions(start, ReadLimit(rows=self._draw.randint(1, 400)))
            if self._dies():
                return False
            self._planned.append((start, end))
        if self._dies():
            return False
        self.folded.add(batch)
        if self._dies():
            return False
        self._committed = len(self._planned)
        return batch.caught_up and not self._dies()

    def _dies(self) -> bool:
        self._asked += 1
        # A slow machine has few steps: some kills do not depend on chance.
        if self._draw.random() < 0.05 or self._asked in _SURE_KILLS:
            self._kill()
            self.kills += 1
            return True
        return False

    def _kill(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open(self) -> MysqlLog:
        return log_of(self._server, [*_KEYS], self._folder)


def _rows(server: MysqlServer, statement: str) -> list[dict[str, Any]]:
    with server.connect("d", cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return [dict(row) for row in cursor.fetchall()]


def _snapshot_chunks(server: MysqlServer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The tables in chunks, each as of its own moment."""
    for table, keys in _KEYS.items():
        for low in (*range(0, ROWS, 15), ROWS):
            high = low + 15 if low < ROWS else 10**9
            yield table, _rows(server, f"SELECT * FROM {table} WHERE {keys[0]} > {low} AND {keys[0]} <= {high}")


def _expected(server: MysqlServer) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    return {
        table: {tuple(row[key] for key in keys): row for row in _rows(server, f"SELECT * FROM {table}")}
        for table, keys in _KEYS.items()
    }


def _present(
    state: dict[str, dict[tuple[Any, ...], dict[str, Any]]], expected: dict[str, dict[tuple[Any, ...], dict[str, Any]]]
) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """Rows as the present schema shows them: columns that were added since are null, dropped ones are gone."""
    shaped = {}
    for table, rows in state.items():
        columns = {column for row in expected[table].values() for column in row}
        shaped[table] = {key: {column: row.get(column) for column in columns} for key, row in rows.items()}
    return shaped


@pytest.mark.parametrize("name", _SERVERS)
def test_the_fold_of_chunks_and_log_is_the_source(
    own_server: Callable[..., MysqlServer], tmp_path: Path, name: str
) -> None:
    """With kills at random places, kills of the server, new files of the log, DDL, truncates and updates of keys."""
    seed = int(os.environ.get("SLUICE_SEED", "1"))
    draw = random.Random(seed)  # noqa: S311 - choices of a test
    program, settings = _SERVERS[name]
    server = own_server(program, {"innodb-flush-log-at-trx-commit": "1", "sync-binlog": "1", **settings})
    server.query("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    for statement in TABLES:
        server.query(statement, database="d")
    server.query(f"INSERT INTO d.a VALUES {', '.join(f'({n}, 0, NULL)' for n in range(1, 41))}")
    follower = Follower(server, tmp_path / "spool", draw)
    workers = [
        Workload(server, seed * 10 + n, transactions=_TRANSACTIONS, change_schema=_change_schema if n == 0 else None)
        for n in range(4)
    ]
    for worker in workers:
        worker.start()
    chunks = _snapshot_chunks(server)
    steps = 0
    while any(worker.is_alive() for worker in workers):
        follower.step()
        steps += 1
        if steps % 3 == 0:
            with suppress(pymysql.Error):
                if (chunk := next(chunks, None)) is not None:
                    follower.folded.add_snapshot(*chunk)
        if steps % 60 == 40:
            server.restart(kill=True)
        if steps % 60 == 20:
            server.query("FLUSH BINARY LOGS")
    for chunk in chunks:
        follower.folded.add_snapshot(*chunk)
    follower.finish()
    expected = _expected(server)
    assert expected == _present(follower.folded.tables(), expected), f"seed {seed}"
    assert follower.kills > 2
