"""Rights, replica identities and publications that an administrator changes: one table is named, the others go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.foundation.failpoints import arm, disarm
from framework.run.update.results import UpdateResult, UpdateState
from framework.sources.databases.formats import snapshot_request
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.log.changes_source import ChangesRequest
from framework.sources.databases.streams.changes_stream import ChangesStreamReader
from tests.support.copied_tables import (
    after_definitions,
    all_at_source,
    all_copied,
    applied,
    at_source,
    copied,
    create,
    failures,
    of_both_flows,
    pipeline_of,
    resync,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_PUBLICATION = "sluice_shop"
_ROLE = "shop_reader"


def statement_of(result: UpdateResult, flow: str) -> str:
    """The statement in the remedy of a flow's error."""
    (error,) = [each.error for each in result.flows if each.flow.table == flow]
    assert error is not None
    return error.remedy.split("`")[1]


def test_a_right_that_is_taken_away_in_a_snapshot_is_named(
    interpreting: SparkSession, folder: Path, run: Run, server: PostgresServer, database: str
) -> None:
    """With the statement that grants it; the copy goes on where it was."""
    create(run, "orders", rows=3000)
    create(run, "others")
    run(f"DROP ROLE IF EXISTS {_ROLE}; CREATE ROLE {_ROLE} LOGIN REPLICATION")
    run(f"ALTER TABLE orders OWNER TO {_ROLE}; ALTER TABLE others OWNER TO {_ROLE}")
    name = database.rsplit("/", 1)[1]
    run(f"GRANT CREATE ON DATABASE {name} TO {_ROLE}; GRANT ALL ON SCHEMA public TO {_ROLE}")
    (folder / "connections.yml").write_text(f"bank: {server.uri(name, user=_ROLE)}\n", "utf-8")
    pipeline = pipeline_of(interpreting, folder)

    def revoke() -> None:
        run(f"REVOKE SELECT ON orders FROM {_ROLE}; UPDATE others SET name = 'changed'")

    arm("staging.after_commit", nth=4, action=revoke)  # the other table has one batch
    try:
        result = pipeline.run()
    finally:
        disarm()
    assert failures(result) == {"orders_snapshot_flow": "DATABASE_PERMISSION"}
    run("UPDATE orders SET name = 'changed' WHERE id % 100 = 0; UPDATE others SET name = 'again'")
    run(statement_of(result, "orders_snapshot_flow"))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert all_copied(pipeline, "orders", "others") == all_at_source(run, "orders", "others")
    run(f"DROP OWNED BY {_ROLE} CASCADE")


def test_tables_without_an_identity_or_published_in_part_are_never_copied(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """The database refuses changes of rows of the former; of the latter, changes of other rows or columns are missing.

    Each is named before the first snapshot and after one, with the statement that mends it.
    """
    create(run, "others", "later", "silent")
    run("CREATE TABLE sales (id INT PRIMARY KEY, name TEXT) PARTITION BY RANGE (id)")
    run("CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10)")
    run("CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM (10) TO (20)")
    run("INSERT INTO sales SELECT i, 's' FROM generate_series(1, 15) i")
    assert pipeline_of(interpreting, folder).run().state is UpdateState.COMPLETED
    create(run, "orders")
    run(f"ALTER PUBLICATION {_PUBLICATION} ADD TABLE orders WHERE (id > 2); UPDATE others SET name = 'changed'")
    run(f"ALTER PUBLICATION {_PUBLICATION} SET TABLE others, silent, sales, orders WHERE (id > 2), later (id)")
    run("ALTER TABLE silent REPLICA IDENTITY NOTHING; ALTER TABLE sales_2 REPLICA IDENTITY NOTHING")
    run("INSERT INTO silent VALUES (4, 'four')")
    pipeline = pipeline_of(interpreting, folder)
    result = pipeline.run()
    filtered, unidentified = "DATABASE_PUBLICATION_FILTERED", "DATABASE_REPLICA_IDENTITY"
    assert failures(result) == of_both_flows(
        orders=filtered, later="INGESTION_TABLE_UNPUBLISHED", silent=unidentified, sales=unidentified
    )
    assert copied(pipeline, "others") == at_source(run, "others")
    for table, named in (("silent", "silent"), ("sales", "sales_2")):
        statement = statement_of(result, f"{table}_cdc_flow")
        assert statement == f"ALTER TABLE public.{named} REPLICA IDENTITY DEFAULT"
        run(statement)
    run("UPDATE silent SET name = 'mended' WHERE id = 1; DELETE FROM sales WHERE id = 11")
    resync(pipeline, "later")
    again = pipeline_of(interpreting, folder).run()
    assert failures(again) == of_both_flows(orders=filtered, later=filtered)
    run("UPDATE later SET name = 'unseen'")
    for flow in ("orders_snapshot_flow", "later_snapshot_flow"):
        for statement in statement_of(again, flow).split("; "):
            run(statement)
    pipeline = pipeline_of(interpreting, folder)
    resync(pipeline, "later")  # as the remedy says: the log has parts of rows since the one before
    # The snapshots have begun, and the log has all changes.
    with after_definitions(lambda: run("UPDATE orders SET name = 'changed'; UPDATE later SET id = 9 WHERE id = 1")):
        result = pipeline.run()
    assert (result.state, applied(result)) == (UpdateState.COMPLETED, {"orders", "later"})
    tables = ("others", "orders", "later", "silent", "sales")
    assert all_copied(pipeline, *tables) == all_at_source(run, *tables)


def test_the_sources_refuse_a_table_that_is_published_in_part(folder: Path, run: Run) -> None:
    """Also without an ingestion."""
    create(run, "orders")
    run("CREATE PUBLICATION p FOR TABLE orders WHERE (id > 1) WITH (publish_via_partition_root = true)")
    run("COMMENT ON PUBLICATION p IS 'Sluice: tables of the replication slot filtered'")
    options = {
        "connection": "bank", "connectionsFolder": str(folder), "slot": "filtered", "publication": "p",
    }  # fmt: skip
    with pytest.raises(SourceError) as caught:
        snapshot_request({**options, "table": "orders"}).plan(None, None)
    assert caught.value.condition == "DATABASE_PUBLICATION_FILTERED"
    reader = ChangesStreamReader(ChangesRequest.of(Options("postgres_changes", {**options, "tables": "orders"})))
    try:
        start = reader.initialOffset()
        with pytest.raises(SourceError) as caught:
            reader.latestOffset(start, reader.getDefaultReadLimit())
    finally:
        reader.stop()
    assert caught.value.condition == "DATABASE_PUBLICATION_FILTERED"
