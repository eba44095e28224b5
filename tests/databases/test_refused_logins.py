"""A login that the database refuses for a while ends no flow of a continuous update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.record.events import Event
from framework.run.update.retries import RetryPolicy
from tests.support.copied_tables import after_definitions, at_source, copied, create, pipeline_of
from tests.support.running_updates import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_FLOWS = {"shop_changes", "orders_snapshot_flow"}


@pytest.fixture
def clerk(server: PostgresServer, database: str, folder: Path, run: Run) -> Iterator[str]:
    """A role of the connection `bank` that needs its password, unlike all others of the server."""
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text("utf-8")
    run("DROP ROLE IF EXISTS clerk; CREATE ROLE clerk SUPERUSER LOGIN PASSWORD 'right'")
    rules.write_text(f"host all clerk 127.0.0.1/32 scram-sha-256\n{before}", "utf-8")
    run("SELECT pg_reload_conf()")
    (folder / "connections.yml").write_text(f"bank: {database.replace('postgres@', 'clerk:right@')}\n", "utf-8")
    yield database
    rules.write_text(before, "utf-8")
    run("SELECT pg_reload_conf()")


def test_a_password_that_is_wrong_for_a_while_degrades_every_flow(
    interpreting: SparkSession, folder: Path, run: Run, clerk: str, swap: pytest.MonkeyPatch
) -> None:
    """Before anything is read, and while changes flow: snapshots and changes are tried again, and no row is missing."""
    swap.setattr(RetryPolicy, "delay_seconds", lambda *_: 0.3)
    degraded: set[str] = set()

    def observe(event: Event) -> None:
        if event.error is not None and "DATABASE_LOGIN_REFUSED" in event.error.exceptions[0].message:
            degraded.add(str(event.origin.flow_name).rpartition(".")[2])

    create(run, "orders", rows=30)
    pipeline = pipeline_of(interpreting, folder)

    def refuse() -> None:
        """Refuse each new login, and end the connections that there are."""
        with closing(psycopg2.connect(clerk)) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER ROLE clerk PASSWORD 'wrong'")
            connection.commit()
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'clerk'")

    with after_definitions(refuse):
        running = pipeline.start(observers=[observe])
        try:

            def has_all() -> bool:
                return copied(pipeline, "orders") == at_source(run, "orders")

            until(lambda: degraded >= _FLOWS, running)
            run("ALTER ROLE clerk PASSWORD 'right'")
            until(has_all, running)

            degraded.clear()
            refuse()
            run("INSERT INTO orders VALUES (100, 'new'); DELETE FROM orders WHERE id = 1")
            until(lambda: "shop_changes" in degraded, running)
            run("ALTER ROLE clerk PASSWORD 'right'")
            until(has_all, running)
        finally:
            running.stop()
