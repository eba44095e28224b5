"""A quarantined row belongs to one target, one checkpoint and one batch, whatever becomes of its flow in between."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.foundation.errors import OperationError, UserError
from framework.foundation.failpoints import arm, disarm
from framework.recovery.quarantine.fitting import Fitting
from framework.run.update.checkpoint_actions import roll_back_checkpoint
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import StoppedHereError, stop

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from framework import Pipeline

ON = {"sluice.quarantine": "true"}


class World:
    """One append flow `taken`, whose target, setting and expectation a test changes.

    Args:
        made: has source and storage.
    """

    def __init__(self, made: EngineWorld) -> None:
        self.made = made
        self.target = "first"
        self.on: dict[str, str] = ON
        self.least = "0"
        self.columns = "*"
        self.options: dict[str, str] = {}

    def feed(self, number: int, amount: int) -> None:
        """Append a row in one commit."""
        self.made.feed([(number, amount)], "id INT, amount INT")

    def declare(self) -> None:
        """The flow as it is now, beside a table that always exists."""
        valid = {"positive": f"amount > {self.least}"}
        for name in dict.fromkeys(("first", self.target)):
            dp.create_streaming_table(name, table_properties=self.on, expect_all_or_drop=valid)

        @dp.append_flow(target=self.target, name="taken")
        def taken() -> DataFrame:
            rows = self.made.spark.readStream.format("delta").options(**self.options).load(self.made.source())
            return rows.selectExpr(*self.columns.split(";"))

        if self.target != "first":

            @dp.append_flow(target="first", name="other")
            def other() -> DataFrame:
                return self.made.spark.readStream.format("delta").load(self.made.source()).where("false")

    def pipeline(self) -> Pipeline:
        """The pipeline of the code as it is now."""
        return self.made.pipeline(self.declare)

    def run(self, **request: Any) -> str:
        """One update that succeeds; return its id."""
        result = self.pipeline().run(**request)
        assert result.state is UpdateState.COMPLETED, [flow.error for flow in result.flows if flow.error]
        return result.update_id

    def kept(self) -> list[tuple[Any, ...]]:
        """Table, id and state of each quarantined row."""
        rows = self.pipeline().quarantine.rows().selectExpr("dataset", "row:id::int AS id", "state").collect()
        return sorted((row[0].rpartition(".")[2], row[1], row[2]) for row in rows)


@pytest.fixture
def unread(interpreting: SparkSession, tmp_path: Path) -> Iterator[World]:
    """A valid and a faulty row, before the first update."""
    made = World(EngineWorld(interpreting, tmp_path))
    made.feed(1, 5)
    made.feed(2, -5)
    yield made
    disarm()


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A valid and a faulty row after the first update; tests go on from copies of it."""
    made = World(EngineWorld(spark.newSession(), tmp_path_factory.mktemp("first")))
    made.feed(1, 5)
    made.feed(2, -5)
    made.run()
    return made


@pytest.fixture
def world(first: World, tmp_path: Path) -> Iterator[World]:
    """A valid and a faulty row after the first update, in a folder of the test."""
    yield World(first.made.copy(tmp_path))
    disarm()


def test_a_flow_that_moves_to_another_table_leaves_the_rows_of_the_first_one(world: World) -> None:
    """The batches of both tables have the same numbers; a replay writes the rows of its own table only."""
    world.target = "second"
    world.run()
    world.least = "-9"
    assert world.pipeline().quarantine.replay("taken").passed == 1
    assert world.made.rows("second") == [(1, 5), (2, -5)]
    assert world.kept() == [("first", 2, "open"), ("second", 2, "replayed")]


def test_rows_of_a_deleted_checkpoint_are_not_taken_for_those_of_its_successor(world: World) -> None:
    """A checkpoint that is deleted by hand is begun again with the same number, and reads everything again if asked.

    Before that, the clock was set back after the generation had begun: its rows are its own.
    """
    world.feed(3, -6)
    world.run()
    (manifest,) = (world.made.root / "storage" / "checkpoints").rglob("manifest.json")
    begun = json.loads(manifest.read_text("utf-8"))["generations"][0]["begun_at"]
    manifest.write_text(manifest.read_text("utf-8").replace(begun, begun.replace("20", "21", 1)), "utf-8")
    assert world.kept() == [("first", 2, "open"), ("first", 3, "open")]
    shutil.rmtree(world.made.root / "storage" / "checkpoints")
    world.run(reset_checkpoints=["taken"])
    assert world.kept() == [("first", 2, "open"), ("first", 3, "open"), ("first", 3, "superseded")]


