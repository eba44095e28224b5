"""Columns and declarations that change under a copy: exact rows, or one table that is held with a way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.declare.copy_definition import CopyDefinition
from framework.declare.specs import TableConfiguration
from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.foundation.names import QualifiedName
from framework.ingest.copy_state import new_copy
from framework.ingest.drift import drift_error
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.tables.copies import definition_of
from framework.run.update.results import UpdateResult, UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log import position
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import read_table
from framework.sources.databases.postgres.values.types import column_types
from framework.sources.databases.tables import TableName
from tests.databases.conftest import new_database
from tests.databases.test_ingest_database import pipeline_of, rows_of, shop, table
from tests.support import postgres_log
from tests.support.copied_tables import after_definitions, applied, copy_rows, failures, of_both_flows, resync

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
    "renamed_and_widened": (
        "ALTER TABLE {t} RENAME a TO z; ALTER TABLE {t} ALTER z TYPE BIGINT; UPDATE {t} SET z = 1::bigint << 33",
        False,
    ),
    "to_text": ("ALTER TABLE {t} ALTER a TYPE TEXT USING a || 'x'", False),
    "longer": ("ALTER TABLE {t} ALTER b TYPE VARCHAR(20); UPDATE {t} SET b = repeat('y', 20) WHERE id = 2", True),
    "unbounded": ("ALTER TABLE {t} ALTER b TYPE TEXT", True),
    "computed": ("ALTER TABLE {t} ALTER b TYPE VARCHAR(10) USING upper(b)", False),
    "rekeyed": ("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; ALTER TABLE {t} ADD PRIMARY KEY (a)", False),
    "key_made_again": ("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; ALTER TABLE {t} ADD PRIMARY KEY (id)", True),
    "key_away": (  # rows may change their keys while there is none
        (
            "ALTER TABLE {t} REPLICA IDENTITY FULL; ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; "
            "UPDATE {t} SET id = id + 1; ALTER TABLE {t} ADD PRIMARY KEY (id)"
        ),
        False,
    ),
    "key_reindexed": ("ALTER TABLE {t} REPLICA IDENTITY FULL; REINDEX TABLE CONCURRENTLY {t}", True),
    "type_renamed": ("ALTER TYPE mood_{t} RENAME TO temper", True),
    "relabelled": ("ALTER TYPE mood_{t} RENAME VALUE 'sad' TO 'blue'", False),
    "more_labels": ("ALTER TYPE mood_{t} ADD VALUE 'ok'", True),
    "rewritten": ("VACUUM FULL {t}", True),
    # As if the column had been added with values, which the log does not have.
    "added_and_truncated": (
        "ALTER TABLE {t} ADD COLUMN c INT; TRUNCATE {t}; INSERT INTO {t} (id, a, c) VALUES (2, 1, 7)",
        False,
    ),
    "defaulted": ("ALTER TABLE {t} ALTER a SET DEFAULT 3; INSERT INTO {t} (id) VALUES (9)", True),
}  # fmt: skip


def held(result: UpdateResult) -> dict[str, str]:
    """Return the tables whose flows failed, with the condition."""
    return {flow.removesuffix("_cdc_flow"): condition for flow, condition in failures(result).items()
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
        copied = sorted(sorted(row.asDict().items()) for row in copy_rows(pipeline, name))
        source = sorted(sorted(zip(columns, row, strict=True)) for row in run(f"SELECT * FROM {name}"))
        if copied != source:
            found[name] = (copied, source)
    return found


def create(run: Run, name: str) -> None:
    """Create a table with three rows."""
    run(f"CREATE TYPE mood_{name} AS ENUM ('sad', 'glad')")
    run(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(10), m mood_{name})")
    run(f"INSERT INTO {name} SELECT i, i * 10, 'b' || i, 'sad' FROM generate_series(1, 3) i")


def change(run: Run, names: Iterable[str], *statements: str) -> None:
    """Run statements on tables, each as a transaction."""
    for name in names:
        for statement in statements:
            run(statement.format(t=name))


def alter(run: Run, name: str) -> None:
    """Run the statements that alter a table, each as a transaction."""
    change(run, [name], *ALTERED[name][0].split("; "))


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


# Statements between two updates, with changes between alterations, and what becomes of the copy.
_CHANGED, _NEWER = "INGESTION_COLUMNS_CHANGED", "INGESTION_COLUMNS_NEWER"
TWICE: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "each_new": (None, (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} ADD COLUMN d TEXT",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ADD COLUMN e INT",
        "UPDATE {t} SET e = 1 WHERE id = 3",
    )),
    "longer": (None, (
        "ALTER TABLE {t} ALTER b TYPE VARCHAR(20)",
        "UPDATE {t} SET b = repeat('y', 20) WHERE id = 2",
        "ALTER TABLE {t} ALTER b TYPE VARCHAR(30)",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ALTER b TYPE TEXT",
        "UPDATE {t} SET b = repeat('z', 40) WHERE id = 3",
    )),
    "mixed": (None, (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7, b = 'c' WHERE id = 2",
        "ALTER TABLE {t} ALTER b TYPE VARCHAR(20)",
        "UPDATE {t} SET b = repeat('y', 20) WHERE id = 3",
        "ALTER TABLE {t} ADD COLUMN d TEXT",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ALTER b TYPE TEXT",
        "INSERT INTO {t} VALUES (4, 40, repeat('z', 40), 'glad', NULL, 'd')",
    )),
    "another": (_CHANGED, (  # values of a column that is gone are not those of a later one of its name
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c INT",
        "ALTER TABLE {t} ADD COLUMN d INT",
    )),
    "new_again": (_CHANGED, (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c INT",
    )),
    "there_and_back": (_NEWER, (
        "ALTER TABLE {t} RENAME a TO z",
        "UPDATE {t} SET z = 5 WHERE id = 2",
        "ALTER TABLE {t} RENAME z TO a",
    )),
    "two_exchanged": (_NEWER, (
        "ALTER TABLE {t} ADD COLUMN c INT; ALTER TABLE {t} ADD COLUMN d INT",
        "UPDATE {t} SET c = 7, d = 8 WHERE id = 2",
        "ALTER TABLE {t} RENAME c TO e; ALTER TABLE {t} RENAME d TO c; ALTER TABLE {t} RENAME e TO d",
    )),
    "exchanged_back": (_NEWER, (
        "ALTER TABLE {t} ADD COLUMN c INT",
        "ALTER TABLE {t} RENAME c TO d; ALTER TABLE {t} RENAME a TO c; ALTER TABLE {t} RENAME d TO a",
        "UPDATE {t} SET a = 7 WHERE id = 2",
        "ALTER TABLE {t} RENAME c TO d; ALTER TABLE {t} RENAME a TO c; ALTER TABLE {t} RENAME d TO a",
    )),
    "waiting": (_NEWER, (  # its changes still wait when the next column of the name is made
        "ALTER TABLE {t} ADD COLUMN c INT",
        "UPDATE {t} SET c = 7 WHERE id = 2",
        "ALTER TABLE {t} DROP COLUMN c",
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_changes_between_two_alterations_are_applied_only_if_no_value_can_be_that_of_another_column(
    name: str, database: str, run: Run, tmp_path: Path
) -> None:
    """The catalog decides whether the copy follows, and the version of a change in the log whether it is applied."""
    condition, statements = TWICE[name]
    create(run, name)
    start = postgres_log.position(database, name)
    target = QualifiedName(catalog="main", schema="copies", table=name)
    copy = new_copy(target, defined(database, name))
    change(run, [name], *statements)
    with closing(postgres_log.reader(database, start, tmp_path / "spool")) as log:
        versions = {row["schema_version"] for row in postgres_log.rows_of(log.read_transactions(start.lsn))}
    assert len(versions) > 0
    followed = copy.followed_by(defined(database, name))
    if followed is None:
        assert condition == _CHANGED
    else:
        assert condition == (None if versions <= {*followed.log_versions} else _NEWER)


STREAMED = ("added", "renamed_and_widened")
BETWEEN = ("mixed", "waiting")
REDEFINED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "filtered": (
        {"row_filter": "a > 10", "include_columns": ["a"]},
        {"row_filter": "a < 30", "include_columns": ["a", "b"]},
        "a < 30",
    ),
    "recorded": ({}, {"scd_type": "SCD_TYPE_2"}, "true"),
}


def declared(spark: SparkSession, folder: Path, which: int) -> Pipeline:
    """Return the pipeline of all tables, with the first or the second declaration of those that are redefined."""
    objects = [table(name, table_configuration=REDEFINED[name][which]) for name in REDEFINED]
    objects += map(table, (*STREAMED, *BETWEEN, "empty"))
    return pipeline_of(spark, folder, shop(*objects))


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What four updates of one pipeline found, each as a dictionary by table: an update costs what its flows cost.

    Args:
        altered: the held tables of the update in which tables are altered.
        held: those of the next one, which has the second declarations, too.
        followed: the differences of followed copies after it.
        refused: the failed flows of a full refresh of `added` for which the database gives no position.
        again: the failed flows of the update that reads the held tables again.
        applied: the tables whose changes it applied, `added` among them, which it refreshed fully.
        differing: the differences of copies after it.
        recorded: the columns of the copy that has become a history.
    """

    altered: dict[str, str]
    held: dict[str, str]
    followed: dict[str, tuple[Any, Any]]
    refused: dict[str, str]
    again: dict[str, str]
    applied: set[str]
    differing: dict[str, tuple[Any, Any]]
    recorded: list[str]


