"""Snapshot rows read at any moment and the rows of the log fold to the source's tables, whatever fails meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.postgres.log.log_reader import LogReader
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.spool import SpooledBatch, SpoolLimits
from tests.support.postgres_log import Folded, execute, position, query, reader, rows_of

_KEYS = {"public.a": ("id",), "public.b": ("k", "part"), "public.c": ("id",)}
_TRANSACTIONS = 220
_ROWS = 60
_SCHEMA = (
    "CREATE TABLE a (id int PRIMARY KEY, n int, text text)",
    "CREATE TABLE b (k int, part text, n int, big text, PRIMARY KEY (k, part))",
    "ALTER TABLE b ALTER big SET STORAGE EXTERNAL",
    "CREATE TABLE c (id bigint PRIMARY KEY, done boolean)",
    "INSERT INTO a SELECT i, 0, 'start' FROM generate_series(1, 40) AS i",
    "INSERT INTO b SELECT i, 'x', 0, repeat(chr(97 + i % 20), 9000) FROM generate_series(1, 40) AS i",
)


class Workload(threading.Thread):
    """A session that changes rows at random; some transactions roll back.

    Args:
        uri: the database.
        seed: of its choices.
        with_schema_changes: whether it also adds, drops and renames columns.
    """

    def __init__(self, uri: str, seed: int, *, with_schema_changes: bool) -> None:
        super().__init__(daemon=True)
        self._uri = uri
        self._random = random.Random(seed)  # noqa: S311 - choices of a test
        self._with_schema_changes = with_schema_changes

    def run(self) -> None:
        """Run the transactions; connect again when the server restarted."""
        connection: Any = None
        for n in range(_TRANSACTIONS):
            try:
                if connection is None or connection.closed:
                    connection = psycopg2.connect(self._uri, options="-c lock_timeout=2000")
                with connection.cursor() as cursor:
                    if self._with_schema_changes and n % 40 == 20:
                        self._change_schema(cursor, n)
                    for _ in range(self._random.randint(1, 8)):
                        self._change(cursor)
                if self._random.random() < 0.15:
                    connection.rollback()
                else:
                    connection.commit()
            except (psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.ProgrammingError):
                with suppress(psycopg2.Error, AttributeError):
                    connection.rollback()
                threading.Event().wait(0.02)

    def _change(self, cursor: Any) -> None:
        cursor.execute("SAVEPOINT s")
        try:
            cursor.execute(self._statement())
        except psycopg2.IntegrityError:
            cursor.execute("ROLLBACK TO s")
        else:
            if self._random.random() < 0.1:
                cursor.execute("ROLLBACK TO s")

    def _statement(self) -> str:
        draw = self._random
        key, other, n = draw.randint(1, _ROWS), draw.randint(1, _ROWS), draw.randint(0, 10**6)
        big = f"repeat('{draw.choice('abcdef')}', {draw.randint(8000, 12000)})"
        statements = [
            (8, f"INSERT INTO a (id, n, text) VALUES ({key}, {n}, 'é\"{n}\\') ON CONFLICT (id) DO UPDATE SET n = {n}"),
            (8, f"UPDATE a SET n = {n} WHERE id = {key}"),
            (4, f"UPDATE a SET id = {other} WHERE id = {key}"),
            (5, f"DELETE FROM a WHERE id = {key}"),
            (8, f"INSERT INTO b VALUES ({key}, 'x', {n}, {big})"),
            (12, f"UPDATE b SET n = {n} WHERE k = {key}"),
            (5, f"UPDATE b SET big = {big}, n = {n} WHERE k = {key}"),
            (8, f"UPDATE b SET k = {other} WHERE k = {key}"),
            (5, f"UPDATE b SET part = part || 'y' WHERE k = {key} AND length(part) < 5"),
            (5, f"DELETE FROM b WHERE k = {key}"),
            (8, f"INSERT INTO c VALUES ({n}, {draw.choice(['true', 'false', 'NULL'])})"),
            (2, "UPDATE c SET done = NOT done"),
            (1, f"TRUNCATE {draw.choice(['a', 'c', 'a, c', 'b'])}"),
        ]
        weights = [weight for weight, _ in statements]
        return draw.choices([statement for _, statement in statements], weights)[0]

    def _change_schema(self, cursor: Any, n: int) -> None:
        """Add a column, drop the one before the last, rename the last; then every row has a new version."""
        cursor.execute(f"ALTER TABLE a ADD COLUMN added{n} int")
        if n > 60:
            cursor.execute(f"ALTER TABLE a RENAME COLUMN added{n - 40} TO renamed{n - 40}")
        if n > 100:
            cursor.execute(f"ALTER TABLE a DROP COLUMN renamed{n - 80}")
        cursor.execute("UPDATE a SET n = n + 1")


class Follower:
    """A process that follows the log as a stream does: planned range, durable rows, commit, acknowledgement.

    Args:
        uri: the database.
        folder: for the spools.
        draw: its choices.
    """

    def __init__(self, uri: str, folder: Path, draw: random.Random) -> None:
        self.folded = Folded(_KEYS)
        self.kills = 0
        self._uri = uri
        self._folder = folder
        self._draw = draw
        self._start = position(uri, "a", "b", "c")
        # What a checkpoint has: planned ranges, and how many of them are committed.
        self._planned: list[tuple[int, int]] = []
        self._committed = 0
        self._log: LogReader | None = None
        self._last: SpooledBatch | None = None

    def step(self) -> bool:
        """Follow the log by a batch, or be killed somewhere within; whether all was read."""
        try:
            return self._step()
        except SourceError as error:
            if error.condition not in {"DATABASE_UNREACHABLE", "DATABASE_BUSY", "DATABASE_LOG_NOT_READABLE"}:
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
        if self._committed < len(self._planned):
            batch = log.read_range(*self._planned[-1])
        else:
            end = self._planned[-1][1] if self._planned else self._start.lsn
            batch = log.read_transactions(end, ReadLimit(rows=self._draw.randint(1, 400)))
            if self._dies():
                return False
            self._planned.append((batch.start, batch.end))
        if self._dies():
            return False
        self.folded.add(batch)
        if self._dies():
            return False
        self._committed = len(self._planned)
        if self._dies():
            return False
        if self._draw.random() < 0.5:
            # An acknowledgement may be late: of this batch or of an earlier one.
            log.acknowledge(self._draw.choice(self._planned[-5:])[1])
        return batch.caught_up

    def _dies(self) -> bool:
        if self._draw.random() < 0.03:
            self._kill()
            self.kills += 1
            return True
        return False

    def _kill(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open(self) -> LogReader:
        limits = SpoolLimits(group_rows=50, group_bytes=200_000, file_rows=300)
        return reader(self._uri, self._start, self._folder, limits=limits)


def _snapshot_chunks(uri: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The tables in chunks, each as of its own moment."""
    for table, keys in _KEYS.items():
        for low in (*range(0, _ROWS, 15), _ROWS):
            high = low + 15 if low < _ROWS else 10**9
            where = f"{keys[0]} > {low} AND {keys[0]} <= {high}"
            rows = query(uri, f"SELECT row_to_json(t) FROM {table} AS t WHERE {where}")
            yield table, [row for (row,) in rows]