def test_a_batch_that_runs_again_without_the_quarantine_leaves_no_row_in_it(unread: World) -> None:
    """The setting and the expectation are gone when the batch is decided anew."""
    arm("quarantine.after_rows", action=stop)
    assert unread.pipeline().run().state is UpdateState.FAILED
    disarm()
    assert [each.state.value for each in unread.pipeline().quarantine.list()] == ["uncommitted"]
    unread.on, unread.least = {}, "-9"
    unread.run()
    assert unread.made.rows("first") == [(1, 5), (2, -5)]
    assert unread.kept() == []


def test_batches_that_run_again_after_a_backup_was_put_back_have_their_rows_once(world: World) -> None:
    """The quarantine is newer than the table and its checkpoint: it has the rows of several batches, not of one."""
    storage, older = world.made.root / "storage", world.made.root / "older"
    shutil.copytree(storage, older)
    for number, amount in ((3, -6), (4, -7), (5, 8)):
        world.feed(number, amount)
    world.options = {"maxFilesPerTrigger": "1"}
    for update in ("before the backup is put back", "after it"):
        world.run()
        assert world.kept() == [("first", number, "open") for number in (2, 3, 4)], update
        assert world.made.rows("first") == [(1, 5), (5, 8)], update
        for part in ("tables", "checkpoints"):
            shutil.rmtree(storage / part)
            shutil.copytree(older / part, storage / part)


def test_a_rewind_keeps_the_rows_from_before_and_no_others(world: World) -> None:
    """A roll-back and a full refresh lie before the moment or after it; each row is open once, as it was then."""
    world.feed(3, -6)
    world.run(reset_checkpoints={"taken": "startingVersion=2"})
    roll_back_checkpoint(world.pipeline().storage, world.made.name, "main.s.taken", 1, allow_repeats=True)
    moment = world.run()
    then = world.kept()
    assert then == [("first", 2, "open"), ("first", 3, "open"), ("first", 3, "open")]
    world.feed(4, -7)
    world.run()
    world.run(full_refresh=["first"])
    assert [row for row in world.kept() if row[2] == "open"] == [("first", number, "open") for number in (2, 3, 4)]
    rewinds = world.pipeline().rewinds
    rewinds.rewind(rewinds.plan(moment))
    assert world.kept() == then
    world.run()
    assert world.kept() == [*then, ("first", 4, "open")]
    world.least = "-9"
    assert world.pipeline().quarantine.replay("taken").passed == 4
    assert world.made.rows("first") == [(1, 5), (2, -5), (3, -6), (3, -6), (4, -7)]


def test_a_pipeline_with_another_name_has_its_rows(world: World) -> None:
    """It lists, replays and drops them with its own, once; a drop leaves rows that were replayed.

    A replay under a former name ended before it had written its row, or before the row was marked.
    """
    for number, point, passed in ((2, "quarantine.after_claim", 1), (3, "quarantine.after_replay", 0)):
        world.made.name = f"lists_{number}"
        (waiting,) = world.pipeline().quarantine.waiting()
        assert (waiting.flow, waiting.rows) == ("main.s.taken", 1)
        world.least = str(-5 * number)
        arm(point, action=stop)
        with pytest.raises(StoppedHereError):
            world.pipeline().quarantine.replay("taken")
        disarm()
        world.made.name = f"replays_{number}"
        assert world.pipeline().quarantine.replay("taken").passed == passed
        world.feed(number + 1, -5 * number)
        world.run()
    assert world.made.rows("first") == [(1, 5), (2, -5), (3, -10)]
    replayed = [("first", each, "replayed") for each in (2, 3)]
    assert world.kept() == [*replayed, ("first", 4, "open")]
    world.made.name = "drops"
    assert world.pipeline().quarantine.drop("taken") == 1
    assert world.kept() == replayed


