"""The formats `postgres_snapshot` and `postgres_changes` in Spark and in pipelines: copies that equal their source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.foundation.errors import SluiceError
from framework.foundation.files.storage import LocalStorage
from framework.run.update.results import UpdateState
from framework.sources.databases.formats import register_format
from framework.sources.kinds import is_drained, streamed_sources
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = Callable[..., list[tuple[Any, ...]]]


def stream(spark: SparkSession, folder: Path, source: str, **options: object) -> DataFrame:
    """Return a stream of a source on the connection of the test."""
    register_format(spark, source)
    reader = spark.readStream.format(source).option("connection", "bank").option("connectionsFolder", str(folder))
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def drain(frame: DataFrame, folder: Path, name: str = "copy") -> list[Mapping[str, Any]]:
    """Append what a stream has now to a table, and return the progress of its micro-batches."""
    writer = frame.writeStream.format("delta").option("checkpointLocation", str(folder / f"{name}_checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / name))
    query.awaitTermination()
    return [dict(progress) for progress in query.recentProgress if progress["numInputRows"]]


def rows_of(spark: SparkSession, folder: Path, columns: str, name: str = "copy") -> list[tuple[Any, ...]]:
    """Return columns of the copy, in the order of the first one."""
    names = columns.split(", ")
    return sorted(tuple(row[each] for each in names) for row in table_rows(spark, str(folder / name)))


def test_a_snapshot_has_each_row_once_and_then_ends(spark: SparkSession, folder: Path, run: Run) -> None:
    """Chunks of several micro-batches make the table; afterwards the source is drained and gives nothing."""
    run("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, amount NUMERIC(10,2))")
    run("INSERT INTO orders SELECT i, repeat('x', 99) || i, i * 1.25 FROM generate_series(1, 20000) i; ANALYZE orders")
    frame = stream(spark, folder, "postgres_snapshot", table="orders", chunkBytes="512k", maxChunksPerTrigger=2)
    progress = drain(frame, folder)
    expected = run("SELECT id, name, amount FROM orders ORDER BY id")
    assert rows_of(spark, folder, "id, name, amount") == expected
    assert len(progress) > 1
    sources = streamed_sources(frame)
    assert [(source.kind, source.location) for source in sources] == [("database_snapshot", "bank: orders")]
    assert is_drained(LocalStorage(str(folder)), str(folder / "copy_checkpoint"), sources) is True
    run("INSERT INTO orders VALUES (30000, 'late', 1)")
    assert drain(frame, folder) == []


def test_a_batch_read_has_each_row_once(spark: SparkSession, folder: Path, run: Run) -> None:
    """`spark.read` has the same columns and rows, with a filter and a list of columns."""
    run('CREATE TABLE "Order Lines" (a INT, "b c" TEXT, d DATE, PRIMARY KEY (a, "b c"))')
    run("""INSERT INTO "Order Lines" SELECT i % 10, 'é' || i, '2024-02-29' FROM generate_series(1, 3000) AS i""")
    register_format(spark, "postgres_snapshot")
    reader = spark.read.format("postgres_snapshot").option("connection", "bank")
    reader = reader.option("connectionsFolder", str(folder)).option("table", 'public."Order Lines"')
    frame = reader.option("columns", '"b c", d').option("rowFilter", "a < 5").load()
    assert frame.schema.simpleString() == "struct<b c:string,d:date>"
    expected = run("""SELECT "b c", d FROM "Order Lines" WHERE a < 5 ORDER BY "b c" COLLATE "C" """)
    assert sorted(tuple(row) for row in frame.collect()) == expected


def test_changes_come_once_in_the_order_of_their_transactions(spark: SparkSession, folder: Path, run: Run) -> None:
    """Only committed changes since the slot, also after a restart of the stream; the slot follows the checkpoint."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)")
    run("CREATE TABLE lines (id INT PRIMARY KEY, name TEXT)")
    run("INSERT INTO orders VALUES (1, 'before the slot')")

    def changes() -> DataFrame:
        return stream(spark, folder, "postgres_changes", slot="s_changes", tables="orders, lines")

    assert drain(changes(), folder) == []
    run("INSERT INTO orders VALUES (2, 'two'); INSERT INTO lines VALUES (7, 'seven')")
    run("BEGIN; INSERT INTO orders VALUES (99, 'undone'); ROLLBACK")
    run("UPDATE orders SET name = NULL WHERE id = 2")
    drain(changes(), folder)
    run("UPDATE orders SET id = 3 WHERE id = 2; DELETE FROM orders WHERE id = 1; TRUNCATE lines")
    drain(changes(), folder)
    drain(changes(), folder)
    found = spark.read.format("delta").load(str(folder / "copy")).orderBy("position", "ordinal")
    assert [tuple(row) for row in found.select("source_table", "operation", "payload").collect()] == [
        ("public.orders", "INSERT", '{"id":2,"name":"two"}'),
        ("public.lines", "INSERT", '{"id":7,"name":"seven"}'),
        ("public.orders", "UPDATE", '{"id":2,"name":null}'),
        ("public.orders", "DELETE", '{"id":2}'),
        ("public.orders", "INSERT", '{"id":3,"name":null}'),
        ("public.orders", "DELETE", '{"id":1}'),
        ("public.lines", "TRUNCATE", None),
    ]
    confirmed = run("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 's_changes'")
    assert confirmed > run("SELECT '0/0'")


