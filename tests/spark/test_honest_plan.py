"""The plan lists what an update rejects and keeps, and `prune` drops only the listed tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.foundation.errors import OperationError, SluiceError
from framework.plan.steps import KeepStored, RefuseTable, RunFlow
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, forget_tables, states
from tests.support.interruption import copying
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Declare = Callable[[], None]


class Shop:
    """Declarations over one source; tests remove some of them."""

    def __init__(self, world: EngineWorld) -> None:
        self.world = world

    def stream(self) -> DataFrame:
        """The source as a stream."""
        return self.world.spark.readStream.format("delta").load(self.world.source())

    def view(self) -> None:
        """A materialized view, read by another one."""

        @dp.materialized_view
        def view() -> DataFrame:
            return self.world.spark.read.format("delta").load(self.world.source()).select("id")

        @dp.materialized_view
        def above() -> DataFrame:
            return self.world.spark.read.table("view")

    def table(self, *columns: str) -> None:
        """A streaming table of some columns."""

        @dp.table
        def table() -> DataFrame:
            return self.stream().select(*columns)

    def target(self) -> None:
        """A target of AUTO CDC."""
        dp.create_streaming_table("target")

        @dp.auto_cdc_flow(target="target", keys=["id"], sequence_by="id")
        def target() -> DataFrame:
            return self.stream()

    def everything(self) -> None:
        """All of it."""
        self.view()
        self.table("id", "note")
        self.target()


def shop_at(spark: SparkSession, root: Path) -> Shop:
    """A shop with two rows."""
    world = EngineWorld(spark, root)
    world.feed([(1, "a"), (2, "b")], "id LONG, note STRING")
    return Shop(world)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    """A shop with two rows."""
    return shop_at(spark, tmp_path)


def test_tables_of_somebody_else_are_refused_by_plan_show_and_run_alike(shop: Shop) -> None:
    """Views, streaming tables and targets alike; independent datasets are updated, and foreign rows do not change."""
    world = shop.world
    for table in ("view", "table", "target"):
        world.spark.range(5).write.format("delta").save(world.path(table))
    pipeline = world.pipeline(shop.everything)
    plan = pipeline.plan()
    refused = {step.dataset.table: step.owner for step in plan.steps if isinstance(step, RefuseTable)}
    assert refused == dict.fromkeys(("view", "table", "target"), "an unknown owner")
    for read in (pipeline.table, pipeline.preview, lambda name: pipeline.sql(f"SELECT * FROM {name}")):
        with pytest.raises(SluiceError) as caught:
            read("table")
        assert caught.value.condition == "TABLE_NOT_OWNED"
    for request in ({}, {"full_refresh_all": True}):
        result = pipeline.run(**request)  # type: ignore[arg-type]
        assert result.state is UpdateState.FAILED
        assert states(result) == {
            "view": FlowState.FAILED,
            "table": FlowState.FAILED,
            "target": FlowState.FAILED,
            "above": FlowState.SKIPPED,
        }
        assert {flow.error.condition for flow in result.flows if flow.error is not None} == {"TABLE_NOT_OWNED"}
    for table in ("view", "table", "target"):
        assert (world.rows(table), world.versions(table)) == ([(0,), (1,), (2,), (3,), (4,)], 1)


def test_what_left_the_code_is_kept_named_and_pruned_when_asked(shop: Shop) -> None:
    """Tables stay until `prune`, which drops their auxiliary tables and checkpoints too; columns stay in the table."""
    world = shop.world
    world.run(shop.everything)

    def less() -> None:
        shop.table("id")

    pipeline = world.pipeline(less)
    kept = [(step.dataset.table, step.columns) for step in pipeline.plan().steps if isinstance(step, KeepStored)]
    assert kept == [("table", ("note",)), ("above", ()), ("target", ()), ("view", ())]
    world.feed([(3, "c")], "id LONG, note STRING")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert world.rows("table") == [(1, "a"), (2, "b"), (3, None)]
    assert world.rows("view") == [(1,), (2,)]
    left = pipeline.left_tables()
    assert [table.name.table for table in left] == ["above", "target", "view"]
    pipeline.prune(left[1:])
    storage = Path(pipeline.storage.root)
    assert sorted(path.name for path in (storage / "tables/main/s").iterdir()) == ["above", "table"]
    assert [path.name for path in (storage / "checkpoints").iterdir()] == ["main.s.table"]
    assert [table.name.table for table in pipeline.left_tables()] == ["above"]
    messages = [event.message for event in world.events(type="user_action")]
    assert [message.split(" at ")[0] for message in messages] == ["Table main.s.target", "Table main.s.view"]
    assert world.run(shop.everything).state is UpdateState.COMPLETED
    assert (world.rows("view"), world.rows("target")) == ([(1,), (2,), (3,)], [(1, "a"), (2, "b"), (3, "c")])


def test_another_pipeline_of_the_same_storage_keeps_its_tables(shop: Shop) -> None:
    """Only tables that this pipeline made are left by it."""
    world = shop.world
    world.run(lambda: shop.table("id"))
    world.name = "another"
    assert world.pipeline(shop.view).left_tables() == ()


def test_a_prune_that_was_cut_short_loses_and_doubles_nothing_when_the_dataset_comes_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The next update finishes the deletion before it plans, so the target is filled from the start."""
    root = tmp_path / "shop"
    shop = shop_at(spark, root)
    shop.world.run(shop.target)
    pipeline = shop.world.pipeline(lambda: shop.table("id"))
    places = ("prune.after_mark", "prune.before_table", "prune.before_unmark")
    copying(lambda: pipeline.prune(pipeline.left_tables()), root, {place: tmp_path / place for place in places})
    for place in places:
        shutil.rmtree(root)
        (tmp_path / place).rename(root)
        forget_tables()
        assert len(list((root / "storage" / "prunes").iterdir())) == 1, place
        assert pipeline.left_tables() == (), place
        assert shop.world.run(shop.target).state is UpdateState.COMPLETED
        assert shop.world.rows("target") == [(1, "a"), (2, "b")], place
        assert not list((root / "storage" / "prunes").iterdir())


