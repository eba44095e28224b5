"""Flows that stop at rows or columns that they can't take: explained, continued without them, and the rows replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.recovery.doctor.finding import Finding
from framework.run.update.results import UpdateState
from framework.views.doctor import examination_json
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework import Pipeline

ON = {"sluice.quarantine": "true"}
ROWS = [(1, "10", 1), (2, "x", 2), (3, "30", -3), (None, "40", 4)]
ASKED = 'set the table property `"sluice.quarantine": "true"` of main.s.{0}. '
THEN = "Then `sluice run` goes on with the other rows. After the fix, `sluice quarantine replay main.s.{0}`"


class Shop:
    """Four flows over the same rows, whose code the test changes as the findings say.

    Args:
        world: has the source.
    """

    def __init__(self, world: EngineWorld) -> None:
        self.world = world
        self.is_changed = False
        self.least = 0
        self.folder = world.root / "landing"
        self.folder.mkdir()
        (self.folder / "a.json").write_text('{"id": 1}\n', "utf-8")

    def declare(self) -> None:
        """The flows, before or after the code was changed."""
        on = ON if self.is_changed else {}
        judge = dp.expect_or_drop if self.is_changed else dp.expect_or_fail

        @dp.table(table_properties=on)
        @judge("positive", f"amount > {self.least}")
        def judged() -> DataFrame:
            return self.read()

        @dp.table(table_properties=on)
        @dp.expect_or_drop("valid", "number IS NOT NULL OR text = 'none'")
        def cast() -> DataFrame:
            function = "try_cast" if self.is_changed else "cast"
            return self.read().selectExpr("id", "text", f"{function}(text AS INT) AS number")

        dp.create_streaming_table("keyed", table_properties=on)
        dp.temporary_view(name="keyed_events")(self.read)
        dp.create_auto_cdc_flow(target="keyed", source="keyed_events", keys=["id"], sequence_by="amount")

        @dp.table
        def files() -> DataFrame:
            reader = self.world.spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
            mode = "rescue" if self.is_changed else "failOnNewColumns"
            return reader.option("cloudFiles.schemaEvolutionMode", mode).schema("id INT").load(str(self.folder))

    def read(self) -> DataFrame:
        """The rows of the source."""
        return self.world.spark.readStream.format("delta").load(self.world.source())

    def pipeline(self) -> Pipeline:
        """The pipeline of the code as it is now."""
        return self.world.pipeline(self.declare)


@pytest.fixture
def shop(interpreting: SparkSession, tmp_path: Path) -> Shop:
    """A source whose first commit has a valid row only."""
    world = EngineWorld(interpreting, tmp_path)
    world.feed(ROWS[:1], "id INT, text STRING, amount INT")
    return Shop(world)


def test_a_flow_goes_on_without_the_rows_that_stopped_it(shop: Shop) -> None:
    """Each finding says what to change; then the rows are in the quarantine, and doctor and lag say so."""
    assert shop.pipeline().run().state is UpdateState.COMPLETED
    shop.world.feed(ROWS[1:], "id INT, text STRING, amount INT")
    (shop.folder / "b.json").write_text('{"id": 2, "city": "Ulm"}\n', "utf-8")
    pipeline = shop.pipeline()
    assert pipeline.run().state is UpdateState.FAILED
    found: dict[str, Finding] = {str(each.dataset): each for each in pipeline.doctor.examine().findings}
    assert {
        name.rpartition(".")[2]: (each.diagnosis.name, each.condition, [way.way.name for way in each.ways])
        for name, each in found.items()
    } == {
        "judged": ("ROW_NOT_USABLE", "EXPECTATION_VIOLATION", ["QUARANTINE", "FOLLOW", "RUN_AGAIN"]),
        "cast": ("ROW_NOT_USABLE", "CAST_INVALID_INPUT", ["QUARANTINE", "FOLLOW", "RUN_AGAIN"]),
        "keyed": ("ROW_NOT_USABLE", "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY", ["QUARANTINE", "FOLLOW", "RUN_AGAIN"]),
        "files": ("NEW_COLUMNS", "UNKNOWN_FIELD_REFUSED", ["FOLLOW", "RUN_AGAIN"]),
    }
    texts = {name: each.ways[0].text for name, each in found.items()}
    dropped = 'declare the expectation "positive" with `expect_or_drop`; '
    assert texts["main.s.judged"].startswith(f"Quarantine these rows: {dropped}{ASKED}{THEN}".format("judged"))
    assert texts["main.s.keyed"].startswith(f"Quarantine these rows: {ASKED}{THEN}".format("keyed"))
    assert "`try_cast`" in texts["main.s.cast"]
    assert "`cloudFiles.schemaEvolutionMode` to rescue" in texts["main.s.files"]

    shop.is_changed = True
    pipeline = shop.pipeline()
    for name, finding in found.items():
        number = [way.way.name for way in finding.ways].index("RUN_AGAIN") + 1
        treatment = pipeline.doctor.treat(finding, number)
        assert treatment.result is not None
        assert treatment.result.state is UpdateState.COMPLETED, name
    assert {row[0] for row in shop.world.rows("judged")} == {1, 2, None}
    assert shop.world.rows("cast") == sorted([(1, "10", 10), (3, "30", 30), (None, "40", 40)], key=repr)
    assert {row[0] for row in shop.world.rows("keyed")} == {1, 2, 3}
    assert [(row[0], json.loads(row[1] or "{}").get("city")) for row in shop.world.rows("files")] == [
        (1, None), (2, "Ulm")
    ]  # fmt: skip
    check_mention(shop)


def check_mention(shop: Shop) -> None:
    """Rows that wait are mentioned, by flow, and no longer when they are replayed."""
    pipeline = shop.pipeline()
    examination = pipeline.doctor.examine()
    assert examination.findings == ()
    waiting = {each.flow.rpartition(".")[2]: each for each in examination.quarantined}
    assert {name: each.rows for name, each in waiting.items()} == {"cast": 1, "judged": 1, "keyed": 1}
    listed = {each.flow.rpartition(".")[2]: each.first for each in pipeline.quarantine.list()}
    assert {name: each.since for name, each in waiting.items()} == listed
    assert str(waiting["cast"]).endswith(": sluice quarantine show main.s.cast")
    assert {each["flow"] for each in examination_json("shop", examination)["quarantined"]} == {
        f"main.s.{name}" for name in waiting
    }
    assert [each.flow for each in pipeline.doctor.examine(["judged", "files"]).quarantined] == ["main.s.judged"]
    lag = {each.flow.table: each.quarantined for each in pipeline.lag()}
    assert lag == {**waiting, "files": None}

    shop.least = -5
    pipeline = shop.pipeline()
    assert pipeline.quarantine.replay("judged").passed == 1
    assert {row[0] for row in shop.world.rows("judged")} == {1, 2, 3, None}
    assert [each.flow for each in pipeline.doctor.examine().quarantined] == ["main.s.cast", "main.s.keyed"]
