"""`ingest_database`: copies of the tables of a schema that follow their source."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.foundation.errors import SluiceError
from framework.plan.steps import RefuseTable
from framework.run.update.results import FlowState, UpdateState
from tests.support.copied_tables import copy_rows, failures, of_both_flows
from tests.support.plain_tables import table_rows
from tests.support.stored_graphs import check_stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]

VIEWS = """
from pyspark.sql import functions as F

@dp.table
def total():
    return spark.read.table("copies.orders").agg(F.sum("amount").alias("total"))
"""


def pipeline_of(spark: SparkSession, folder: Path, call: Mapping[str, Any], more: str = "") -> Pipeline:
    """Return the pipeline of one `ingest_database`, whose spec lies beside the connections; its name is in line 2."""
    module = f"from framework import pipelines as dp\ndp.ingest_database(**{dict(call)!r})\n{more}"
    (folder / "module.py").write_text(module, "utf-8")
    spec = {"name": "shop", "storage": "storage", "libraries": [{"file": {"path": "module.py"}}]}
    (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    return Pipeline.from_spec(folder / "pipeline.yml", spark=spark)


def schema(**fields: object) -> dict[str, object]:
    """Return the object of the schema `public`, copied to the schema `copies`."""
    return {"schema": {"source_schema": "public", "destination_schema": "copies", **fields}}


def table(name: str, **fields: object) -> dict[str, object]:
    """Return the object of a table of the schema `public`, copied to the schema `copies`."""
    return {"table": {"source_schema": "public", "source_table": name, "destination_schema": "copies", **fields}}


def shop(*objects: object, **more: object) -> dict[str, object]:
    """Return the arguments of a call on the connection of the test, with small chunks."""
    return {"name": "shop", "connection": "bank", "objects": list(objects), "options": {"chunkBytes": "100k"}, **more}


def rows_of(pipeline: Pipeline, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a table, ordered by the first of them."""
    schema, _, table = name.rpartition(".")
    rows = copy_rows(pipeline, table.lower(), schema or "default")
    found = [tuple(row) if columns == ("*",) else tuple(row[column] for column in columns) for row in rows]
    return sorted(found, key=lambda row: (row[0] is not None, row[0]))


