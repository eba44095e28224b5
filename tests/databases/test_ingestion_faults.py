"""Copies of a database through faults: each ends equal to its source, row by row."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg2

from framework import Pipeline
from framework.run.update.results import UpdateState
from tests.support.copied_tables import copy_rows, resync
from tests.support.reader_processes import kill_readers
from tests.support.running_updates import until
from tests.support.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[{"schema": {"source_schema": "public", "destination_schema": "copies"}}],
    options={"chunkBytes": "64k", "maxChunksPerTrigger": "2"},
)
"""
_TABLES = (
    "CREATE TABLE orders (id INT PRIMARY KEY, customer TEXT, amount NUMERIC(12,2), n INT)",
    "INSERT INTO orders SELECT i, repeat('c', 60) || i, i * 1.25, 0 FROM generate_series(1, {rows}) i",
    "CREATE TABLE notes (a INT, b TEXT, body TEXT, PRIMARY KEY (a, b))",
    "ALTER TABLE notes ALTER body SET STORAGE EXTERNAL",
    "INSERT INTO notes SELECT i, 'b' || i, repeat(chr(97 + i % 26), 5000) FROM generate_series(1, 100) i",
    "ANALYZE",
)
_ROUNDS = 4
_TERMINATE = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'sluice' AND datname = current_database()
"""


class Shop:
    """A source with two tables and its pipeline.

    Args:
        spark: the session.
        folder: of the pipeline.
        run: runs a statement at the source.
        uri: as the pipeline connects.
        rows: of the first table, some 600 for each chunk.
    """

    def __init__(self, spark: SparkSession, folder: Path, run: Run, uri: str, *, rows: int) -> None:
        self._spark, self._folder, self.run = spark, folder, run
        (folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
        (folder / "module.py").write_text(_MODULE, "utf-8")
        spec = {"name": "shop", "storage": "storage", "libraries": [{"file": {"path": "module.py"}}]}
        (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
        for statement in _TABLES:
            run(statement.format(rows=rows))

    def pipeline(self) -> Pipeline:
        """The pipeline, with the tables and columns that the source has now."""
        return Pipeline.from_spec(self._folder / "pipeline.yml", spark=self._spark)

    def update(self) -> Pipeline:
        """Run an update, which must complete, and return its pipeline."""
        pipeline = self.pipeline()
        result = pipeline.run()
        assert result.state is UpdateState.COMPLETED, result.flows
        return pipeline

    def planned_chunks(self, table: str) -> int:
        """How many micro-batches of a table's snapshot are planned."""
        pattern = f"storage/checkpoints/*{table}/*snapshot_flow/*/offsets/[0-9]*"
        return len(list(self._folder.glob(pattern)))

    def assert_equal(self, table: str, columns: str) -> None:
        """Assert that the copy has exactly the rows of the source."""
        rows = copy_rows(self.pipeline(), table)
        found = sorted((tuple(row[name] for name in columns.split(", ")) for row in rows), key=repr)
        assert found == sorted(self.run(f"SELECT {columns} FROM {table}"), key=repr)


def _write_at_random(uri: str, seed: int, stopped: threading.Event, n: str, amount: str) -> None:
    """Change rows of both tables until the event is set: new, changed and deleted rows, changed keys, large values."""
    draw = random.Random(seed)  # noqa: S311 - choices of a test
    with closing(psycopg2.connect(uri)) as connection:
        while not stopped.wait(0.03):
            key, other = draw.randint(1, 9000), draw.randint(1, 400)
            statement = draw.choice(
                [
                    f"UPDATE orders SET {n} = {n} + 1, {amount} = {amount} + 1 WHERE id = {key}",
                    f"UPDATE orders SET id = id + 20000 WHERE id = {key}",
                    f"DELETE FROM orders WHERE id = {key}",
                    f"INSERT INTO orders VALUES ({key}, 'new', 0, 0) ON CONFLICT (id) DO UPDATE SET {n} = 0",
                    f"UPDATE notes SET a = a + 1000 WHERE a = {other}",
                    f"UPDATE notes SET b = b || 'x' WHERE a = {other}",
                    f"UPDATE notes SET body = repeat('z', 6000) WHERE a = {other}",
                    f"INSERT INTO notes VALUES ({other}, 'n', repeat('n', 5000)) ON CONFLICT DO NOTHING",
                    f"DELETE FROM notes WHERE a = {other}",
                ]
            )
            with suppress(psycopg2.IntegrityError), connection, connection.cursor() as cursor:
                cursor.execute(statement)


