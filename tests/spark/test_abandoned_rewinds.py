"""A rewind that was interrupted, and whose tables, old files or checkpoints are gone since, is given up by its user."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from framework import Pipeline
from framework import pipelines as dp
from framework.checkpoints.reset_requests import ResetRequest, ResetRequests
from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError, UserError
from framework.foundation.names import QualifiedName
from framework.plan.steps import SkipStep
from framework.record.events import EventType
from framework.record.reader import read_events
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import interrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = dict[str, list[tuple[Any, ...]]]

TABLES = ("orders", "loud", "people", "per_city")
BAD: Rows = {
    "orders": [(1, "bern"), (2, "oslo"), (3, "rome?")],
    "loud": [(1, "BERN"), (2, "OSLO"), (3, "ROME?")],
    "people": [(1, "anna?")],
    "per_city": [("BERN", 1), ("OSLO", 1), ("ROME?", 1)],
}
GOOD: Rows = {
    "orders": [(1, "bern"), (2, "oslo"), (3, "rome"), (4, "kyiv")],
    "loud": [(1, "BERN"), (2, "OSLO"), (3, "ROME"), (4, "KYIV")],
    "people": [(1, "anna"), (3, "cy")],
    "per_city": [("BERN", 1), ("KYIV", 1), ("OSLO", 1), ("ROME", 1)],
}


def declared(world: EngineWorld, *, bad: bool = False, people: bool = True) -> Callable[[], None]:
    """Two tables, of which one reads the other, a view, and a target; bad code changes rows, drops one, deletes one."""
    suffix = F.lit("?" if bad else "")

    def read(source: str) -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source(source))

    def declare() -> None:
        @dp.table(table_properties={"sluice.quarantine": "true"})
        @dp.expect_or_drop("known", "city NOT LIKE 'kyiv?'")
        def orders() -> DataFrame:
            marked = F.when(F.col("id") > 2, F.concat("city", suffix)).otherwise(F.col("city"))
            return read("orders").withColumn("city", marked)

        @dp.table
        def loud() -> DataFrame:
            return world.spark.readStream.table("orders").withColumn("city", F.upper("city"))

        @dp.materialized_view
        def per_city() -> DataFrame:
            return world.spark.read.table("loud").groupBy("city").count()

        @dp.temporary_view
        def changes() -> DataFrame:
            is_wrong = (F.col("id") == 3) & F.lit(bad)
            rows = read("changes").withColumn("name", F.concat("name", suffix))
            return rows.withColumn("op", F.when(is_wrong, "D").otherwise(F.col("op")))

        if not people:
            return
        dp.create_streaming_table("people")
        dp.create_auto_cdc_flow(
            target="people", source="changes", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'D'",
            except_column_list=["op", "seq"],
        )  # fmt: skip

    return declare


def feed(world: EngineWorld, orders: list[tuple[Any, ...]], changes: list[tuple[Any, ...]]) -> None:
    """Append to both sources."""
    world.feed(orders, "id INT, city STRING", called="orders")
    world.feed(changes, "id INT, name STRING, op STRING, seq INT", called="changes")


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[EngineWorld, str]:
    """A pipeline after an update with good code and one with bad code; the first one's id."""
    world = EngineWorld(spark.newSession(), tmp_path_factory.mktemp("abandoned"))
    feed(world, [(1, "bern"), (2, "oslo")], [(1, "ann", "U", 1), (2, "bo", "U", 1)])
    first = world.run(declared(world))
    feed(world, [(3, "rome"), (4, "kyiv")], [(1, "anna", "U", 2), (2, None, "D", 2), (3, "cy", "U", 1)])
    assert world.run(declared(world, bad=True)).state is UpdateState.COMPLETED
    assert rows_of(world) == BAD
    return world, first.update_id


@pytest.fixture
def begun(template: tuple[EngineWorld, str], tmp_path: Path) -> tuple[EngineWorld, str]:
    """A copy of the template."""
    world, first = template
    return world.copy(tmp_path / "copy"), first


def rows_of(world: EngineWorld) -> Rows:
    """The rows of all tables."""
    return {name: world.rows(name) for name in TABLES}