def test_a_schema_is_copied_and_a_new_table_joins(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """Each table equals its source after each update, also one that is created between two updates."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, position TEXT, amount NUMERIC(8,2))")
    run("CREATE TABLE tmp_orders (id INT PRIMARY KEY)")
    run("INSERT INTO orders SELECT i, 'p' || i, i * 1.5 FROM generate_series(1, 3000) i; ANALYZE orders")
    pipeline = pipeline_of(interpreting, folder, shop(schema(exclude=["tmp_*"])), VIEWS)
    flows = ["total", "shop_changes", "orders_snapshot_flow", "orders_cdc_flow"]
    assert [flow.spec.name.table for flow in pipeline.graph.flows] == flows
    assert pipeline.run().state is UpdateState.COMPLETED
    run("UPDATE orders SET position = NULL WHERE id % 2 = 0; DELETE FROM orders WHERE id > 2990; TRUNCATE tmp_orders")
    run('CREATE TABLE "Order Lines" (a INT, "b c" TEXT, operation TEXT, PRIMARY KEY (a, "b c"))')
    run("""INSERT INTO "Order Lines" SELECT i, 'é', 'o' FROM generate_series(1, 5) i""")
    result = pipeline.run()
    assert result.state is UpdateState.COMPLETED
    joined = ["order lines_snapshot_flow", "order lines_cdc_flow"]
    assert sorted(flow.flow.table for flow in result.flows) == sorted([*flows, *joined])
    run("""UPDATE "Order Lines" SET a = a + 10 WHERE a > 3; INSERT INTO "Order Lines" VALUES (9, 'nine', 'o')""")
    run("""UPDATE "Order Lines" SET operation = 'O' WHERE a = 1; DELETE FROM "Order Lines" WHERE a = 2""")
    assert pipeline.run().state is UpdateState.COMPLETED
    copied = {name: rows_of(pipeline, f"copies.{name}", "*") for name in ("orders", "Order Lines")}
    assert copied == {
        "orders": run("SELECT id, position, amount FROM orders ORDER BY id"),
        "Order Lines": run("""SELECT a, "b c", operation FROM "Order Lines" ORDER BY a"""),
    }
    assert rows_of(pipeline, "total", "*") == run("SELECT sum(amount) FROM orders")
    # Rows of a chunk are older than every change, and no clock decides between two changes.
    stored = table_rows(interpreting, str(folder / "storage/tables/main/copies/orders"))
    unchanged = {tuple(row[HIDDEN_COLUMN].sequence) for row in stored if row.id % 2 == 1 and row.id <= 2990}
    assert unchanged == {(0, 0, 0)}


FAULTS: dict[str, tuple[str, dict[str, object], str]] = {
    "keyless": ("(id INT, b TEXT)", {}, "INGESTION_WITHOUT_KEY"),
    "full_keyless": ("", {"primary_keys": ["id"]}, "INGESTION_WITHOUT_KEY"),
    "nullable_key": ("(id INT UNIQUE, b TEXT)", {}, "INGESTION_WITHOUT_KEY"),
    "not_logged": ("(id INT NOT NULL UNIQUE, b TEXT)", {}, "DATABASE_REPLICA_IDENTITY"),
    "unlogged": ("", {}, "DATABASE_TABLE_UNLOGGED"),
    "missing": ("", {}, "DATABASE_TABLE_MISSING"),
    "a_view": ("", {}, "DATABASE_NOT_A_TABLE"),
    "wrong_key": ("(id INT PRIMARY KEY, b TEXT)", {"primary_keys": ["b"]}, "INGESTION_KEY_NOT_IN_LOG"),
    "key_of_names": ("(id regclass PRIMARY KEY)", {}, "INGESTION_KEY_OF_NAMES"),
    "unknown_key": ("(id INT PRIMARY KEY, b TEXT)", {"primary_keys": ["ID"]}, "INGESTION_COLUMN_UNKNOWN"),
    "unknown_column": ("(id INT PRIMARY KEY, b TEXT)", {"exclude_columns": ["c"]}, "INGESTION_COLUMN_UNKNOWN"),
    "key_excluded": ("(id INT PRIMARY KEY, b TEXT)", {"exclude_columns": ["id"]}, "INGESTION_KEY_EXCLUDED"),
    "unknown_text": ("(id INT PRIMARY KEY, b TEXT)", {"text_columns": ["c"]}, "DATABASE_TEXT_COLUMN_UNKNOWN"),
    "filtered": ("(id INT PRIMARY KEY, b TEXT)", {"row_filter": "b === 1 +"}, "INGESTION_ROW_FILTER_INVALID"),
    "by_python": ("(id INT PRIMARY KEY, b TEXT)", {"row_filter": "is_kept(b)"}, "INGESTION_ROW_FILTER_INVALID"),
    "cased": ('(id INT PRIMARY KEY, b TEXT, "B" TEXT)', {}, "INGESTION_COLUMNS_CASED"),
    "cased_filter": (
        '(id INT PRIMARY KEY, b TEXT, "B" TEXT)', {"exclude_columns": ["B"], "row_filter": "id > 0"},
        "INGESTION_COLUMNS_CASED",
    ),
    "twice": ("(id INT PRIMARY KEY)", {}, "INGESTION_TABLE_TWICE"),
    "same": ("(id INT PRIMARY KEY)", {}, "INGESTION_TARGET_TWICE"),
}  # fmt: skip


def test_a_table_with_a_fault_fails_alone(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """Each fault that the catalog shows fails the flows of its table, with its condition and the line of the call."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, amount NUMERIC(8,2)); INSERT INTO orders VALUES (1, 1), (2, 2.5)")
    run("CREATE UNLOGGED TABLE unlogged (id INT PRIMARY KEY); CREATE VIEW a_view AS SELECT * FROM orders")
    run("CREATE TABLE full_keyless (id INT, b TEXT); ALTER TABLE full_keyless REPLICA IDENTITY FULL")
    for name in ("samples", '"Same"', '"Unlogged"'):
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    interpreting.udf.register("is_kept", lambda _: True, "boolean")  # rows of its former code would not be seen
    for name, (columns, _, _) in FAULTS.items():
        if columns:
            run(f"CREATE TABLE {name} {columns}")
    call = shop(
        table("orders"),
        *(table(name, table_configuration=configuration) for name, (_, configuration, _) in FAULTS.items()),
        table("twice", destination_table="twice_2"),
        table("samples", destination_table="SAME"),
        table("Same"),
        table("Unlogged", destination_table="two_cases"),  # not the table of this name in other letters
        {"schema": {"source_schema": "public", "include": ["nothing_*"]}},
    )
    expected = {name: condition for name, (_, _, condition) in FAULTS.items()}
    expected["twice_2"] = "INGESTION_TABLE_TWICE"
    pipeline = pipeline_of(interpreting, folder, call)
    faults = {dataset.name.table: dataset.fault for dataset in pipeline.graph.datasets if dataset.fault is not None}
    assert {name: fault.condition for name, fault in faults.items()} == expected
    assert {fault.location and fault.location.line for fault in faults.values()} == {2}
    assert {step.dataset.table for step in pipeline.plan().steps if isinstance(step, RefuseTable)} == set(expected)
    assert run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    result = pipeline.run()
    assert failures(result) == {
        f"{name}_{flow}": condition for name, condition in expected.items() for flow in ("snapshot_flow", "cdc_flow")
    }
    check_stored(pipeline)  # with its faults
    run("UPDATE orders SET amount = 9; INSERT INTO orders VALUES (3)")
    run("ALTER TABLE not_logged REPLICA IDENTITY FULL; INSERT INTO not_logged VALUES (1, 'mended')")
    run("""INSERT INTO cased VALUES (1, 'low', 'high')""")
    cased = table("cased", table_configuration={"exclude_columns": ["B"]})
    pipeline = pipeline_of(interpreting, folder, shop(table("orders"), table("not_logged"), table("keyless"), cased))
    assert failures(pipeline.run()) == of_both_flows(keyless="INGESTION_WITHOUT_KEY")
    assert rows_of(pipeline, "copies.orders", "*") == run("SELECT * FROM orders ORDER BY id")
    assert rows_of(pipeline, "copies.not_logged", "*") == [(1, "mended")]
    assert rows_of(pipeline, "copies.cased", "*") == [(1, "low")]