class Load:
    """Two sessions that change rows at random while the block runs; `n` and `amount` are the names of two columns."""

    def __init__(self, uri: str, n: str = "n", amount: str = "amount") -> None:
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=_write_at_random, args=(uri, seed, self._stopped, n, amount), daemon=True)
            for seed in (1, 2)
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(30)


def change_keys_and_identities(run: Run) -> None:
    """A replica identity of all columns and back, a truncate, keys that move, one transaction of many rows."""
    run("ALTER TABLE notes REPLICA IDENTITY FULL; UPDATE notes SET a = a + 500 WHERE a < 50")
    run("DELETE FROM notes WHERE a = 60")
    run("ALTER TABLE notes REPLICA IDENTITY DEFAULT; UPDATE notes SET a = a + 500 WHERE a BETWEEN 61 AND 80")
    run("TRUNCATE orders; INSERT INTO orders SELECT i, 'after', i, 1 FROM generate_series(5, 10000) i")
    run("UPDATE orders SET id = -id WHERE id % 2 = 0")


def test_dropped_connections_killed_readers_and_changed_keys_leave_no_trace(
    interpreting: SparkSession, folder: Path, run: Run, database: str
) -> None:
    """The network fails, a reader or its backend ends, in the snapshot and in the log: no one has to do anything.

    Nor for other keys and replica identities, a truncate, and one transaction of many rows.
    """
    with TcpProxy(urlsplit(database).port or 0) as proxy:
        shop = Shop(
            interpreting, folder, run, database.replace(f":{urlsplit(database).port}", f":{proxy.port}"), rows=6000
        )
        handle = shop.pipeline().start()
        until(lambda: shop.planned_chunks("orders") > 0, handle)
        draw = random.Random(5)  # noqa: S311 - choices of a test
        with Load(database):
            for number in range(_ROUNDS):
                # The network fails only when the reader has come again.
                if number % 2:
                    until(kill_readers, handle)
                else:
                    run(_TERMINATE)
                before = proxy.drops
                proxy.fail_after(draw.randint(1, 300_000))
                until(lambda: proxy.drops > before, handle)  # noqa: B023 - called in this round only
                threading.Event().wait(draw.random() * 3)
                proxy.restore()
        handle.stop()
        shop.update()
        assert proxy.drops == _ROUNDS
        for after in (None, change_keys_and_identities):
            if after is not None:
                after(run)
                shop.update()
            shop.assert_equal("orders", "id, customer, amount, n")
            shop.assert_equal("notes", "a, b, body")


def test_columns_may_change_while_a_snapshot_is_read(
    interpreting: SparkSession, folder: Path, run: Run, database: str
) -> None:
    """Added, dropped and renamed columns: the table is held, then read again as it is now, while it changes."""
    shop = Shop(interpreting, folder, run, database, rows=3000)
    handle = shop.pipeline().start()
    until(lambda: shop.planned_chunks("orders") > 1, handle)
    handle.stop()
    run("ALTER TABLE orders ADD COLUMN added INT DEFAULT 7")
    run("ALTER TABLE orders RENAME COLUMN n TO renamed")
    run("ALTER TABLE orders DROP COLUMN amount")
    run("UPDATE orders SET added = 8, renamed = 3 WHERE id % 2 = 0; DELETE FROM orders WHERE id % 7 = 0")
    with Load(database, n="renamed", amount="added"):
        assert shop.pipeline().run().state is UpdateState.FAILED
        pipeline = shop.pipeline()
        resync(pipeline, "orders")
        pipeline.run()
    shop.update()
    shop.assert_equal("orders", "id, customer, added, renamed")
    shop.assert_equal("notes", "a, b, body")
