"""PostgreSQL 14 to 18: copies from servers of each version but the wheel's, which all other tests have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame

from framework import Pipeline
from framework.demo.postgres_server import PostgresServer
from framework.run.update.results import UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.session import Session, arrow_connection, open_replication
from framework.sources.databases.postgres.tables.membership import read_membership
from tests.databases.conftest import new_database
from tests.databases.test_postgres_partitions import CREATE, EMPTIED, IN_THE_LOG, change_of
from tests.databases.test_postgres_partitions import (
    test_rows_of_a_partition_that_is_gone_before_the_log_is_read_are_unreadable as check_partition_that_is_gone,
)
from tests.databases.test_types_of_keys import check_chunks
from tests.support.database_snapshots import World
from tests.support.postgres_key_types import KEY_TYPES, NONDETERMINISTIC, OF_ANY_CASE, SCHEMA, with_domains
from tests.support.postgres_log import brief, execute, name, position, query, reader
from tests.support.postgres_versions import OTHER_VERSIONS, programs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Servers = Mapping[int, PostgresServer]
OLDEST, NEWEST = min(OTHER_VERSIONS), max(OTHER_VERSIONS)
_MODULE = f"""
from framework import pipelines as dp

for version in {(OLDEST, NEWEST)}:
    dp.ingest_database(
        name=f"shop_{{version}}",
        connection=f"server_{{version}}",
        objects=[{{"schema": {{"source_schema": "public", "destination_schema": f"copies_{{version}}"}}}}],
        options={{"chunkBytes": "16k"}},
    )
