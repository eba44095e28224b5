"""Sessions that change the tables of the schema `d` at random, until they are told to stop."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pymysql

from tests.support.mysql_servers import MysqlServer

ROWS = 60
TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, n INT, text VARCHAR(100))",
    "CREATE TABLE b (k INT, part VARCHAR(9), n INT, big TEXT, PRIMARY KEY (k, part))",
    "CREATE TABLE c (id BIGINT UNSIGNED PRIMARY KEY, done SMALLINT)",
)
SchemaChange = Callable[[Any, int], None]


class Workload(threading.Thread):
    """A session that changes rows at random; some transactions roll back.

    Args:
        server: the server.
        seed: of its choices.
        transactions: how many; until `stop` if omitted.
        change_schema: changes the definition of tables, given a cursor and the number of the transaction.
        pause: seconds between two transactions.
    """

    def __init__(
        self,
        server: MysqlServer,
        seed: int,
        *,
        transactions: int | None = None,
        change_schema: SchemaChange | None = None,
        pause: float = 0.0,
    ) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._random = random.Random(seed)  # noqa: S311 - choices of a test
        self._transactions = transactions
        self._change_schema = change_schema
        self._pause = pause
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End after the present transaction."""
        self._stopped.set()

    def run(self) -> None:
        """Run the transactions; connect again when the server restarted."""
        connection: Any = None
        n = 0
        while not self._stopped.wait(self._pause) and n != self._transactions:
            try:
                if connection is None or not connection.open:
                    connection = self._server.connect("d", autocommit=False)
                with connection.cursor() as cursor:
                    cursor.execute("SET lock_wait_timeout = 2, innodb_lock_wait_timeout = 2")
                    if self._change_schema is not None:
                        self._change_schema(cursor, n)
                    for _ in range(self._random.randint(1, 8)):
                        self._change(cursor)
                (connection.rollback if self._random.random() < 0.15 else connection.commit)()
            except (pymysql.Error, OSError):
                with suppress(Exception):
                    connection.rollback()
                self._stopped.wait(0.02)
            n += 1
        if connection is not None and connection.open:
            connection.close()

    def _change(self, cursor: Any) -> None:
        cursor.execute("SAVEPOINT s")
        try:
            cursor.execute(self._statement())
        except pymysql.IntegrityError:
            cursor.execute("ROLLBACK TO s")
        else:
            if self._random.random() < 0.1:
                with suppress(pymysql.OperationalError):  # a TRUNCATE has committed
                    cursor.execute("ROLLBACK TO s")

    def _statement(self) -> str:
        draw = self._random
        key, other, n = draw.randint(1, ROWS), draw.randint(1, ROWS), draw.randint(0, 10**6)
        big = f"REPEAT('{draw.choice('abcdef')}', {draw.randint(8000, 12000)})"
        statements = [
            (8, f"INSERT INTO a (id, n, text) VALUES ({key}, {n}, 'é\"{n}\\\\') ON DUPLICATE KEY UPDATE n = {n}"),
            (8, f"UPDATE a SET n = {n} WHERE id = {key}"),
            (4, f"UPDATE a SET id = {other} WHERE id = {key}"),
            (5, f"DELETE FROM a WHERE id = {key}"),
            (3, f"REPLACE INTO a (id, n) VALUES ({key}, {n})"),
            (8, f"INSERT INTO b VALUES ({key}, 'x', {n}, {big})"),
            (12, f"UPDATE b SET n = {n} WHERE k = {key}"),
            (5, f"UPDATE b SET big = {big}, n = {n} WHERE k = {key}"),
            (8, f"UPDATE b SET k = {other} WHERE k = {key}"),
            (5, f"UPDATE b SET part = CONCAT(part, 'y') WHERE k = {key} AND LENGTH(part) < 5"),
            (5, f"DELETE FROM b WHERE k = {key}"),
            (8, f"INSERT INTO c VALUES ({n}, {draw.choice(['1', '0', 'NULL'])})"),
            (2, "UPDATE c SET done = 1 - done"),
            (1, f"TRUNCATE {draw.choice(['a', 'c', 'b'])}"),
        ]
        weights = [weight for weight, _ in statements]
        return draw.choices([statement for _, statement in statements], weights)[0]