def interrupted(world: EngineWorld, to: str, failpoint: str, nth: int = 1) -> Pipeline:
    """Begin a rewind of all tables that is interrupted at a failpoint; return the pipeline with good code."""
    fixed = world.pipeline(declared(world))
    plan = fixed.rewinds.plan(to)
    interrupt(lambda: fixed.rewinds.rewind(plan), failpoint, nth)
    return fixed


def forget(world: EngineWorld) -> None:
    """Drop what Delta knows of the tables, as in a new process."""
    jvm: Any = world.spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def without_first_file(world: EngineWorld, table: str) -> None:
    """Delete the oldest file of a table, as VACUUM does."""
    min(Path(world.path(table)).glob("*.parquet"), key=lambda file: file.stat().st_mtime).unlink()


def without(world: EngineWorld, table: str) -> None:
    """Delete a table's folder."""
    shutil.rmtree(world.path(table))


def without_last_commit(world: EngineWorld, table: str) -> None:
    """Put an older copy of a table in place of it."""
    log = Path(world.path(table), "_delta_log")
    for file in (*log.glob("*.crc"), max(log.glob("*.json"))):
        file.unlink()


def without_checkpoint(world: EngineWorld, table: str) -> None:
    """Delete the offsets of the flow into a table."""
    shutil.rmtree(next((world.root / "storage" / "checkpoints" / f"main.s.{table}").glob("*/1/offsets")))


def check_unfinishable(fixed: Pipeline, problem: str) -> None:
    """The state has one name everywhere, which says what is gone and what to do; nothing is changed by it."""
    for refused in (fixed.run, fixed.rewinds.finish, fixed.plan, fixed.run):
        with pytest.raises(OperationError, match=rf"(?s)REWIND_NOT_FINISHABLE.*{problem}.*sluice rewind --abandon"):
            refused()
    (finding,) = fixed.doctor.examine().findings
    assert (finding.diagnosis.name, problem in finding.cause) == ("REWIND_INTERRUPTED", True)