"""
_NAMES = ("id", "amount", "mood", "tags", "a note")
_COLUMNS = ", ".join(f'"{name}"' for name in _NAMES)
_CREATE = (
    """
    CREATE TYPE mood AS ENUM ('sad', 'glad');
    CREATE TABLE orders (
        id INT PRIMARY KEY, amount NUMERIC(20, 4), mood mood, tags TEXT[], "a note" TEXT,
        twice NUMERIC(20, 4) GENERATED ALWAYS AS (amount * 2) STORED
    );
    ALTER TABLE orders ALTER COLUMN "a note" SET STORAGE EXTERNAL;
    INSERT INTO orders SELECT i, i * 1.0001, 'glad', ARRAY['a', NULL, i::text], repeat('x', 3000) || i
        FROM generate_series(1, 60) i
    """,
    "ANALYZE",
)
_CHANGE = (
    "UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0",  # the log has no value of `a note`
    "UPDATE orders SET id = 1000, mood = 'sad' WHERE id = 7; DELETE FROM orders WHERE id = 8",
    "ALTER TABLE orders ADD COLUMN added BOOLEAN; UPDATE orders SET added = true WHERE id = 4",
)
_CREATE_PARTITIONS = (
    "CREATE TABLE sales (id INT, day DATE, name TEXT, PRIMARY KEY (day, id)) PARTITION BY RANGE (day)",
    "CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
    "INSERT INTO sales SELECT i, DATE '2026-01-01' + i, 's' FROM generate_series(0, 20) i; ANALYZE",
)
_CHANGE_PARTITIONS = (
    "TRUNCATE sales; INSERT INTO sales VALUES (1, '2026-01-31', 'again')",
    "CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
    "INSERT INTO sales VALUES (2, '2026-02-02', 'new'); UPDATE sales SET day = '2026-02-03' WHERE id = 1",
)
_PARTITION_CHANGES = [
    ("public.sales", "TRUNCATE", None),
    ("public.sales", "INSERT", {"id": 1, "day": "2026-01-31", "name": "again"}),
    ("public.sales", "INSERT", {"id": 2, "day": "2026-02-02", "name": "new"}),
    ("public.sales", "DELETE", {"id": 1, "day": "2026-01-31"}),
    ("public.sales", "INSERT", {"id": 1, "day": "2026-02-03", "name": "again"}),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """A server of each version."""
    with ExitStack() as stack:
        programs = {version: stack.enter_context(programs_of(version)) for version in OTHER_VERSIONS}
        yield {version: stack.enter_context(PostgresServer(programs=each)) for version, each in programs.items()}


def test_copies_follow_the_oldest_and_the_newest_server(
    interpreting: SparkSession, servers: Servers, tmp_path: Path
) -> None:
    """Snapshots and changes: keys that change, values that are not in the log, new columns."""
    servers = {version: servers[version] for version in (OLDEST, NEWEST)}
    connections = {f"server_{version}": server.uri() for version, server in servers.items()}
    (tmp_path / "connections.yml").write_text(json.dumps(connections), "utf-8")
    (tmp_path / "module.py").write_text(_MODULE, "utf-8")
    spec = {"name": "shop", "storage": str(tmp_path / "storage"), "libraries": [{"file": {"path": "module.py"}}]}
    (tmp_path / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    pipeline = Pipeline.from_spec(tmp_path / "pipeline.yml", spark=interpreting)
    for statements in (_CREATE, _CHANGE):
        for server in servers.values():
            execute(server.uri(), *statements)
        assert pipeline.run().state is UpdateState.COMPLETED
    columns = f"{_COLUMNS}, added"
    assert _copied(pipeline) == {
        version: query(server.uri(), f"SELECT {columns} FROM orders ORDER BY id") for version, server in servers.items()
    }


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_snapshots_and_logs_of_all_versions_have_each_value(servers: Servers, version: int, tmp_path: Path) -> None:
    """Keys that change, values that are not in the log, new columns, truncates and partitions."""
    with new_database(servers[version]) as uri:
        execute(uri, *_CREATE, *_CREATE_PARTITIONS)
        start = position(uri, "orders", "sales")
        assert snapshot(uri, "sales") == query(uri, "SELECT * FROM sales ORDER BY id")
        assert snapshot(uri, "orders") == query(uri, f"SELECT {_COLUMNS} FROM orders ORDER BY id")
        execute(uri, *_CHANGE, *_CHANGE_PARTITIONS)
        with closing(reader(uri, start, tmp_path / "spool")) as log:
            changes = brief(log.read_transactions(start.lsn))
    assert [change for change in changes if change[0] == "public.sales"] == _PARTITION_CHANGES
    found = {(operation, row["id"]): row for table, operation, row in changes if table == "public.orders"}
    updated = [3 * number for number in range(1, 21)]
    assert [*found] == [
        *(("UPDATE", each) for each in updated),
        ("DELETE", 7),
        ("INSERT", 1000),
        ("DELETE", 8),
        ("UPDATE", 4),
    ]
    assert [found["UPDATE", each]["a note"] for each in (*updated, 4)] == [
        f"{'x' * 3000}{each}" for each in (*updated, 4)
    ]
    moved = {"id": 1000, "mood": "sad", "tags": ["a", None, "7"], "a note": f"{'x' * 3000}7"}
    assert {name: found["INSERT", 1000][name] for name in moved} == moved
    assert found["UPDATE", 4]["added"] is True


def test_the_transaction_timeout_of_a_role_does_not_end_our_sessions(servers: Servers) -> None:
    """PostgreSQL 17 and later have one; that of the connection itself is kept."""
    for version in (each for each in OTHER_VERSIONS if each >= 17):
        uri = servers[version].uri()
        execute(uri, "DROP ROLE IF EXISTS timed", "CREATE ROLE timed LOGIN REPLICATION")
        execute(uri, "ALTER ROLE timed SET transaction_timeout = '60s'")
        for given, expected in (("", "0"), ("?options=-c%20transaction_timeout%3D9s", "9s")):
            connection = Connection(name="server", uri=uri.replace("postgres@", "timed@") + given)
            with Session(connection) as session:
                assert session.rows("SHOW transaction_timeout") == [(expected,)]
            with closing(open_replication(connection)) as replication, replication.cursor() as cursor:
                cursor.execute("SHOW transaction_timeout")
                assert cursor.fetchall() == [(expected,)]
            with arrow_connection(connection) as arrow, arrow.cursor() as cursor:
                cursor.execute("SELECT current_setting('transaction_timeout')")
                assert cursor.fetchall() == [(expected,)]


def snapshot(uri: str, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of the chunks of a table, in the order of their numbers."""
    world = World(uri, name(table))
    offset, chunks = world.plan_all()
    batches = [batch for chunk in chunks for batch in world.reader(offset).batches(chunk)]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_chunks_by_keys_of_a_nondeterministic_collation_have_each_row_once(servers: Servers) -> None:
    """The server of the wheel has no ICU."""
    with new_database(servers[NEWEST]) as uri:
        execute(uri, *SCHEMA, *NONDETERMINISTIC)
        check_chunks(uri, [*with_domains(KEY_TYPES | OF_ANY_CASE, partial(execute, uri))])