def test_show_before_the_first_update_says_that_there_is_none(shop: Shop) -> None:
    """A dataset without a table is named, with the command that makes it."""
    with pytest.raises(OperationError) as caught:
        shop.world.pipeline(shop.everything).preview("table")
    assert caught.value.condition == "DATASET_NOT_MATERIALIZED"


def test_stop_ends_the_update_that_runs_and_no_later_one(shop: Shop) -> None:
    """A stop during an update ends it as CANCELED; the next update of the same object runs to its end."""
    pipeline = shop.world.pipeline(shop.everything)
    pipeline.stop()
    canceled = pipeline.run(observers=[lambda _event: pipeline.stop()])
    assert canceled.state is UpdateState.CANCELED
    assert not Path(shop.world.path("table")).exists()
    assert pipeline.run().state is UpdateState.COMPLETED
    assert shop.world.rows("view") == [(1,), (2,)]


def test_a_failed_flow_still_has_its_quality(shop: Shop) -> None:
    """Committed rows are counted, and the expectation that failed the flow has the row that violated it."""
    world = shop.world

    def declare() -> None:
        @dp.materialized_view
        @dp.expect_or_drop("small", "id < 2")
        def sound() -> DataFrame:
            return world.spark.read.format("delta").load(world.source())

        @dp.table
        @dp.expect("noted", "note IS NOT NULL")
        @dp.expect_or_fail("positive", "id > 0")
        def judged() -> DataFrame:
            return world.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(world.source())

    world.feed([(-1, None)], "id LONG, note STRING")
    result = world.run(declare)
    counts = {(each.name, each.passed, each.failed) for flow in result.flows for each in flow.expectations}
    assert result.state is UpdateState.FAILED
    assert counts == {("small", 2, 1), ("noted", 2, 0), ("positive", 2, 1)}