def test_a_pipeline_whose_code_has_errors_drops_no_rows_of_another_one(world: World) -> None:
    """Both share the storage: the rows can be read until the code is corrected, and only those of its name dropped."""
    owner, world.made.name, world.columns = world.made.name, "other", "nothing"
    with pytest.raises(UserError, match="QUARANTINE_FLOW_NOT_FOUND"):
        world.pipeline().quarantine.drop("taken")
    assert world.kept() == [("first", 2, "open")]
    world.made.name = owner
    assert world.pipeline().quarantine.drop("taken") == 1
    assert world.kept() == []


def test_a_replay_that_fails_names_the_cause_and_writes_nothing(world: World) -> None:
    """A constraint of the table, an expectation that raises, and columns that the quarantine needs for itself."""
    world.made.spark.sql(f"ALTER TABLE delta.`{world.made.path('first')}` ADD CONSTRAINT c CHECK (amount > 0)")
    for least, cause in (("-9", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"), ("10 / (amount + 5)", "DIVIDE_BY_ZERO")):
        world.least = least
        with pytest.raises(OperationError, match=f"QUARANTINE_REPLAY_FAILED.*{cause}"):
            world.pipeline().quarantine.replay("taken")
    assert world.kept() == [("first", 2, "open")]
    world.least, world.columns = "0", "*;1 AS __SLUICE_reasons"
    world.feed(4, 6)
    (failed,) = [flow.error for flow in world.pipeline().run().flows if flow.error]
    assert failed.condition == "QUARANTINE_COLUMN_RESERVED"


def test_values_that_do_not_fit_their_present_type_are_found_at_every_depth(spark: SparkSession) -> None:
    """No conversion fails the query or changes a value silently; a field that is no longer there is kept."""
    fitting = Fitting(session=spark)
    kept = {
        ("1", "1L"): (1, False),
        ("1.5D", "1"): (1, True),
        ("double('NaN')", "1"): (None, True),
        ("'7'", "1"): (7, False),
        ("'x'", "1"): (None, True),
        ("cast(NULL AS STRING)", "1"): (None, False),
        ("1", "date'2026-01-01'"): (None, True),
        ("'x'", "struct(1 AS x)"): (None, True),
        ("timestamp'2026-01-01 10:00:00'", "date'2026-01-01'"): (date(2026, 1, 1), True),
        ("struct('x' AS t, 2 AS gone)", "struct(1 AS t, 3 AS new)"): ((None, None, 2), True),
        ("cast(NULL AS struct<t:string>)", "struct(1 AS t)"): (None, False),
        ("array('1', NULL, 'x')", "array(1)"): ([1, None, None], True),
        ("array('1', NULL)", "array(1)"): ([1, None], False),
        ("map('a', array(1.5D))", "map('a', array(1))"): ({"a": [1]}, True),
        ("map(1, 2)", "map('1', 2)"): (None, True),
        ("parse_json('3')", "1"): (3, False),
    }  # fmt: skip
    columns: list[Column] = []
    for have, want in kept:
        types = spark.range(1).selectExpr(f"{have} AS have", f"{want} AS want").schema
        fitted = fitting.fit(F.expr(have), types["have"].dataType, types["want"].dataType)
        columns.append(F.struct(fitted.value.alias("value"), fitted.is_lost.alias("lost")).alias(f"c{len(columns)}"))
    (row,) = spark.range(1).select(*columns).collect()
    assert {pair: (each.value, each.lost) for pair, each in zip(kept, row, strict=True)} == kept


def test_changes_are_applied_after_the_checkpoint_was_deleted_by_hand(unread: World) -> None:
    """The table knows the batches of the deleted checkpoint: those of its successor are others."""

    def declare() -> None:
        dp.create_streaming_table("changed")
        dp.temporary_view(name="events")(
            lambda: unread.made.spark.readStream.format("delta").load(unread.made.source())
        )
        dp.create_auto_cdc_flow(target="changed", source="events", keys=["id"], sequence_by="amount")

    assert unread.made.run(declare).state is UpdateState.COMPLETED
    shutil.rmtree(unread.made.root / "storage" / "checkpoints")
    unread.feed(3, -6)
    assert unread.made.run(declare).state is UpdateState.COMPLETED
    assert unread.made.rows("changed") == [(1, 5), (2, -5), (3, -6)]