def test_the_log_of_all_versions_names_the_partitions_of_rows(servers: Servers, tmp_path: Path) -> None:
    """A partition that comes and goes is noticed; truncates of the table and of its partitions are distinguished."""
    for version, server in servers.items():
        execute(server.uri(), "CREATE DATABASE partitions", "CREATE DATABASE truncated", "CREATE DATABASE emptied")
        gone, truncated, emptied = map(server.uri, ("partitions", "truncated", "emptied"))
        check_partition_that_is_gone(gone, partial(query, gone), tmp_path / f"gone_{version}")
        for uri in (truncated, emptied):
            query(uri, CREATE)
        statements = IN_THE_LOG["a truncated table with a new partition"]
        assert change_of(partial(query, truncated), truncated, tmp_path / f"truncated_{version}", statements) is None
        change, statements = EMPTIED
        assert change_of(partial(query, emptied), emptied, tmp_path / f"emptied_{version}", statements) == change


@pytest.mark.parametrize(
    ("published", "option", "statements"),
    [
        ("t, plain", "none", {}),
        ("t, plain", "stored", {"t": 'ALTER PUBLICATION "p" SET (publish_generated_columns = none)'}),
        (
            "t (id, a, twice), plain", "none",
            {"t": "; ".join(f'ALTER PUBLICATION "p" {word} TABLE ONLY "public"."t"' for word in ("DROP", "ADD"))},
        ),
        ("t (id, a), plain", "none", {}),
    ],
)  # fmt: skip
def test_generated_columns_that_a_publication_sends_are_named(
    servers: Servers, published: str, option: str, statements: dict[str, str]
) -> None:
    """Of PostgreSQL 18: the changes would have other columns than the copy; the statement mends it."""
    uri = servers[NEWEST].uri()
    execute(
        uri, "DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP PUBLICATION IF EXISTS p",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, twice INT GENERATED ALWAYS AS (a * 2) STORED, "
        "half INT GENERATED ALWAYS AS (a / 2) VIRTUAL)",
        f"CREATE TABLE plain (id INT PRIMARY KEY); CREATE PUBLICATION p FOR TABLE {published} "
        f"WITH (publish_generated_columns = {option})",
    )  # fmt: skip
    with Session(Connection(name="server", uri=uri)) as session:
        partly = read_membership(session, "s", "p").partly
        assert {name.table: each.statement for name, each in partly.items()} == statements
        execute(uri, *statements.values())
        assert not read_membership(session, "s", "p").partly


def _copied(pipeline: Pipeline) -> Mapping[int, list[tuple[Any, ...]]]:
    """Return the rows of the copies by version, in the order of their keys."""
    columns = [f"`{column}`" for column in (*_NAMES, "added")]
    frames = [
        pipeline.table(f"copies_{version}.orders").selectExpr(f"{version} AS version", *columns)
        for version in (OLDEST, NEWEST)
    ]
    found: dict[int, list[tuple[Any, ...]]] = {}
    for version, *values in reduce(DataFrame.union, frames).orderBy("version", "id").collect():
        found.setdefault(version, []).append(tuple(values))
    return found