def _expected(uri: str) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    state = {}
    for table, keys in _KEYS.items():
        rows = [row for (row,) in query(uri, f"SELECT row_to_json(t) FROM {table} AS t")]
        state[table] = {tuple(row[key] for key in keys): row for row in rows}
    return state


def _present(
    state: dict[str, dict[tuple[Any, ...], dict[str, Any]]], expected: dict[str, dict[tuple[Any, ...], dict[str, Any]]]
) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """Rows as the present schema shows them: columns that were added since are null, dropped ones are gone."""
    shaped = {}
    for table, rows in state.items():
        columns = {column for row in expected[table].values() for column in row}
        shaped[table] = {key: {column: row.get(column) for column in columns} for key, row in rows.items()}
    return shaped


@pytest.mark.parametrize("seed", [1, 2])
def test_the_fold_of_snapshot_and_log_is_the_source(tmp_path: Path, seed: int) -> None:
    """With kills at random places, late acknowledgements, a crash of the server, DDL, TOAST, truncates, key updates."""
    draw = random.Random(seed)  # noqa: S311 - choices of a test
    with PostgresServer() as server:
        uri = server.uri()
        execute(uri, *_SCHEMA)
        follower = Follower(uri, tmp_path / "spool", draw)
        workers = [Workload(uri, seed * 10 + n, with_schema_changes=n == 0) for n in range(3)]
        for worker in workers:
            worker.start()
        chunks = _snapshot_chunks(uri)
        steps = 0
        while any(worker.is_alive() for worker in workers):
            follower.step()
            steps += 1
            if steps % 3 == 0 and (chunk := next(chunks, None)) is not None:
                follower.folded.add_snapshot(*chunk)
            if steps == 40:
                server.stop()
                server.start()
        for chunk in chunks:
            follower.folded.add_snapshot(*chunk)
        follower.finish()
        expected = _expected(uri)
        assert follower.kills > 3
        assert expected == _present(follower.folded.tables(), expected)


def test_the_rows_of_a_range_are_the_same_after_a_kill(database: str, tmp_path: Path) -> None:
    """A range that is read again has the same rows in the same order, but for values that the log left out."""
    execute(database, *_SCHEMA)
    start = position(database, "a", "b", "c")
    worker = Workload(database, 7, with_schema_changes=True)
    worker.start()
    worker.join()
    one = reader(database, start, tmp_path / "one")
    batch = one.read_transactions(start.lsn, ReadLimit(rows=300))
    expected = rows_of(batch)
    one.close()
    two = reader(database, start, tmp_path / "two", limits=SpoolLimits(group_rows=17))
    assert expected == rows_of(two.read_range(batch.start, batch.end))
    two.close()
