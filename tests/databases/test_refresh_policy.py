"""`auto_full_refresh_policy`: a table whose columns changed at the source is read again without an operator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.declare.specs import AutoFullRefreshPolicy, IngestedTable
from framework.foundation.clock import SystemClock
from framework.foundation.errors import UserError
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.refresh_policy import note_of_refresh
from framework.ingest.state import GatewayStore
from framework.ingest.tables.known_tables import recorded_copy
from framework.sources.databases.postgres.log import position
from tests.databases.test_columns_change import Run, refuse
from tests.databases.test_ingest_database import pipeline_of, rows_of, shop, table
from tests.support.copied_tables import failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = {"auto_full_refresh_policy": {"enabled": True, "min_interval_hours": 0}}
HISTORY = {**AT_ONCE, "scd_type": "SCD_TYPE_2"}
TABLES: dict[str, dict[str, Any]] = {
    "at_once": AT_ONCE, "narrower": AT_ONCE, "paused": AT_ONCE, "grown": HISTORY, "shrunk": HISTORY,
    "daily": {"auto_full_refresh_policy": {"enabled": True}},
    "never": {"auto_full_refresh_policy": {"enabled": False}},
}  # fmt: skip
READ_AGAIN = {"at_once", "narrower", "grown"}


class Tomorrow(SystemClock):
    """A clock that is a day ahead."""

    def now(self) -> datetime:
        """The time in a day."""
        return datetime.now(tz=UTC) + timedelta(hours=24, minutes=1)


def declared(spark: SparkSession, folder: Path) -> Pipeline:
    """Return the pipeline of all tables; the common policy is that of no table."""
    objects = [table(name, table_configuration=configuration) for name, configuration in TABLES.items()]
    return pipeline_of(spark, folder, shop(*objects, table_configuration={"exclude_columns": ["unused"]}))


def declared_table(pipeline: Pipeline, name: str) -> IngestedTable:
    """Return a table as the database has it now."""
    return next(each for each in pipeline.gateways[0].tables if each.source_table == name)


def test_a_table_with_a_policy_is_read_again_and_others_are_held(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Rows equal the source's; a paused table, a history that would begin again and a recent snapshot wait."""
    for name in TABLES:
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, unused INT)")
        run(f"INSERT INTO {name} SELECT i, i * 10 FROM generate_series(1, 3) i")
    pipeline = declared(interpreting, folder)
    assert failures(pipeline.run()) == {}
    operations, tables = Operations(storage=pipeline.storage), GatewayTables(gateways=pipeline.gateways)
    operations.pause(*tables.table("public.paused"))
    for name in TABLES:
        drops = name in {"narrower", "shrunk"}
        run(f"ALTER TABLE {name} " + ("DROP COLUMN a" if drops else "ADD COLUMN c INT DEFAULT 5"))
        run(f"DELETE FROM {name} WHERE id = 1")
    held = dict.fromkeys(
        (f"{name}_{flow}_flow" for name in ("daily", "never", "shrunk", "paused") for flow in ("snapshot", "cdc")),
        "INGESTION_COLUMNS_CHANGED",
    )
    pipeline = declared(interpreting, folder)
    told = {str(each.fields["table"]): each for each in pipeline.graph.warnings}
    assert {name.removeprefix("public.") for name in told} == READ_AGAIN
    assert {each.condition for each in told.values()} == {"INGESTION_COLUMNS_REFRESHED"}
    assert all(each.location is not None and each.location.line == 2 for each in told.values())
    check_policies(pipeline)
    with pytest.MonkeyPatch.context() as during:
        during.setattr(position, "settled_position", refuse)
        waiting = pipeline.run()
    assert failures(waiting) == held
    assert {error.condition for error in waiting.refused} == {"DATABASE_TRANSACTIONS_OPEN"}
    assert rows_of(pipeline, "copies.at_once", "id", "a") == [(1, 10), (2, 20), (3, 30)]  # nothing begins
    pipeline = declared(interpreting, folder)
    assert failures(pipeline.run()) == held
    check_rows(pipeline, run)
    run("UPDATE at_once SET c = 7 WHERE id = 2; UPDATE narrower SET unused = 1; INSERT INTO grown VALUES (4, 40, 0, 6)")
    assert failures(declared(interpreting, folder).run()) == held
    check_rows(pipeline, run)


def check_rows(pipeline: Pipeline, run: Run) -> None:
    """Compare the copies that are read again with their sources; what is deleted there has ended in the history."""
    assert rows_of(pipeline, "copies.at_once", "id", "a", "c") == run("SELECT id, a, c FROM at_once ORDER BY id")
    assert rows_of(pipeline, "copies.narrower", "id") == run("SELECT id FROM narrower ORDER BY id")
    ended = rows_of(pipeline, "copies.grown", "id", "a", "c", "__END_AT")
    assert [row[:3] for row in ended if row[3] is None] == run("SELECT id, a, c FROM grown ORDER BY id")
    assert [row[0] for row in ended if row[3] is not None and row[2] is None] == [1, 2, 3]
    assert rows_of(pipeline, "copies.never", "id", "a") == [(1, 10), (2, 20), (3, 30)]


def check_policies(pipeline: Pipeline) -> None:
    """With the least interval of a day, a table has to wait for it, and the error names the time."""
    now = declared_table(pipeline, "at_once").definition
    assert now is not None
    state = GatewayStore(pipeline.storage).read("shop")
    before = recorded_copy(pipeline.storage, state, "shop", declared_table(pipeline, "at_once").target)
    assert before is not None
    policy, asked = AutoFullRefreshPolicy(enabled=True), (before.definition, now, before.target)
    with pytest.raises(UserError) as raised:
        note_of_refresh(policy, pipeline.storage, *asked)
    assert "`auto_full_refresh_policy` reads all rows again from 2" in raised.value.what
    told = note_of_refresh(policy, pipeline.storage, *asked, clock=Tomorrow())
    assert told is not None
    assert told.condition == "INGESTION_COLUMNS_REFRESHED"
    assert note_of_refresh(AutoFullRefreshPolicy(enabled=False), pipeline.storage, *asked, clock=Tomorrow()) is None
