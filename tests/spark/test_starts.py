"""A reset starts each source of the named flows where the request says, in that generation only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.checkpoints.generations import GenerationStore
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.run.update.checkpoint_actions import reset_checkpoint, roll_back_checkpoint
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def name(table: str) -> QualifiedName:
    """A name of the pipeline's schema."""
    return QualifiedName(catalog="main", schema="s", table=table)


@pytest.fixture(scope="module")
def sources(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EngineWorld:
    """Two source tables of three commits, with one row each, and a folder of files."""
    world = EngineWorld(spark.newSession(), tmp_path_factory.mktemp("sources"))
    for number in range(3):
        world.feed([(number,)], "id INT")
        world.feed([(10 + number,)], "id INT", "other")
    (world.root / "files").mkdir()
    (world.root / "files" / "one.json").write_text('{"id": 100}\n', "utf-8")
    return world


@pytest.fixture
def world(sources: EngineWorld, tmp_path: Path) -> EngineWorld:
    """The sources in a folder of the test, before the first update."""
    return sources.copy(tmp_path)


def declare(world: EngineWorld) -> None:
    """A flow that reads a path with an option of its own, one over a table and a path, and one that reads files."""

    @dp.table
    def raw() -> DataFrame:
        reader = world.spark.readStream.format("delta").option("startingTimestamp", "2020-01-01")
        return reader.load(world.source())

    @dp.table
    def both() -> DataFrame:
        other = world.spark.readStream.format("delta").load(world.source("other"))
        return world.spark.readStream.table("raw").union(other)

    @dp.table
    def files() -> DataFrame:
        return world.spark.readStream.schema("id INT").json(str(world.root / "files"))


def test_a_start_is_used_in_its_generation_and_by_its_flow_only(world: EngineWorld) -> None:
    """The start replaces the option of the code, survives an update without data, and leaves other flows alone."""
    pipeline = world.pipeline(lambda: declare(world))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("raw") == [(0,), (1,), (2,)]
    store = GenerationStore(pipeline.storage)

    def update(**resets: Any) -> list[tuple[Any, ...]]:
        result = pipeline.run(reset_checkpoints=resets)
        assert [flow.error for flow in result.flows if flow.error] == []
        return world.rows("raw")

    assert update(raw="startingVersion=2") == [(0,), (1,), (2,), (2,)]
    # The next version does not exist yet: until it does, nothing is read.
    assert update(raw="startingVersion=3") == [(0,), (1,), (2,), (2,)]
    world.feed([(3,)], "id INT")
    assert update(raw="startingVersion=latest") == [(0,), (1,), (2,), (2,)]
    world.feed([(4,)], "id INT")
    world.feed([(5,)], "id INT")
    assert update() == [(0,), (1,), (2,), (2,), (4,), (5,)]
    assert [each.start for each in store.read(name("raw"), name("raw"))] == [
        None, *(f'{{"{world.source()}": "startingVersion={version}"}}' for version in (2, 3, 4))
    ]  # fmt: skip
    assert [each.start for each in store.read(name("both"), name("both"))] == [None]
    assert world.rows("both") == sorted(((each,) for each in (0, 1, 2, 2, 4, 5, 10, 11, 12)), key=repr)
    # A source is named by its last parts. Version 0 of `raw` is its creation, and version 1 its first three rows.
    update(both=["raw:startingVersion=2", "other:startingVersion=2"])
    assert world.rows("both") == sorted(((each,) for each in (0, 1, 2, 2, 2, 4, 4, 5, 5, 10, 11, 12, 12)), key=repr)


REFUSED: list[tuple[str, str | list[str], str]] = [
    ("raw", "startingVersion=7", "START_NOT_AVAILABLE"),
    ("raw", "earliest", "START_NOT_SUPPORTED"),
    ("raw", "startingVersion=two", "START_INVALID"),
    ("raw", "startingTimestamp=yesterday", "START_INVALID"),
    ("raw", "sometime", "START_INVALID"),
    ("raw", ["startingVersion=1", "startingVersion=2"], "START_REPEATED"),
    ("raw", "nowhere:startingVersion=1", "START_SOURCE_UNKNOWN"),
    ("both", "startingVersion=1", "START_SOURCE_MISSING"),
    ("both", ["raw:startingVersion=1"], "START_SOURCE_MISSING"),
    ("files", "modifiedAfter=2025-04-09T18:15:00", "START_NOT_SUPPORTED"),
    ("rwa", "startingVersion=1", "FLOW_NOT_FOUND"),
]


def test_a_start_that_a_source_does_not_have_is_refused(world: EngineWorld) -> None:
    """Every request is checked before anything is written."""
    found = {}
    for flow, starts, _ in REFUSED:
        with pytest.raises(UserError) as raised:
            world.run(lambda: declare(world), reset_checkpoints={flow: starts})
        found[flow, str(starts)] = raised.value.condition
    assert found == {(flow, str(starts)): condition for flow, starts, condition in REFUSED}
    with pytest.raises(UserError, match="START_WITH_FULL_REFRESH"):
        world.run(lambda: declare(world), full_refresh=["raw"], reset_checkpoints={"raw": "startingVersion=1"})
    assert [path.name for path in (world.root / "storage").iterdir() if path.name in {"tables", "checkpoints"}] == []


def declare_both(world: EngineWorld) -> None:
    """An append flow and one of AUTO CDC that read the same table."""

    @dp.table
    def appended() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    @dp.temporary_view
    def events() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    dp.create_streaming_table("applied")
    dp.create_auto_cdc_flow(target="applied", source="events", keys=["id"], sequence_by="id")


@pytest.fixture(scope="module")
def first(sources: EngineWorld, tmp_path_factory: pytest.TempPathFactory) -> EngineWorld:
    """The pipeline of `declare_both` after its first update, with an unread row; tests go on from copies of it."""
    made = sources.copy(tmp_path_factory.mktemp("first"))
    assert made.run(lambda: declare_both(made)).state is UpdateState.COMPLETED
    made.feed([(3,)], "id INT")
    return made


@pytest.fixture
def begun(first: EngineWorld, tmp_path: Path) -> EngineWorld:
    """The pipeline after its first update, in a folder of the test."""
    return first.copy(tmp_path)


def test_a_roll_back_past_a_full_refresh_never_doubles_rows(begun: EngineWorld) -> None:
    """An append refuses it, with the ways out; AUTO CDC takes the events a second time, and its table is the same."""
    world = begun
    pipeline = world.pipeline(lambda: declare_both(world))
    assert pipeline.run(full_refresh=["appended", "applied"]).state is UpdateState.COMPLETED
    for number in (None, 1):
        with pytest.raises(UserError) as caught:
            roll_back_checkpoint(pipeline.storage, world.name, "appended", number)
        assert caught.value.condition == "GENERATION_BEFORE_REFRESH"
        assert caught.value.fields["number"] == 1
    assert roll_back_checkpoint(pipeline.storage, world.name, "applied")[1].number == 1
    world.feed([(4,)], "id INT")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("appended") == world.rows("applied") == [(0,), (1,), (2,), (3,), (4,)]
    # A reset after the refresh can be rolled back: the generation of the refresh is kept.
    assert pipeline.run(reset_checkpoints={"appended": "startingVersion=latest"}).state is UpdateState.COMPLETED
    assert roll_back_checkpoint(pipeline.storage, world.name, "appended")[1].number == 2
    world.feed([(5,)], "id INT")
    assert pipeline.run(refresh=["appended"]).state is UpdateState.COMPLETED
    assert world.rows("appended") == [(0,), (1,), (2,), (3,), (4,), (5,)]


def test_a_roll_back_of_a_reset_repeats_rows_only_if_that_is_allowed(begun: EngineWorld) -> None:
    """An append refuses it once the reset flow has read rows, and names the generation; AUTO CDC is free."""
    world = begun
    pipeline = world.pipeline(lambda: declare_both(world))
    starts: Any = {"appended": "startingVersion=2", "applied": "startingVersion=2"}
    # Before the new generation has read anything, a roll-back undoes the reset.
    reset_checkpoint(pipeline.storage, world.name, "appended")
    assert roll_back_checkpoint(pipeline.storage, world.name, "appended")[1].number == 1
    assert pipeline.run(reset_checkpoints=starts).state is UpdateState.COMPLETED
    assert world.rows("appended") == [(0,), (1,), (2,), (2,), (3,)]
    for number in (None, 1):
        with pytest.raises(UserError) as caught:
            roll_back_checkpoint(pipeline.storage, world.name, "appended", number)
        assert (caught.value.condition, caught.value.fields["since"]) == ("GENERATION_READ_SINCE", "3")
    assert roll_back_checkpoint(pipeline.storage, world.name, "applied")[1].number == 1
    world.feed([(4,)], "id INT")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("appended") == [(0,), (1,), (2,), (2,), (3,), (4,)]
    assert world.rows("applied") == [(0,), (1,), (2,), (3,), (4,)]
    assert roll_back_checkpoint(pipeline.storage, world.name, "appended", 1, allow_repeats=True)[1].number == 1
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("appended") == [(0,), (1,), (2,), (2,), (3,), (3,), (4,), (4,)]


def test_code_that_begins_at_the_latest_version_passes_over_no_row_that_comes_after_its_first_update(
    world: EngineWorld,
) -> None:
    """An update that finds nothing stores no position; a table of the pipeline is read in the same way as a path."""

    def declare_latest() -> None:
        @dp.table
        def copy() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.table
        def late() -> DataFrame:
            reader = world.spark.readStream.format("delta").option("startingVersion", "latest")
            return reader.load(world.source("other"))

        @dp.table
        def later() -> DataFrame:
            return world.spark.readStream.option("startingVersion", "latest").table("copy")

    names = ("copy", "late", "later")
    world.run(declare_latest, refresh=["copy"])
    pipeline = world.pipeline(declare_latest)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert {name: world.rows(name) for name in names} == {"copy": [(0,), (1,), (2,)], "late": [], "later": []}
    for number in (3, 4):
        world.feed([(number,)], "id INT")
        world.feed([(number,)], "id INT", "other")
    assert pipeline.run().state is UpdateState.COMPLETED
    new = [(3,), (4,)]
    assert {name: world.rows(name) for name in names[1:]} == {"late": new, "later": new}
    world.feed([(5,)], "id INT", "other")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("late") == [*new, (5,)]
