"""A rewind that was interrupted, and whose tables, old files or checkpoints are gone since, is given up by its user."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
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
from framework.recovery.rewind.plan import Abandonment
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld, forget_tables
from tests.support.interruption import interrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]

# What each table reads, in the order in which a rewind takes them.
SMALL = {"orders": "source", "loud": "orders", "people": "changes"}
LARGE = {
    "visits": "source", "echo": "visits", "notes": "source", "marked": "notes", "orders": "source",
    "people": "changes", "loud": "orders", "late": "orders", "plans": "source", "clubs": "changes",
}  # fmt: skip
BAD: dict[str, Rows] = {
    "source": [(1, "bern"), (2, "oslo"), (3, "rome?")],
    "table": [(1, "BERN"), (2, "OSLO"), (3, "ROME?")],
    "changes": [(1, "anna?")],
}
GOOD: dict[str, Rows] = {
    "source": [(1, "bern"), (2, "oslo"), (3, "rome"), (4, "kyiv")],
    "table": [(1, "BERN"), (2, "OSLO"), (3, "ROME"), (4, "KYIV")],
    "changes": [(1, "anna"), (3, "cy")],
}


def declared(world: EngineWorld, tables: Mapping[str, str] = SMALL, *, bad: bool = False) -> Callable[[], None]:
    """The tables, and a view; bad code changes rows, drops one, deletes one."""
    suffix = F.lit("?" if bad else "")

    def read(source: str) -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source(source))

    def rows() -> DataFrame:
        marked = F.when(F.col("id") > 2, F.concat("city", suffix)).otherwise(F.col("city"))
        return read("source").withColumn("city", marked)

    def of_table(name: str) -> Callable[[], DataFrame]:
        return lambda: world.spark.readStream.table(name).withColumn("city", F.upper("city"))

    def declare() -> None:
        @dp.temporary_view
        def changes() -> DataFrame:
            is_wrong = (F.col("id") == 3) & F.lit(bad)
            rows = read("changes").withColumn("name", F.concat("name", suffix))
            return rows.withColumn("op", F.when(is_wrong, "D").otherwise(F.col("op")))

        for name, source in tables.items():
            if source == "source":
                quarantine = {"sluice.quarantine": str(name == "orders").lower()}
                checked = dp.expect_or_drop("known", "city NOT LIKE 'kyiv?'")(rows)
                dp.table(name=name, table_properties=quarantine)(checked)
            elif source == "changes":
                dp.create_streaming_table(name)
                dp.create_auto_cdc_flow(
                    target=name, source="changes", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'D'",
                    except_column_list=["op", "seq"],
                )  # fmt: skip
            else:
                dp.table(name=name)(of_table(source))

        @dp.materialized_view
        def per_city() -> DataFrame:
            return world.spark.read.table("loud").groupBy("city").count()

    return declare


def feed(world: EngineWorld, orders: Rows, changes: Rows) -> None:
    """Append to both sources."""
    world.feed(orders, "id INT, city STRING")
    world.feed(changes, "id INT, name STRING, op STRING, seq INT", called="changes")


def begin(world: EngineWorld, tables: Mapping[str, str]) -> str:
    """Run an update with good code and one with bad code; return the first one's id."""
    feed(world, [(1, "bern"), (2, "oslo")], [(1, "ann", "U", 1), (2, "bo", "U", 1)])
    first = world.run(declared(world, tables))
    feed(world, [(3, "rome"), (4, "kyiv")], [(1, "anna", "U", 2), (2, None, "D", 2), (3, "cy", "U", 1)])
    assert world.run(declared(world, tables, bad=True)).state is UpdateState.COMPLETED
    assert rows_of(world, tables) == expected(BAD, tables)
    return first.update_id


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[EngineWorld, str]:
    """The small pipeline after both updates; the first one's id."""
    world = EngineWorld(spark.newSession(), tmp_path_factory.mktemp("abandoned"))
    return world, begin(world, SMALL)


@pytest.fixture
def begun(template: tuple[EngineWorld, str], tmp_path: Path) -> tuple[EngineWorld, str]:
    """A copy of the template."""
    world, first = template
    return world.copy(tmp_path / "copy"), first


