"""PostgreSQL 14 to 18: copies from servers of each version but the wheel's, which all other tests have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import Pipeline
from framework.demo.postgres_server import PostgresServer
from framework.run.update.results import UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.membership import read_membership
from framework.sources.databases.postgres.session import Session
from tests.databases.test_postgres_partitions import CREATE, EMPTIED, IN_THE_LOG, change_of
from tests.databases.test_postgres_partitions import (
    test_rows_of_a_partition_that_is_gone_before_the_log_is_read_are_unreadable as check_partition_that_is_gone,
)
from tests.support.postgres_log import execute, query
from tests.support.postgres_versions import OTHER_VERSIONS, programs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Servers = Mapping[int, PostgresServer]
NEWEST = max(OTHER_VERSIONS)
_MODULE = f"""
from framework import pipelines as dp

for version in {OTHER_VERSIONS}:
    dp.ingest_database(
        name=f"shop_{{version}}",
        connection=f"server_{{version}}",
        objects=[{{"schema": {{"source_schema": "public", "destination_schema": f"copies_{{version}}"}}}}],
        options={{"chunkBytes": "16k"}},
    )
"""
_TABLES = {"orders": "id", "sales": "id, day"}
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
    "CREATE TABLE sales (id INT, day DATE, name TEXT, PRIMARY KEY (day, id)) PARTITION BY RANGE (day)",
    "CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
    "INSERT INTO sales SELECT i, DATE '2026-01-01' + i, 's' FROM generate_series(0, 20) i; ANALYZE",
)
_CHANGE = (
    "UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0",  # the log has no value of `a note`
    "UPDATE orders SET id = 1000, mood = 'sad' WHERE id = 7; DELETE FROM orders WHERE id = 8",
    "ALTER TABLE orders ADD COLUMN added BOOLEAN; UPDATE orders SET added = true WHERE id = 4",
    "TRUNCATE sales; INSERT INTO sales VALUES (1, '2026-01-31', 'again')",
    "CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
    "INSERT INTO sales VALUES (2, '2026-02-02', 'new'); UPDATE sales SET day = '2026-02-03' WHERE id = 1",
)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """A server of each version."""
    with ExitStack() as stack:
        programs = {version: stack.enter_context(programs_of(version)) for version in OTHER_VERSIONS}
        yield {version: stack.enter_context(PostgresServer(programs=each)) for version, each in programs.items()}


def test_copies_follow_servers_of_all_versions(interpreting: SparkSession, servers: Servers, tmp_path: Path) -> None:
    """Snapshots and changes: keys that change, values that are not in the log, truncates, partitions, new columns."""
    connections = {f"server_{version}": server.uri() for version, server in servers.items()}
    (tmp_path / "connections.yml").write_text(json.dumps(connections), "utf-8")
    (tmp_path / "module.py").write_text(_MODULE, "utf-8")
    spec = {"name": "shop", "storage": str(tmp_path / "storage"), "libraries": [{"file": {"path": "module.py"}}]}
    (tmp_path / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    for statements in (_CREATE, _CHANGE):
        for server in servers.values():
            execute(server.uri(), *statements)
        pipeline = Pipeline.from_spec(tmp_path / "pipeline.yml", spark=interpreting)
        assert pipeline.run().state is UpdateState.COMPLETED
        for version, server in servers.items():
            for table, order in _TABLES.items():
                assert _copied(pipeline, f"copies_{version}.{table}", order) == _at_source(server, table, order), (
                    version
                )


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
            {"t": 'ALTER PUBLICATION "p" DROP TABLE "public"."t"; ALTER PUBLICATION "p" ADD TABLE "public"."t"'},
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


def _copied(pipeline: Pipeline, table: str, order: str) -> list[str]:
    """Return the rows of a copy as JSON, in an order."""
    rows = pipeline.table(table).selectExpr("*").orderBy(*order.split(", "))
    return [json.dumps(row.asDict(), default=str, sort_keys=True) for row in rows.collect()]


def _at_source(server: PostgresServer, table: str, order: str) -> list[str]:
    names = query(
        server.uri(),
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = '' ORDER BY attnum",
        table,
    )
    columns = [name for (name,) in names]
    selected = ", ".join(f'"{column}"' for column in columns)
    found = query(server.uri(), f"SELECT {selected} FROM {table} ORDER BY {order}")
    rows = [dict(zip(columns, row, strict=True)) for row in found]
    return [json.dumps(row, default=str, sort_keys=True) for row in rows]