def test_a_renamed_flow_that_appends_is_announced_with_the_flow_whose_rows_are_there(shop: Shop) -> None:
    """A new name is a new flow, which reads everything; a full refresh removes the rows of the former one."""
    world = shop.world

    def declare(*names: str) -> Declare:
        def declared() -> None:
            dp.create_streaming_table("table")

            @dp.append_flow(target="table", name=names[0], once=True)
            def history() -> DataFrame:
                return world.spark.read.format("delta").load(world.source())

            @dp.append_flow(target="table", name=names[1])
            def recent() -> DataFrame:
                return shop.stream().where("id > 1")

        return declared

    def announced(declared: Declare) -> list[str]:
        steps = world.pipeline(declared).plan().steps
        return [step.reason for step in steps if isinstance(step, RunFlow) and step.reason.startswith("first run")]

    first, renamed = declare("history", "recent"), declare("backfill", "recent")
    assert announced(first) == ["first run", "first run"]
    world.run(first)
    twice = ["first run; table has rows of history, which no longer writes to it: what both read is there twice"]
    assert announced(renamed) == twice
    (manifest,) = (world.root / "storage" / "checkpoints").glob("*/*history/manifest.json")
    complete = manifest.read_text("utf-8")
    assert '"completed": true' in complete
    manifest.write_text(complete.replace('"completed": true', '"completed": false'), "utf-8")  # it died before its mark
    assert announced(renamed) == twice
    world.run(renamed)
    assert world.rows("table") == [(1, "a"), (1, "a"), (2, "b"), (2, "b"), (2, "b")]
    assert announced(renamed) == []
    world.run(renamed, full_refresh=["table"])
    assert announced(declare("backfill", "stream")) == [
        "first run; table has rows of recent, which no longer writes to it: what both read is there twice"
    ]


def test_a_flow_that_has_its_name_back_announces_what_was_read_under_the_other_one(shop: Shop) -> None:
    """It goes on at its own position: a table and a sink have the rows between both positions twice, once announced.

    So is a sink that has another place: it gets new rows only.
    """
    world, out = shop.world, str(shop.world.root / "out")

    def named(name: str) -> Declare:
        def declared() -> None:
            dp.create_streaming_table("table")
            dp.create_sink("out", "delta", {"path": out})
            for target in ("table", "out"):

                @dp.append_flow(target=target, name=f"{name}_{target}")
                def rows() -> DataFrame:
                    return shop.stream()

        return declared

    def announced(declared: Declare) -> list[str]:
        steps = world.pipeline(declared).plan().steps
        return sorted(step.reason for step in steps if isinstance(step, RunFlow))

    def both() -> tuple[list[int], list[int]]:
        found = [table_rows(world.spark, path) for path in (world.path("table"), out)]
        table, sink = (sorted(row.id for row in rows) for rows in found)
        return table, sink

    def twice(reason: str, name: str) -> list[str]:
        text = f"{reason}; {{0}} has rows of {name}_{{0}}, which no longer writes to it: what both read is there twice"
        return [text.format("out"), text.format("table")]

    one, other = named("one"), named("other")
    world.run(one)
    assert announced(other) == twice("first run", "one")
    world.feed([(3, "c")], "id LONG, note STRING")
    world.run(other)
    assert both() == ([1, 1, 2, 2, 3], [1, 1, 2, 2, 3])
    assert announced(one) == twice("its sources may have new rows", "other")
    world.run(one)
    assert both() == ([1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 3, 3])
    world.feed([(4, "d")], "id LONG, note STRING")
    assert announced(one) == ["its sources may have new rows"] * 2
    world.run(one)
    assert both() == ([1, 1, 2, 2, 3, 3, 4], [1, 1, 2, 2, 3, 3, 4])

    out = str(world.root / "elsewhere")
    world.feed([(5, "e")], "id LONG, note STRING")
    reason = "its sources may have new rows"
    assert announced(one) == [reason, f"{reason}; out has another place now, which gets no earlier rows"]
    world.run(one)
    assert both() == ([1, 1, 2, 2, 3, 3, 4, 5], [5])
    world.feed([(6, "f")], "id LONG, note STRING")
    assert announced(one) == [reason, reason]