def test_a_lost_slot_is_a_named_error_and_never_a_new_slot(spark: SparkSession, folder: Path, run: Run) -> None:
    """The stream fails with the condition and its ways out, and the server still has no slot."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)")
    module = """
from pyspark import pipelines as dp

@dp.table
def changes():
    reader = spark.readStream.format("postgres_changes").option("connection", "bank").option("slot", "s_lost")
    return reader.option("connectionsFolder", spark.conf.get("bank.folder")).option("tables", "orders").load()
"""
    pipeline = pipeline_of(spark, folder, module)
    assert pipeline.run().state is UpdateState.COMPLETED
    run("SELECT pg_drop_replication_slot('s_lost')")
    result = pipeline.run()
    (flow,) = result.flows
    assert flow.error is not None
    assert flow.error.condition == "DATABASE_POSITION_LOST.SLOT_MISSING"
    assert run("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 's_lost'") == [(0,)]


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"table": "orders", "colums": "id"}, "DATABASE_OPTION_UNKNOWN"),
        ({"table": "orders", "columns": "ids"}, "DATABASE_COLUMN_UNKNOWN"),
        ({"table": "orders", "chunkBytes": "many"}, "DATABASE_OPTION_INVALID"),
        ({"table": "orders", "connection": "bnak"}, "DATABASE_CONNECTION_UNKNOWN"),
        ({}, "DATABASE_OPTION_MISSING"),
    ],
)
def test_a_mistake_in_the_options_keeps_its_condition(
    spark: SparkSession, folder: Path, run: Run, options: dict[str, str], condition: str
) -> None:
    """`validate` reports our condition at the line of the query, without the stack of Spark's Python process."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)")
    with pytest.raises(SluiceError) as caught:
        pipeline_of(spark, folder, snapshot_module(folder, options)).validate()
    error = getattr(caught.value, "errors", [caught.value])[0]
    assert (error.condition, error.location.line) == (condition, 6)
    assert "Traceback" not in error.render()


def test_a_table_that_the_database_does_not_have_fails_its_dataset_alone(
    spark: SparkSession, folder: Path, run: Run
) -> None:
    """It is a fault of the source, so `validate` reports it at the line of the query with a graph of the rest."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)")
    graph = pipeline_of(spark, folder, snapshot_module(folder, {"table": "ordres"})).validate()
    (fault,) = graph.faults
    assert fault.location is not None
    assert (fault.condition, fault.location.line) == ("DATABASE_TABLE_MISSING", 6)
    assert "Traceback" not in fault.render()
    assert [(each.name.table, each.is_unresolved) for each in graph.datasets] == [("orders", True), ("sound", False)]


def snapshot_module(folder: Path, options: Mapping[str, str]) -> str:
    """Return a module with a snapshot with these options, and a dataset without a source."""
    given = {"connection": "bank", "connectionsFolder": str(folder), **options}
    return f"""
from pyspark import pipelines as dp

@dp.table
def orders():
    return spark.readStream.format("postgres_snapshot").options(**{given!r}).load()

@dp.materialized_view
def sound():
    return spark.range(1)
"""


def pipeline_of(spark: SparkSession, folder: Path, module: str) -> Pipeline:
    """Return a pipeline of one module with its storage in the folder."""
    (folder / "module.py").write_text(module, "utf-8")
    return Pipeline(
        name="bank",
        modules=[folder / "module.py"],
        storage=str(folder / "storage"),
        configuration={"bank.folder": str(folder)},
        spark=spark,
    )
