"""Operations of gateways: pause, skip, cancel, and tables that are read again, exactly."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
from click.testing import CliRunner

from framework import Pipeline
from framework.cli.main import cli
from framework.foundation.errors import SluiceError
from framework.foundation.failpoints import arm_all, disarm
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.status import read_status
from framework.plan.steps import PublishRebuild
from framework.run.update.results import UpdateState
from tests.support.copied_tables import copy_rows, failures
from tests.support.seeds import fresh_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
MODULE = """
from framework import pipelines as dp

history = {"scd_type": "SCD_TYPE_2"}
dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[
        {"table": {"source_schema": "public", "source_table": "accounts"}},
        {"table": {"source_schema": "public", "source_table": "cities", "table_configuration": history}},
        {"table": {"source_schema": "public", "source_table": "parts", "destination_schema": "copies"}},
    ],
    options={"chunkBytes": "16k", "maxChunksPerTrigger": "2"},
)
"""
_TABLES = ("accounts", "cities", "parts")
_PUBLICATION = "sluice_shop"


def pipeline_of(spark: SparkSession, folder: Path, module: str = MODULE) -> Pipeline:
    """Return the pipeline of the module, loaded again."""
    (folder / "module.py").write_text(module, "utf-8")
    spec = {"name": "shop", "storage": str(folder / "storage"), "libraries": [{"file": {"path": "module.py"}}]}
    (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    return Pipeline.from_spec(folder / "pipeline.yml", spark=spark)


def create(run: Run, rows: int) -> None:
    """Create the three tables with rows."""
    run("CREATE TABLE accounts (id INT PRIMARY KEY, balance NUMERIC(10,2))")
    run("CREATE TABLE cities (id INT PRIMARY KEY, balance NUMERIC(10,2))")
    run("CREATE TABLE parts (id INT, name TEXT, balance NUMERIC(10,2), PRIMARY KEY (id, name))")
    for table in _TABLES:
        name = ", 'n' || i" if table == "parts" else ""
        run(f"INSERT INTO {table} SELECT i{name}, i FROM generate_series(1, {rows}) i; ANALYZE {table}")


def copied(pipeline: Pipeline, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a copy; of SCD type 2 the open ones."""
    rows = copy_rows(pipeline, table, "copies" if table == "parts" else "default")
    if table == "cities":
        rows = [row[:-2] for row in rows if row["__END_AT"] is None]
    return sorted(map(tuple, rows))


