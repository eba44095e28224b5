"""Columns and declarations that change under a copy: exact rows, or one table that is held with a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.declare.copy_definition import CopyDefinition
from framework.declare.specs import TableConfiguration
from framework.ingest.copies import definition_of
from framework.ingest.drift import drift_error
from framework.ingest.generations import begin_generations
from framework.ingest.operations import GatewayTables, Operations
from framework.run.update import update
from framework.run.update.results import UpdateResult, UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.catalog import read_table
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.types import column_types
from framework.sources.databases.tables import TableName
from tests.databases.test_ingest_database import failed_flows, pipeline_of, rows_of, shop, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]

# Each alteration between two updates: a table `(id, a int, b varchar(10), m mood)`, and whether the copy follows alone.
ALTERED: dict[str, tuple[str, bool]] = {
    "added": ("ALTER TABLE {t} ADD COLUMN c INT; UPDATE {t} SET c = 7 WHERE id = 2", True),
    "filled": ("ALTER TABLE {t} ADD COLUMN c INT DEFAULT 5", False),
    "filled_once": ("ALTER TABLE {t} ADD COLUMN c TEXT DEFAULT random()::text; ALTER TABLE {t} ALTER c DROP DEFAULT",
                    False),
    "renamed": ("ALTER TABLE {t} RENAME COLUMN a TO z", False),
    "dropped": ("ALTER TABLE {t} DROP COLUMN a", False),
    "made_again": ("ALTER TABLE {t} DROP COLUMN a; ALTER TABLE {t} ADD COLUMN a INT", False),
    "exchanged": ("ALTER TABLE {t} ADD COLUMN a2 INT; ALTER TABLE {t} RENAME a TO a3; ALTER TABLE {t} RENAME a2 TO a",
                  False),
    "widened": ("ALTER TABLE {t} ALTER a TYPE BIGINT; UPDATE {t} SET a = 8589934592 WHERE id = 2", False),
    "to_text": ("ALTER TABLE {t} ALTER a TYPE TEXT USING a || 'x'", False),
    "longer": ("ALTER TABLE {t} ALTER b TYPE VARCHAR(20); UPDATE {t} SET b = repeat('y', 20) WHERE id = 2", True),
    "unbounded": ("ALTER TABLE {t} ALTER b TYPE TEXT", True),
    "computed": ("ALTER TABLE {t} ALTER b TYPE VARCHAR(10) USING upper(b)", False),
    "rekeyed": ("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; ALTER TABLE {t} ADD PRIMARY KEY (a)", False),
    "relabelled": ("ALTER TYPE mood_{t} RENAME VALUE 'sad' TO 'blue'", False),
    "more_labels": ("ALTER TYPE mood_{t} ADD VALUE 'ok'", True),
    "rewritten": ("VACUUM FULL {t}", True),
    "defaulted": ("ALTER TABLE {t} ALTER a SET DEFAULT 3; INSERT INTO {t} (id) VALUES (9)", True),
}  # fmt: skip


def resync(pipeline: Pipeline, *names: str) -> None:
    """Ask for another snapshot of tables, as `sluice ingest resync` does."""
    tables, operations = GatewayTables(gateways=pipeline.gateways), Operations(storage=pipeline.storage)
    for name in names:
        operations.resync(*tables.table(f"public.{name}"), None)


def held(result: UpdateResult) -> dict[str, str]:
    """Return the tables whose flows failed, with the condition."""
    return {flow.removesuffix("_cdc_flow"): condition for flow, condition in failed_flows(result).items()
            if flow.endswith("_cdc_flow")}  # fmt: skip


def source_columns(run: Run, name: str) -> list[str]:
    """Return the columns of a table at the source."""
    query = "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    return [column for (column,) in run(query, name)]


def differing(pipeline: Pipeline, run: Run, names: list[str]) -> dict[str, tuple[Any, Any]]:
    """Return the copies whose columns or rows differ from their source."""
    found = {}
    for name in names:
        columns = source_columns(run, name)
        copied = (sorted(pipeline.table(f"copies.{name}").columns),
                  sorted(rows_of(pipeline, f"copies.{name}", *columns), key=repr))  # fmt: skip
        source = (sorted(columns), sorted(run(f"SELECT * FROM {name}"), key=repr))
        if copied != source:
            found[name] = (copied, source)
    return found


def create(run: Run, name: str) -> None:
    """Create a table with three rows."""
    run(f"CREATE TYPE mood_{name} AS ENUM ('sad', 'glad')")
    run(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(10), m mood_{name})")
    run(f"INSERT INTO {name} SELECT i, i * 10, 'b' || i, 'sad' FROM generate_series(1, 3) i")


def alter(run: Run, name: str) -> None:
    """Run the statements that alter a table, each as a transaction."""
    for statement in ALTERED[name][0].format(t=name).split("; "):
        run(statement)


@pytest.mark.parametrize("name", ALTERED)
def test_the_catalog_tells_whether_rows_without_an_event_are_still_right(name: str, database: str, run: Run) -> None:
    """By number, stamp, type and labels of each column, and by the file of the table."""
    create(run, name)
    before = defined(database, name)
    assert drift_error(before, defined(database, name)) is None
    alter(run, name)
    error = drift_error(before, defined(database, name))
    assert (None if ALTERED[name][1] else "INGESTION_COLUMNS_CHANGED") == (error and error.condition)


def defined(database: str, name: str) -> CopyDefinition:
    """Return how a copy of all columns of a table would be made now."""
    with Session(Connection(name="bank", uri=database)) as session:
        source = read_table(session, TableName(schema="public", table=name))
    return definition_of("shop", source, TableConfiguration(), source.key, column_types(source))


STREAMED = ("added", "renamed", "widened")


def test_an_altered_table_is_exact_or_held_until_it_is_read_again(
    interpreting: SparkSession, folder: Path, run: Run, swap: pytest.MonkeyPatch
) -> None:
    """Rows without an event have the new columns too; a change of columns that an update does not know waits."""
    for name in STREAMED:
        create(run, name)
    pipeline = pipeline_of(interpreting, folder, shop(*map(table, STREAMED)))
    assert pipeline.run().state is UpdateState.COMPLETED
    for name in STREAMED:
        run(f"UPDATE {name} SET b = 'before' WHERE id = 3")

    def begin(*arguments: Any, **named: Any) -> Any:
        """Alter the tables when their definitions are compared, and no flow has begun."""
        begun = begin_generations(*arguments, **named)
        for name in STREAMED:
            alter(run, name)
            run(f"DELETE FROM {name} WHERE id = 1")
        return begun

    with swap.context() as during:
        during.setattr(update, "begin_generations", begin)
        assert held(pipeline.run()) == dict.fromkeys(STREAMED, "INGESTION_COLUMNS_NEWER")
    stopped = {name: "INGESTION_COLUMNS_CHANGED" for name in STREAMED if not ALTERED[name][1]}
    assert held(pipeline.run()) == stopped
    assert differing(pipeline, run, ["added"]) == {}
    resync(pipeline, *stopped)
    assert failed_flows(pipeline.run()) == {}
    assert differing(pipeline, run, [*STREAMED]) == {}
    for name in STREAMED:
        run(f"UPDATE {name} SET b = 'after' WHERE id = 2; DELETE FROM {name} WHERE id = 3")
    assert failed_flows(pipeline.run()) == {}
    assert differing(pipeline, run, [*STREAMED]) == {}
    # A full refresh does not apply these changes again, although the log has the same columns.
    run("ALTER TABLE widened DROP COLUMN m; ALTER TABLE widened ADD COLUMN m mood_widened")
    run("ALTER TABLE added ALTER b TYPE VARCHAR(10) USING upper(b)")
    assert failed_flows(pipeline.run(full_refresh=["copies.widened", "copies.added"])) == {}
    assert differing(pipeline, run, [*STREAMED]) == {}


# Statements between two updates, with changes between alterations. The copies follow the first three.
TWICE: dict[str, tuple[str, ...]] = {
    "added": (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} ADD COLUMN d TEXT",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ADD COLUMN e INT",
        "UPDATE {t} SET e = 1 WHERE id = 3",
    ),
    "longer": (
        "ALTER TABLE {t} ALTER b TYPE VARCHAR(20)",
        "UPDATE {t} SET b = repeat('y', 20) WHERE id = 2",
        "ALTER TABLE {t} ALTER b TYPE VARCHAR(30)",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ALTER b TYPE TEXT",
        "UPDATE {t} SET b = repeat('z', 40) WHERE id = 3",
    ),
    "mixed": (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7, b = 'c' WHERE id = 2",
        "ALTER TABLE {t} ALTER b TYPE VARCHAR(20)",
        "UPDATE {t} SET b = repeat('y', 20) WHERE id = 3",
    ),
    "another": (  # values of a column that is gone are not those of a later one of its name
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c INT",
        "ALTER TABLE {t} ADD COLUMN d INT",
    ),
    "made_again": (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c INT",
    ),
    "there_and_back": (
        "ALTER TABLE {t} RENAME a TO z",
        "UPDATE {t} SET z = 5 WHERE id = 2",
        "ALTER TABLE {t} RENAME z TO a",
    ),
    "exchanged": (
        "ALTER TABLE {t} ADD COLUMN c INT; ALTER TABLE {t} ADD COLUMN d INT",
        "UPDATE {t} SET c = 7, d = 8 WHERE id = 2",
        "ALTER TABLE {t} RENAME c TO e; ALTER TABLE {t} RENAME d TO c; ALTER TABLE {t} RENAME e TO d",
    ),
    "exchanged_back": (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "ALTER TABLE {t} RENAME c TO d; ALTER TABLE {t} RENAME a TO c; ALTER TABLE {t} RENAME d TO a",
        "UPDATE {t} SET a = 7 WHERE id = 2",
        "ALTER TABLE {t} RENAME c TO d; ALTER TABLE {t} RENAME a TO c; ALTER TABLE {t} RENAME d TO a",
    ),
    "waiting": (  # its changes still wait when the next column of the name is made
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} DROP COLUMN c",
    ),
}


def test_tables_that_are_altered_twice_between_two_updates_are_followed(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """If no value can be that of another column; else they are held until they are read again."""
    for name in TWICE:
        create(run, name)
    pipeline = pipeline_of(interpreting, folder, shop(*map(table, TWICE)))
    assert pipeline.run().state is UpdateState.COMPLETED
    for name, statements in TWICE.items():
        for statement in statements:
            run(statement.format(t=name))
    *followed, another, made_again, there, exchanged, back, waiting = TWICE
    changed, newer = "INGESTION_COLUMNS_CHANGED", "INGESTION_COLUMNS_NEWER"
    unclear = {another: changed, made_again: changed}
    passing = dict.fromkeys((there, exchanged, back, waiting), newer)
    assert held(pipeline.run()) == unclear | passing
    run(f"ALTER TABLE {waiting} ADD COLUMN c INT")
    assert held(pipeline.run()) == unclear | passing | {waiting: changed}
    assert differing(pipeline, run, followed) == {}
    resync(pipeline, *unclear, *passing)
    assert failed_flows(pipeline.run()) == {}
    assert differing(pipeline, run, [*TWICE]) == {}


REDEFINED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "filtered": ({"row_filter": "a > 10"}, {"row_filter": "a < 30"}, "a < 30"),
    "recorded": ({}, {"scd_type": "SCD_TYPE_2"}, "true"),
    "narrowed": ({"include_columns": ["a"]}, {"include_columns": ["a", "b"]}, "true"),
}


def test_a_copy_that_is_declared_in_another_way_is_held_until_it_is_read_again(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Rows of both declarations are never mixed; a copy of another name is a new one, with all rows."""
    for name in (*REDEFINED, "moved"):
        create(run, name)

    def pipeline(which: int) -> Pipeline:
        objects = [table(name, table_configuration=REDEFINED[name][which]) for name in REDEFINED]
        moved = table("moved", destination_table=f"moved_{which}")
        return pipeline_of(interpreting, folder, shop(*objects, moved))

    assert pipeline(0).run().state is UpdateState.COMPLETED
    Operations(storage=pipeline(0).storage).resync(
        *GatewayTables(gateways=pipeline(0).gateways).table("public.moved"), "id = 1"
    )
    assert pipeline(0).run().state is UpdateState.COMPLETED
    for name in (*REDEFINED, "moved"):
        run(f"UPDATE {name} SET b = 'changed' WHERE id = 3; DELETE FROM {name} WHERE id = 1")
    assert held(pipeline(1).run()) == dict.fromkeys(REDEFINED, "INGESTION_TABLE_REDEFINED")
    assert rows_of(pipeline(1), "copies.moved_1", "id", "a", "b") == run("SELECT id, a, b FROM moved ORDER BY id")
    resync(pipeline(1), *REDEFINED)
    assert failed_flows(pipeline(1).run()) == {}
    for name, (_, _, where) in REDEFINED.items():
        wanted = run(f"SELECT id, a, b FROM {name} WHERE {where} ORDER BY id")
        assert rows_of(pipeline(1), f"copies.{name}", "id", "a", "b") == wanted
    assert "__END_AT" in pipeline(1).table("copies.recorded").columns