def test_before_the_first_table_is_restored_nothing_has_to_be_done(begun: tuple[EngineWorld, str]) -> None:
    """All tables and checkpoints stay as they are: flows go on, and another rewind can be done of what can go back."""
    world, first = begun
    fixed = interrupted(world, first, "rewinds.after_mark")
    without_first_file(world, "people")
    forget(world)
    check_unfinishable(fixed, "files that are gone")
    found = fixed.rewinds.plan_abandonment()
    assert found is not None
    assert ([each.dataset.table for each in found.obstacles], found.rest) == (["people"], None)
    fixed.rewinds.abandon(found)
    assert fixed.rewinds.plan_abandonment() is None
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world) == BAD
    with pytest.raises(UserError, match="REWIND_FILES_GONE"):
        fixed.rewinds.plan(first)
    fixed.rewinds.rewind(fixed.rewinds.plan(first, ["orders"]))
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world) == {**GOOD, "people": BAD["people"]}
    assert fixed.run(full_refresh=["people"]).state is UpdateState.COMPLETED
    assert rows_of(world) == GOOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A rewind that is interrupted, and what is gone before it is finished.

    Args:
        at: the failpoint, and at which passing.
        gone: takes something away from a table.
        table: the table.
        problem: how it is named.
        refreshed: the tables that do not go back.
        again: where giving it up is interrupted; the next update does the rest.
    """

    at: tuple[str, int]
    gone: Callable[[EngineWorld, str], None]
    table: str
    problem: str
    refreshed: tuple[str, ...]
    again: str = ""


CASES = {
    "a target before the first table is restored": Case(
        at=("rewinds.after_names", 1), gone=without_first_file, table="people", problem="files that are gone",
        refreshed=("people",),
    ),
    "a target after its auxiliary table": Case(
        at=("rewinds.after_table", 3), gone=without_first_file, table="people", problem="files that are gone",
        refreshed=("people",),
    ),
    "a reader after its input": Case(
        at=("rewinds.after_table", 1), gone=without, table="loud", problem="there is no table at",
        refreshed=("loud",), again="rewinds.after_abandon",
    ),
    "an input that was restored": Case(
        at=("rewinds.after_table", 2), gone=without, table="orders", problem="there is no table at",
        refreshed=("loud", "orders"), again="rewinds.after_refresh",
    ),
    "an older copy": Case(
        at=("rewinds.after_table", 1), gone=without_last_commit, table="loud", problem="an older copy is at",
        refreshed=("loud",),
    ),
    "an old checkpoint": Case(
        at=("rewinds.after_checkpoint", 1), gone=without_checkpoint, table="people", problem="no longer has",
        refreshed=("people",), again="rewinds.after_generation",
    ),
    "a target after the quarantine": Case(
        at=("rewinds.after_quarantine", 1), gone=without, table="people", problem="there is no table at",
        refreshed=("people",),
    ),
    "an input after its generation": Case(
        at=("rewinds.after_generation", 1), gone=without, table="orders", problem="there is no table at",
        refreshed=("loud", "orders"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_cannot_go_back_is_fully_refreshed_and_the_rest_goes_back(
    begun: tuple[EngineWorld, str], case: Case
) -> None:
    """Wherever the rewind was interrupted, and if giving it up is interrupted too, no row is lost or doubled."""
    world, first = begun
    fixed = interrupted(world, first, *case.at)
    case.gone(world, case.table)
    forget(world)
    check_unfinishable(fixed, case.problem)
    name = QualifiedName(catalog="main", schema="s", table=case.table)
    ResetRequests(fixed.storage, SystemClock()).ask(ResetRequest(dataset=name, flow=name, start=None))
    found = fixed.rewinds.plan_abandonment()
    assert found is not None
    assert found.rest is not None
    assert tuple(each.table for each in found.rest.refreshed) == case.refreshed
    assert {each.table for each in found.rewound} == {"orders", "loud", "people"} - {*case.refreshed}
    if case.again:
        interrupt(lambda: fixed.rewinds.abandon(found), case.again)
    else:
        fixed.rewinds.abandon(found)
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world) == GOOD
    assert fixed.quarantine.rows().where("state = 'open'").count() == 0
    actions = [event.details["user_action"] for event in read_events(fixed.storage, type=EventType.USER_ACTION)]
    statuses = [each["status"] for each in actions]
    assert statuses == ["BEGUN", "ABANDONED", "DONE"]
    assert [step for step in fixed.plan().steps if not isinstance(step, SkipStep)] == []


def given_up(world: EngineWorld, first: str) -> Pipeline:
    """The pipeline after a rewind was given up of which one table is restored, and its reader is gone."""
    fixed = interrupted(world, first, "rewinds.after_table", 1)
    without(world, "loud")
    forget(world)
    found = fixed.rewinds.plan_abandonment()
    assert found is not None
    fixed.rewinds.abandon(found)
    return fixed


def test_resets_prunes_and_full_refreshes_may_come_before_the_next_update(begun: tuple[EngineWorld, str]) -> None:
    """A reset of what is fully refreshed is refused; everything else ends in the same rows."""
    world, first = begun
    fixed = given_up(world, first)
    with pytest.raises(UserError, match="FULL_REFRESH_UNFINISHED"):
        fixed.run(reset_checkpoints=["loud"])
    assert fixed.run(reset_checkpoints=["people"]).state is UpdateState.COMPLETED
    fewer = world.pipeline(declared(world, people=False))
    assert [table.name.table for table in fewer.prune(fewer.left_tables())] == ["people"]
    assert fixed.run(full_refresh=["loud", "orders"]).state is UpdateState.COMPLETED
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world) == GOOD


def test_another_rewind_follows_when_the_full_refreshes_are_done(begun: tuple[EngineWorld, str]) -> None:
    """Before, it is refused. It may go back to the update that did them."""
    world, first = begun
    fixed = given_up(world, first)
    with pytest.raises(UserError, match="REWIND_DURING_FULL_REFRESH"):
        fixed.rewinds.plan(first, ["loud"])
    done = fixed.run()
    feed(world, [(5, "riga")], [(5, "di", "U", 9)])
    assert fixed.run().state is UpdateState.COMPLETED
    fixed.rewinds.rewind(fixed.rewinds.plan(done.update_id))
    assert {name: world.rows(name) for name in TABLES[:3]} == {name: GOOD[name] for name in TABLES[:3]}
    assert fixed.run().state is UpdateState.COMPLETED
    assert world.rows("loud") == sorted([*GOOD["loud"], (5, "RIGA")])
    assert world.rows("people") == sorted([*GOOD["people"], (5, "di")])