def test_a_table_that_vanishes_keeps_its_rows_and_its_readers(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Its flows fail with the reason, its copy stays readable, and the changes of other tables are applied."""
    for name in ("orders", "parts"):
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, amount INT); INSERT INTO {name} VALUES (1, 10), (2, 20)")
    pipeline = pipeline_of(interpreting, folder, shop(table("orders"), table("parts")), VIEWS)
    assert pipeline.run().state is UpdateState.COMPLETED
    run("INSERT INTO orders VALUES (3, 30); INSERT INTO parts VALUES (3, 30)")
    run("DROP TABLE orders")
    result = pipeline.run()
    assert failures(result) == of_both_flows(orders="DATABASE_TABLE_MISSING")
    assert [flow.state for flow in result.flows if flow.flow.table == "total"] == [FlowState.SKIPPED]
    assert rows_of(pipeline, "copies.orders", "*") == [(1, 10), (2, 20)]
    assert rows_of(pipeline, "copies.parts", "*") == [(1, 10), (2, 20), (3, 30)]
    # The way out of a table that was replaced.
    run("CREATE TABLE orders (id INT PRIMARY KEY, amount INT); INSERT INTO orders VALUES (7, 70)")
    run("SELECT pg_drop_replication_slot('sluice_shop')")
    assert pipeline.run(full_refresh_all=True).state is UpdateState.COMPLETED
    run("UPDATE orders SET amount = 71")
    assert pipeline.run().state is UpdateState.COMPLETED
    for name in ("orders", "parts"):
        assert rows_of(pipeline, f"copies.{name}", "*") == run(f"SELECT * FROM {name} ORDER BY id")


def test_filters_lists_of_columns_and_histories_follow_the_source(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """A row enters and leaves the copy as it meets the filter; a history has each state; a truncate ends both."""
    run("CREATE TABLE orders (id INT PRIMARY KEY, region TEXT, amount INT, secret TEXT)")
    run("CREATE TABLE prices (id INT PRIMARY KEY, price NUMERIC(8,2)); INSERT INTO prices VALUES (1, 1.5), (2, 2.5)")
    run("INSERT INTO orders SELECT i, (ARRAY['EU', 'US', NULL])[i % 3 + 1], i, 's' FROM generate_series(1, 300) i")
    call = shop(
        table(
            "orders",
            destination_table="european",
            table_configuration={"row_filter": "region = 'EU' -- only", "include_columns": ["amount"]},
        ),
        table("prices", table_configuration={"scd_type": "SCD_TYPE_2"}),
    )
    pipeline = pipeline_of(interpreting, folder, call)
    assert pipeline.run().state is UpdateState.COMPLETED
    run("UPDATE orders SET region = 'EU' WHERE id % 5 = 0; UPDATE orders SET region = NULL WHERE id % 7 = 0")
    run("UPDATE orders SET id = id + 1000, amount = -id WHERE id % 11 = 0; DELETE FROM orders WHERE id % 13 = 0")
    run("INSERT INTO orders VALUES (2000, 'EU', 1, 's'), (2001, 'US', 1, 's')")
    run("UPDATE prices SET price = 1.6 WHERE id = 1; DELETE FROM prices WHERE id = 2")
    assert pipeline.run().state is UpdateState.COMPLETED
    european = "SELECT id, amount FROM orders WHERE region = 'EU' ORDER BY id"
    assert pipeline.table("copies.european").columns == ["id", "amount"]
    assert rows_of(pipeline, "copies.european", "*") == run(european)
    history = [(row.id, str(row.price), row["__END_AT"] is None) for row in copy_rows(pipeline, "prices")]
    assert sorted(history) == [
        (1, "1.50", False), (1, "1.60", True), (2, "2.50", False),
    ]  # fmt: skip
    run("TRUNCATE orders; INSERT INTO orders VALUES (1, 'EU', 5, 's'), (2, 'US', 5, 's'); TRUNCATE prices")
    assert failures(pipeline.run()) == {"prices_cdc_flow": "INGESTION_HISTORY_TRUNCATED"}
    assert rows_of(pipeline, "copies.european", "*") == [(1, 5)]


def test_an_unusable_ingestion_is_an_error_of_the_pipeline(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """`validate` names the condition at the line of the call, before anything is written at the source."""
    run("CREATE TABLE orders (id INT PRIMARY KEY)")
    none = {"schema": {"source_schema": "public", "include": ["x*"]}}
    conditions = {}
    for expected, call in {
        "INGESTION_WITHOUT_TABLES": shop(none),
        "DATABASE_SCHEMA_MISSING": shop({"schema": {"source_schema": "pubic"}}),
        "DATABASE_CONNECTION_UNKNOWN": shop(table("orders")) | {"connection": "bnak"},
        "INVALID_ARGUMENT.VALUE": shop(table("orders")) | {"name": "My Shop"},
    }.items():
        with pytest.raises(SluiceError) as caught:
            pipeline_of(interpreting, folder, call, VIEWS).validate()
        errors = getattr(caught.value, "errors", (caught.value,))
        conditions[expected] = [(error.condition, error.location and error.location.line) for error in errors]
    assert conditions == {condition: [(condition, 2)] for condition in conditions}
    (folder / "connections.yml").write_text("bank: postgresql://postgres@127.0.0.1:1/none\n", "utf-8")
    (fault,) = pipeline_of(interpreting, folder, shop(table("orders")), VIEWS).validate().faults
    assert (fault.condition, fault.exit_code, fault.location and fault.location.line) == ("DATABASE_UNREACHABLE", 1, 2)
    assert run("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