def at_source(run: Run, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table at the source."""
    return sorted(run(f"SELECT * FROM {table}"))


def differing(pipeline: Pipeline, run: Run) -> list[str]:
    """Return the tables whose copies differ from them."""
    return [table for table in _TABLES if copied(pipeline, table) != at_source(run, table)]


def change_unseen(run: Run, *statements: str) -> None:
    """Change tables while their publication sends nothing: the slot never has these changes."""
    run(f"ALTER PUBLICATION {_PUBLICATION} SET (publish = '')")
    for statement in statements:
        run(statement)
    run(f"ALTER PUBLICATION {_PUBLICATION} SET (publish = 'insert, update, delete, truncate')")


@contextmanager
def random_changes(database: str) -> Iterator[None]:
    """Change random rows of all tables, in transactions, while the block runs; rows above 200 only."""
    number = int(os.environ.get("SLUICE_SEED", "0")) or fresh_seed()
    print(f"SLUICE_SEED={number}")  # noqa: T201 - pytest shows it with a failure
    drawn, stop = random.Random(number), threading.Event()  # noqa: S311 - choices of a test

    def write() -> None:
        with closing(psycopg2.connect(database)) as connection, connection.cursor() as cursor:
            while not stop.wait(0.03):
                table, row = drawn.choice(_TABLES), drawn.randint(200, 1200)
                name, value = (", 'n'", ", name") if table == "parts" else ("", "")
                statements = (
                    f"UPDATE {table} SET balance = balance + 1 WHERE id = {row}",
                    f"UPDATE {table} SET id = id + 2000 WHERE id = {row}",
                    f"DELETE FROM {table} WHERE id = {row}",
                    f"INSERT INTO {table} (id{value}, balance) VALUES ({row}{name}, 1) ON CONFLICT DO NOTHING",
                )
                try:
                    cursor.execute(drawn.choice(statements))
                except psycopg2.errors.UniqueViolation:
                    connection.rollback()
                if drawn.random() < 0.5:
                    connection.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def commands(folder: Path) -> Callable[..., str]:
    """Return a function that runs `sluice ingest`, checks its exit code, and returns its output."""

    def ingest(*words: str, exit_code: int = 0) -> str:
        called = CliRunner().invoke(cli, ["ingest", *words, "--spec", str(folder / "pipeline.yml")])
        assert called.exit_code == exit_code, called.output
        return called.stdout

    return ingest


def details(folder: Path, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the flow and the details of the events of a type, as `sluice events` prints them."""
    called = CliRunner().invoke(cli, ["events", "--type", kind, "-o", "json", "--spec", str(folder / "pipeline.yml")])
    return [(each["origin"].get("flow_name", ""), each["details"][kind]) for each in json.loads(called.stdout)]


class KilledError(Exception):
    """Ends an update at a failpoint."""


def killed() -> None:
    """End the update."""
    raise KilledError


def test_a_table_is_read_again_while_changes_flow(
    interpreting: SparkSession, folder: Path, run: Run, database: str
) -> None:
    """Rows that the log never had are mended, whatever ends the update; rows outside of the filter are not touched."""
    create(run, 1000)
    pipeline = pipeline_of(interpreting, folder)
    assert pipeline.run().state is UpdateState.COMPLETED
    change_unseen(
        run,
        *(f"DELETE FROM {table} WHERE id <= 20 OR id BETWEEN 101 AND 110" for table in _TABLES),
        *(f"UPDATE {table} SET balance = -1 WHERE id BETWEEN 21 AND 30" for table in _TABLES),
    )
    run("UPDATE accounts SET balance = 7 WHERE id = 50")
    tables = GatewayTables(gateways=pipeline.gateways)
    operations = Operations(storage=pipeline.storage)
    for name, where in (("public.accounts", None), ("cities", None), ("copies.parts", "id <= 100")):
        operations.resync(*tables.table(name), where)
    assert {table.state.value for table in read_status(pipeline.storage, pipeline_clock())[0].tables} == {"RESYNC"}
    with random_changes(database):
        # The first ends an update, each of the others a flow.
        for points in ({"storage.before_replace": 2}, {"cdc.after_merge": 2, "run.before_once_mark": 1}):
            arm_all(dict.fromkeys(points.items(), killed))
            with suppress(KilledError):
                pipeline.run()
            passed = disarm()
            assert [point for point, nth in points.items() if passed[point] < nth] == []
    assert pipeline.run().state is UpdateState.COMPLETED
    assert copied(pipeline, "accounts") == at_source(run, "accounts")
    assert copied(pipeline, "cities") == at_source(run, "cities")
    stale = [(index, f"n{index}", index) for index in range(101, 111)]
    assert copied(pipeline, "parts") == sorted([*at_source(run, "parts"), *stale])
    cities = copy_rows(pipeline, "cities", "default")
    assert sorted(row.id for row in cities if row["__END_AT"] and row.id <= 30) == list(range(1, 31))

    status = CliRunner().invoke(cli, ["ingest", "status", "-o", "json", "--spec", str(folder / "pipeline.yml")])
    gateway = json.loads(status.stdout)[0]
    assert [(each["table"], each["state"], each["generation"], each["percent"]) for each in gateway["tables"]] == [
        (f"public.{table}", "FOLLOWING", 1, 100.0) for table in _TABLES
    ]
    assert gateway["retained_bytes"] >= 0
    done = details(folder, "operation_progress")
    assert {each["progress_percent"] for _, each in done if each["status"] == "COMPLETED"} == {100.0}
    metrics = [(flow, each.get("metrics") or {}) for flow, each in details(folder, "flow_progress")]
    reports = [(flow, each) for flow, each in metrics if "interval_seconds" in each]
    assert {flow for flow, _ in reports} == {
        f"main.{schema}.{table}_{kind}_flow"
        for schema, table in (("default", "accounts"), ("default", "cities"), ("copies", "parts"))
        for kind in ("snapshot", "cdc")
    }
    first = next(each for flow, each in reports if flow == "main.default.accounts_snapshot_flow")
    assert (first["num_output_rows"], first["num_output_bytes"] > 10_000) == (1000, True)


def pipeline_clock() -> Any:
    """Return the time."""
    from framework.foundation.clock import SystemClock

    return SystemClock().now()


def check_preflight(ingest: Callable[..., str], run: Run) -> None:
    """Before an update, preflight names tables that are missing, and columns that an update would refuse."""
    (missing,) = json.loads(ingest("preflight", "-o", "json", exit_code=1))
    assert missing["tables"] == [f"public.{table}" for table in _TABLES]
    assert {(each["table"], each["condition"]) for each in missing["findings"]} == {
        (table, "DATABASE_TABLE_MISSING") for table in missing["tables"]
    }
    run('CREATE TABLE parts (id INT PRIMARY KEY, b INT, "B" INT)')
    (cased,) = json.loads(ingest("preflight", "-o", "json", exit_code=1))
    found = [each["condition"] for each in cased["findings"] if each["table"] == "public.parts"]
    assert found[-1:] == ["INGESTION_COLUMNS_CASED"]
    run("DROP TABLE parts")


def check_other_slot(renamed: Pipeline, run: Run) -> None:
    """Nothing runs if the slot is named differently: a new table would be published for a slot that nothing reads."""
    run("ALTER TABLE parts RENAME TO new_parts; CREATE TABLE parts (id INT PRIMARY KEY)")
    assert {*failures(renamed.run()).values()} == {"DATABASE_POSITION_LOST.OTHER_SLOT"}
    assert run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == [("sluice_shop",)]


def test_flows_are_held_and_a_gap_has_a_way_out(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """A paused table waits, a skipped one has changes only, a truncated history fails alone, and a lost slot is named.

    A table that gets a column of another type while it waits for its first chunk begins with it. Its staged changes are
    not refreshed without it. Operations that an update found to be missing stay missed.
    Another snapshot of all tables from a new slot is the way out of the last two. Changes that were read from one slot
    are not continued under the name of another one.
    """
    pipeline, ingest = pipeline_of(interpreting, folder), commands(folder)
    check_preflight(ingest, run)
    create(run, 300)
    assert ingest("preflight").startswith("shop: 3 tables, findings: 1\n")  # the log may leave out long names

    tables, operations = GatewayTables(gateways=pipeline.gateways), Operations(storage=pipeline.storage)
    operations.skip_snapshot(*tables.table("public.cities"))
    operations.pause(*tables.table("main.copies.parts"))
    assert pipeline.run().state is UpdateState.COMPLETED
    run("UPDATE cities SET balance = 0 WHERE id = 5; UPDATE parts SET balance = 0 WHERE id = 5")
    run("ALTER TABLE parts ALTER balance TYPE BIGINT")
    pipeline = pipeline_of(interpreting, folder)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert copied(pipeline, "accounts") == at_source(run, "accounts")
    assert [row[0] for row in copied(pipeline, "cities")] == [5]
    assert copied(pipeline, "parts") == []
    states = {each["table"]: each["state"] for each in json.loads(ingest("status", "-o", "json"))[0]["tables"]}
    assert states == {"public.accounts": "FOLLOWING", "public.cities": "FOLLOWING", "public.parts": "PAUSED"}
    with pytest.raises(SluiceError, match="INGESTION_CHANGES_NOT_APPLIED"):
        pipeline.plan(full_refresh=["shop_changes", "accounts", "cities", "copies.parts"])
    steps = pipeline.plan(full_refresh_all=True).steps
    rebuilt = {step.dataset.table for step in steps if isinstance(step, PublishRebuild)}
    assert rebuilt == {"accounts", "cities"}  # neither the paused copy nor the changes that it has not applied
    ingest("resume", "copies.parts")
    run("INSERT INTO accounts VALUES (9999, 1); TRUNCATE cities; INSERT INTO cities VALUES (7, 7)")
    assert failures(pipeline.run()) == {"cities_cdc_flow": "INGESTION_HISTORY_TRUNCATED"}
    assert [table for table in ("accounts", "parts") if copied(pipeline, table) != at_source(run, table)] == []

    run("ALTER PUBLICATION sluice_shop SET (publish = 'insert'); UPDATE accounts SET balance = 7 WHERE id = 20")
    for operations_sent in ("insert", "insert, update, delete, truncate"):  # nothing shows the gap any more
        run(f"ALTER PUBLICATION sluice_shop SET (publish = '{operations_sent}')")
        assert failures(pipeline.run())["shop_changes"] == "DATABASE_POSITION_LOST.PUBLICATION"
    run("SELECT pg_drop_replication_slot('sluice_shop')")
    run("DELETE FROM accounts WHERE id < 10; DELETE FROM parts WHERE id < 10; UPDATE cities SET balance = 1")
    assert {each["state"] for each in json.loads(ingest("status", "-o", "json"))[0]["tables"]} == {"GAP"}
    assert "from a new slot" in ingest("resync", "--all", "--new-slot")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert differing(pipeline, run) == []
    check_other_slot(pipeline_of(interpreting, folder, MODULE.replace("options={", 'options={"slot": "shop_2", ')), run)
    assert {(each["state"], each["way_out"]) for each in json.loads(ingest("status", "-o", "json"))[0]["tables"]} == {
        ("GAP", None)
    }