@pytest.fixture(scope="module")
def course(spark: SparkSession, server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """All tables in one pipeline."""
    folder, session = tmp_path_factory.mktemp("columns"), spark.newSession()
    with new_database(server) as uri:
        (folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
        return observed(session, folder, partial(postgres_log.query, uri))


def observed(spark: SparkSession, folder: Path, run: Run) -> Course:
    """Copy the tables, alter and redeclare them, and read again those that are held."""
    for name in (*STREAMED, *BETWEEN, *REDEFINED, "empty"):
        create(run, name)
    run("INSERT INTO added VALUES (5, 50, 'b5', 'sad')")
    pipeline = declared(spark, folder, 0)
    operations, empty = Operations(storage=pipeline.storage), GatewayTables(gateways=pipeline.gateways).table("empty")
    operations.pause(*empty)
    assert pipeline.run().state is UpdateState.COMPLETED
    change(run, STREAMED, "UPDATE {t} SET b = 'before' WHERE id IN (3, 5)")
    change(run, ["empty"], "UPDATE {t} SET a = 1 WHERE id = 3")
    for name in BETWEEN:
        change(run, [name], *TWICE[name][1])

    def alter_streamed() -> None:
        for name in STREAMED:
            alter(run, name)
        change(run, STREAMED, "DELETE FROM {t} WHERE id = 1")

    with after_definitions(alter_streamed):
        altered = held(pipeline.run())
    change(run, ["waiting"], "ALTER TABLE {t} ADD COLUMN c INT")
    change(run, REDEFINED, "UPDATE {t} SET b = 'changed' WHERE id = 3", "DELETE FROM {t} WHERE id = 1")
    pipeline = declared(spark, folder, 1)
    stopped = held(pipeline.run())
    followed = differing(pipeline, run, ["added", "mixed"])
    resync(pipeline, *stopped)
    # The log has the same columns as before, and a staged change of the row 5 that a full refresh must not apply again.
    change(run, ["added"], "ALTER TABLE {t} ALTER b TYPE VARCHAR(10) USING upper(b); ALTER TABLE {t} DROP m, DROP c")
    change(run, ["added"], "ALTER TABLE {t} ADD COLUMN m mood_{t}; ALTER TABLE {t} ADD COLUMN c INT")
    later = ("UPDATE {t} SET b = 'after' WHERE id = 2", "DELETE FROM {t} WHERE id = 3")
    others = [f"copies.{name}" for name in ("renamed_and_widened", "empty", *BETWEEN, *REDEFINED)]
    change(run, ["empty"], "ALTER TABLE {t} DROP COLUMN a", "ALTER TABLE {t} ADD COLUMN a INT DEFAULT 9")
    operations.resume(*empty)
    with pytest.MonkeyPatch.context() as during:
        during.setattr(position, "settled_position", refuse)
        refused = failures(pipeline.run(full_refresh=["copies.added"], refresh=["copies.empty"]))
    assert rows_of(pipeline, "copies.empty", "id") == []
    with after_definitions(lambda: change(run, STREAMED, *later)):
        result = pipeline.run(refresh=["shop_changes", *others], full_refresh=["copies.added"])
    found = differing(pipeline, run, [*STREAMED, *BETWEEN, "empty"])
    for name, (_, _, where) in REDEFINED.items():
        found |= unequal(pipeline, run, name, where)
    return Course(
        altered=altered, held=stopped, followed=followed, refused=refused, again=failures(result),
        applied=applied(result), differing=found, recorded=copy_rows(pipeline, "recorded")[0].__fields__,
    )  # fmt: skip


def refuse(*_: object) -> int:
    """Answer as a source in which a transaction does not end."""
    raise SourceError("DATABASE_TRANSACTIONS_OPEN", slot="s", seconds=1, pids="7")


def unequal(pipeline: Pipeline, run: Run, name: str, where: str) -> dict[str, tuple[Any, Any]]:
    """Return the rows of a copy and of its source that meet a condition, by the name of the copy; {} if equal."""
    copied = rows_of(pipeline, f"copies.{name}", "id", "a", "b")
    source = run(f"SELECT id, a, b FROM {name} WHERE {where} ORDER BY id")
    return {} if copied == source else {name: (copied, source)}


def of(names: Iterable[str], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of tables or of their flows."""
    wanted = {f"{name}{flow}" for name in names for flow in ("", "_snapshot_flow", "_cdc_flow")}
    return {name: each for name, each in found.items() if name in wanted}


def test_an_altered_table_is_exact_or_held_until_it_is_read_again(course: Course) -> None:
    """Rows without an event have the new columns too; a change of columns that an update does not know waits."""
    assert of(STREAMED, course.altered) == dict.fromkeys(STREAMED, _NEWER)
    assert of(STREAMED, course.held) == {name: _CHANGED for name in STREAMED if not ALTERED[name][1]}
    assert [of(STREAMED, found) for found in (course.followed, course.again, course.differing)] == [{}, {}, {}]
    assert course.applied >= {*STREAMED}


def test_a_full_refresh_passes_over_changes_of_columns_that_had_other_values(course: Course) -> None:
    """Also if the log has the same columns as before; changes since then are applied.

    Without a position for it the full refresh fails alone, and the copy waits for the next one. So does a copy without
    rows for which changes of such columns are staged.
    """
    assert course.refused == of_both_flows(added="INGESTION_REFRESH_NOT_BEGUN")
    assert [of(["added"], found) for found in (course.again, course.differing)] == [{}, {}]
    assert "added" in course.applied


def test_tables_that_are_altered_twice_between_two_updates_are_followed(course: Course) -> None:
    """If no value can be that of another column; else they are held until they are read again."""
    assert of(BETWEEN, course.altered) == {"waiting": _NEWER}
    assert of(BETWEEN, course.held) == {"waiting": _CHANGED}
    assert [of(BETWEEN, found) for found in (course.followed, course.again, course.differing)] == [{}, {}, {}]


def test_a_copy_that_is_declared_in_another_way_is_held_until_it_is_read_again(course: Course) -> None:
    """Rows of both declarations are never mixed."""
    assert of(REDEFINED, course.altered) == {}
    assert of(REDEFINED, course.held) == dict.fromkeys(REDEFINED, "INGESTION_TABLE_REDEFINED")
    assert [of(REDEFINED, found) for found in (course.again, course.differing)] == [{}, {}]
    assert "__END_AT" in course.recorded
    assert {*course.altered, *course.held} <= {*STREAMED, *BETWEEN, *REDEFINED}
    assert (course.again, course.differing) == ({}, {})