def rows_of(world: EngineWorld, tables: Mapping[str, str] = SMALL) -> dict[str, Rows]:
    """The rows of all tables."""
    return {name: world.rows(name) for name in (*tables, "per_city")}


def expected(rows: dict[str, Rows], tables: Mapping[str, str] = SMALL) -> dict[str, Rows]:
    """The rows of all tables by what they read."""
    counts = [(city, 1) for city in sorted(row[1] for row in rows["table"])]
    return {**{name: rows.get(source, rows["table"]) for name, source in tables.items()}, "per_city": counts}


def interrupted(
    world: EngineWorld, to: str, failpoint: str, nth: int = 1, tables: Mapping[str, str] = SMALL
) -> Pipeline:
    """Begin a rewind of all tables that is interrupted at a failpoint; return the pipeline with good code."""
    fixed = world.pipeline(declared(world, tables))
    plan = fixed.rewinds.plan(to)
    interrupt(lambda: fixed.rewinds.rewind(plan), failpoint, nth)
    return fixed


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


Lose = Callable[[EngineWorld, str], None]
PROBLEMS: dict[Lose, str] = {
    without_first_file: "files that are gone",
    without: "there is no table at",
    without_last_commit: "an older copy is at",
    without_checkpoint: "no longer has",
}


def lose(world: EngineWorld, fixed: Pipeline, **lost: Lose) -> None:
    """Take something away from tables: its name is the same everywhere, with what to do; nothing is changed by it."""
    for table, take_away in lost.items():
        take_away(world, table)
    forget_tables()
    problems = ".*".join(f"main.s.{table}: [^;]*{PROBLEMS[take_away]}" for table, take_away in lost.items())
    for refused in (fixed.run, fixed.rewinds.finish, fixed.plan, fixed.run):
        with pytest.raises(OperationError, match=rf"(?s)REWIND_NOT_FINISHABLE.*{problems}.*sluice rewind --abandon"):
            refused()
    (finding,) = fixed.doctor.examine().findings
    assert finding.diagnosis.name == "REWIND_INTERRUPTED"
    assert [problem for problem in map(PROBLEMS.get, lost.values()) if str(problem) not in finding.cause] == []


def planned(fixed: Pipeline, refreshed: set[str], rewound: set[str]) -> Abandonment:
    """What becomes of the rewind: the tables that are fully refreshed, although resets of them wait, and all others."""
    for table in refreshed:
        name = QualifiedName(catalog="main", schema="s", table=table)
        ResetRequests(fixed.storage, SystemClock()).ask(ResetRequest(dataset=name, flow=name, start=None))
    found = fixed.rewinds.plan_abandonment()
    assert found is not None
    assert found.rest is not None
    assert [each.table for each in found.rest.refreshed] == sorted(refreshed)
    assert [each.table for each in found.rewound] == sorted(rewound)
    return found


def test_before_the_first_table_is_restored_nothing_has_to_be_done(begun: tuple[EngineWorld, str]) -> None:
    """All tables and checkpoints stay as they are: flows go on, and another rewind can be done of what can go back."""
    world, first = begun
    fixed = interrupted(world, first, "rewinds.after_mark")
    lose(world, fixed, people=without_first_file)
    found = fixed.rewinds.plan_abandonment()
    assert found is not None
    assert ([each.dataset.table for each in found.obstacles], found.rest) == (["people"], None)
    fixed.rewinds.abandon(found)
    assert fixed.rewinds.plan_abandonment() is None
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world) == expected(BAD)
    with pytest.raises(UserError, match="REWIND_FILES_GONE"):
        fixed.rewinds.plan(first)
    fixed.rewinds.rewind(fixed.rewinds.plan(first, ["orders"]))
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world) == {**expected(GOOD), "people": BAD["changes"]}
    assert fixed.run(full_refresh=["people"]).state is UpdateState.COMPLETED
    assert rows_of(world) == expected(GOOD)