def test_a_single_run_that_becomes_a_stream_reads_everything_again_and_announces_it(shop: Shop) -> None:
    """So does a stream that becomes a single run: an append has rows twice, AUTO CDC misses no event of either."""
    world = shop.world

    def declare(*, streams: bool) -> Declare:
        def declared() -> None:
            spark = world.spark

            def read() -> DataFrame:
                return (spark.readStream if streams else spark.read).format("delta").load(world.source())

            dp.create_streaming_table("table")
            dp.append_flow(target="table", name="rows", once=not streams)(read)
            dp.create_streaming_table("target")
            dp.auto_cdc_flow(target="target", name="events", once=not streams, keys=["id"], sequence_by=F.lit(1))(read)

        return declared

    def announced(declared: Declare) -> list[str]:
        return [step.reason for step in world.pipeline(declared).plan().steps if isinstance(step, RunFlow)]

    def ids() -> tuple[list[int], list[int]]:
        return [row[0] for row in world.rows("table")], [row[0] for row in world.rows("target")]

    twice = "; the rows that it wrote are in table twice"
    batch, stream = declare(streams=False), declare(streams=True)
    world.run(batch)
    assert announced(batch) == []
    world.feed([(3, "c")], "id LONG, note STRING")
    kind = "it ran once over a batch and is a stream now"
    assert sorted(announced(stream)) == [kind, f"{kind}{twice}"]
    world.run(stream)
    assert ids() == ([1, 1, 2, 2, 3], [1, 2, 3])
    world.feed([(4, "d")], "id LONG, note STRING")
    kind = "it was a stream and reads a batch now"
    assert sorted(announced(batch)) == [kind, f"{kind}{twice}"]
    world.run(batch)
    assert ids() == ([1, 1, 1, 2, 2, 2, 3, 3, 4], [1, 2, 3, 4])
    assert announced(batch) == []


def test_a_table_that_changes_its_type_keeps_its_rows_until_a_full_refresh_replaces_them(shop: Shop) -> None:
    """A view, a streaming table and an AUTO CDC target that become another one are refused by name, back again too."""
    world = shop.world

    def declare(*, first: bool, cdc: bool = True) -> Declare:
        def declared() -> None:
            def stream() -> DataFrame:
                return shop.stream().select("id")

            def batch() -> DataFrame:
                return world.spark.read.format("delta").load(world.source()).select("id")

            dp.table(name="view")(batch if first else stream)
            dp.table(name="table")(stream if first else batch)
            if cdc:
                dp.create_streaming_table("target")
                into = dp.auto_cdc_flow(target="target", keys=["id"], sequence_by="id") if first else None
                (into or dp.append_flow(target="target"))(stream)

        return declared

    def refused(declared: Declare) -> dict[str, str]:
        steps = world.pipeline(declared).plan().steps
        assert all(isinstance(step, RefuseTable | KeepStored) for step in steps)
        return {step.dataset.table: step.reason for step in steps if isinstance(step, RefuseTable)}

    before, after, back = declare(first=True), declare(first=False), declare(first=True, cdc=False)
    world.run(before)
    world.spark.sql(f"DELETE FROM delta.`{world.source()}` WHERE id = 1")
    stops = "it was declared as materialized view, and is declared as streaming table now"
    starts = "it was declared as streaming table, and is declared as materialized view now"
    unmerged = "it was declared as AUTO CDC target, and is declared as streaming table now"
    assert refused(after) == {"view": stops, "table": starts, "target": unmerged}
    result = world.run(after)
    assert {flow.error.condition for flow in result.flows if flow.error is not None} == {"DATASET_TYPE_CHANGED"}
    assert [world.rows(name) for name in ("view", "table", "target")] == [[(1,), (2,)]] * 3
    world.run(after, full_refresh_all=True)
    world.feed([(3, "c")], "id LONG, note STRING")
    world.run(after)
    assert [world.rows(name) for name in ("view", "table", "target")] == [[(2,), (3,)]] * 3
    assert refused(back) == {"view": starts, "table": stops}
    world.run(back, full_refresh=["view", "table"])
    world.run(back)
    assert [world.rows(name) for name in ("view", "table")] == [[(2,), (3,)]] * 2