class Alterations(threading.Thread):
    """A session that changes the definitions of tables at random.

    Args:
        server: the server.
        seed: of its choices.
        pause: the most seconds between two of them.
    """

    def __init__(self, server: MysqlServer, seed: int, *, pause: float) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._draw = random.Random(seed)  # noqa: S311 - choices of a test
        self._pause = pause
        self._stopped = threading.Event()
        self._number = 0
        self.made: list[str] = []
        """The statements that were made, in their order."""

    def stop(self) -> None:
        """End after the present statement."""
        self._stopped.set()

    def run(self) -> None:
        """Alter tables."""
        while not self._stopped.wait(self._pause * self._draw.random()):
            with suppress(pymysql.Error, OSError):
                self.alter()

    def alter(self) -> None:
        """Make one alteration."""
        with self._server.connect("d") as connection, connection.cursor() as cursor:
            cursor.execute("SET lock_wait_timeout = 5")
            for statement in self._drawn(cursor):
                cursor.execute(statement)
                self.made.append(statement)

    def _drawn(self, cursor: Any) -> Sequence[str]:
        self._number += 1
        cursor.execute("SHOW COLUMNS FROM a LIKE 'x%'")
        columns = [row[0] for row in cursor.fetchall()]
        new = f"x{self._number}"
        kinds: list[Sequence[str]] = [
            (f"ALTER TABLE a ADD COLUMN {new} INT",),
            (f"ALTER TABLE a ADD COLUMN {new} INT DEFAULT 7", f"UPDATE a SET {new} = id WHERE id < 20"),
            ("ALTER TABLE a MODIFY n BIGINT",),
            (f"ALTER TABLE a MODIFY text VARCHAR({100 + self._number})",),
            ("TRUNCATE TABLE e",),
            (f"DROP TABLE {self._draw.choice('ef')}",),
            (f"RENAME TABLE f TO tmp_{self._number}",),
            ("RENAME TABLE e TO tmp_e, f TO e, tmp_e TO f",),
            ("ALTER TABLE b ENGINE = InnoDB",),
            ("OPTIMIZE TABLE c",),
        ]
        if columns:
            one, other = self._draw.choice(columns), self._draw.choice(columns)
            kinds += [
                (f"ALTER TABLE a DROP COLUMN {one}",),
                (f"ALTER TABLE a CHANGE {one} {new} INT",),
                (f"UPDATE a SET {one} = id", f"ALTER TABLE a DROP COLUMN {one}", f"ALTER TABLE a ADD COLUMN {one} INT"),
            ]
            if one != other:
                kinds.append(
                    (
                        f"UPDATE a SET {one} = id, {other} = -id",
                        f"ALTER TABLE a CHANGE {one} tmp INT, CHANGE {other} {one} INT",
                        f"ALTER TABLE a CHANGE tmp {other} INT",
                    )
                )
        made = list(self._draw.choice(kinds))
        for table in "ef":
            values = ", ".join(f"({self._draw.randint(1, 10**6)}, '{table}{self._number}')" for _ in range(9))
            made += [
                f"CREATE TABLE IF NOT EXISTS {table} (id INT PRIMARY KEY, name VARCHAR(20))",
                f"REPLACE INTO {table} VALUES {values}",
            ]
        return made


@contextmanager
def loaded(*sessions: Workload | Alterations) -> Iterator[None]:
    """Change tables while the block runs."""
    for each in sessions:
        each.start()
    try:
        yield
    finally:
        for each in sessions:
            each.stop()
        for each in sessions:
            each.join(60)