def test_what_cannot_go_back_is_fully_refreshed_and_the_rest_goes_back(spark: SparkSession, tmp_path: Path) -> None:
    """Wherever the rewind was interrupted, and if giving it up is interrupted too, no row is lost or doubled.

    More is gone each time that it is interrupted, so it is given up three times.
    """
    world = EngineWorld(spark.newSession(), tmp_path)
    first = begin(world, LARGE)
    # Restored are an input with its reader, two more inputs, one with its reader, and the auxiliary table of a target.
    fixed = interrupted(world, first, "rewinds.after_table", 6, LARGE)
    lose(world, fixed, visits=without, people=without_first_file, loud=without, late=without_last_commit)
    refreshed = {"visits", "echo", "people", "loud", "late"}
    found = planned(fixed, refreshed, {*LARGE} - refreshed)
    interrupt(lambda: fixed.rewinds.abandon(found), "rewinds.after_abandon")
    # All tables are restored, and the first checkpoint is copied, the others are not.
    interrupt(fixed.run, "rewinds.after_checkpoint")
    lose(world, fixed, plans=without_checkpoint)
    refreshed |= {"plans"}
    found = planned(fixed, refreshed, {*LARGE} - refreshed)
    # An input has its new generation; its reader, a table with quarantined rows and a target do not.
    interrupt(lambda: fixed.rewinds.abandon(found), "rewinds.after_generation")
    lose(world, fixed, notes=without, clubs=without)
    refreshed |= {"notes", "marked", "clubs"}
    assert {*LARGE} - refreshed == {"orders"}
    found = planned(fixed, refreshed, {"orders"})
    interrupt(lambda: fixed.rewinds.abandon(found), "rewinds.after_refresh")
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world, LARGE) == expected(GOOD, LARGE)
    assert fixed.quarantine.rows().where("state = 'open'").isEmpty()
    actions = [event.details["user_action"] for event in read_events(fixed.storage, type=EventType.USER_ACTION)]
    assert [each["status"] for each in actions] == ["BEGUN", *["ABANDONED"] * 3, "DONE"]
    assert [step for step in fixed.plan().steps if not isinstance(step, SkipStep)] == []


def test_what_follows_an_abandoned_rewind(begun: tuple[EngineWorld, str]) -> None:
    """Resets, prunes, full refreshes and another rewind end in the same rows.

    A reset or a rewind of what waits for its full refresh is refused; a rewind may go back to the update that did it,
    and to one before.
    """
    world, first = begun
    fixed = interrupted(world, first, "rewinds.after_table")
    lose(world, fixed, loud=without)
    found = fixed.rewinds.plan_abandonment()
    assert found is not None
    fixed.rewinds.abandon(found)
    assert (world.rows("orders"), world.rows("people")) == (GOOD["source"][:2], [(1, "ann"), (2, "bo")])
    with pytest.raises(UserError, match="FULL_REFRESH_UNFINISHED"):
        fixed.run(reset_checkpoints=["loud"])
    with pytest.raises(UserError, match="REWIND_DURING_FULL_REFRESH"):
        fixed.rewinds.plan(first, ["loud"])
    waiting = fixed.run(reset_checkpoints=["people"], refresh=["people"])
    assert waiting.state is UpdateState.COMPLETED
    fewer = world.pipeline(declared(world, {"orders": "source", "loud": "orders"}))
    assert [table.name.table for table in fewer.prune(fewer.left_tables())] == ["people"]
    done = fixed.run(full_refresh=["loud", "orders"], refresh=["people"])
    assert done.state is UpdateState.COMPLETED
    feed(world, [(5, "riga")], [(5, "di", "U", 9)])
    assert fixed.run().state is UpdateState.COMPLETED
    fixed.rewinds.rewind(fixed.rewinds.plan(done.update_id))
    assert {name: world.rows(name) for name in SMALL} == {name: expected(GOOD)[name] for name in SMALL}
    assert fixed.run().state is UpdateState.COMPLETED
    later = {"source": (5, "riga"), "table": (5, "RIGA"), "changes": (5, "di")}
    assert rows_of(world) == expected({each: [*rows, later[each]] for each, rows in GOOD.items()})
    # The rows that the deleted table had are in no version of the one that was created since.
    fixed.rewinds.rewind(fixed.rewinds.plan(waiting.update_id, ["orders"]))
    assert (world.rows("orders"), world.rows("loud")) == (GOOD["source"][:2], [])
    assert fixed.run().state is UpdateState.COMPLETED
    assert rows_of(world) == expected({each: [*rows, later[each]] for each, rows in GOOD.items()})
