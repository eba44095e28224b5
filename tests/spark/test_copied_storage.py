"""A storage that was copied or moved as a whole, with a table at a path of the user's own outside of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.errors import OperationError
from framework.plan.steps import RefuseTable
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, forget_tables, states
from tests.support.interruption import copying, interrupt
from tests.support.plain_tables import append_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE, REWIND = "TABLE_OF_OTHER_STORAGE", "REWIND_OF_OTHER_STORAGE"


def declared(world: EngineWorld, lake: Path, *, view: bool = True) -> Callable[[], None]:
    """A streaming table in the storage, and one outside with a view of it."""

    def declare() -> None:
        @dp.table
        def inside() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.table(path=str(lake / "outside"))
        def outside() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        if view:
            dp.materialized_view(name="view", path=str(lake / "view"))(lambda: world.spark.read.table("outside"))

    return declare


def test_a_copy_of_a_storage_does_not_write_to_the_tables_of_its_original(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Until the user says that the original is not used any more."""
    lake = tmp_path / "lake"
    world = EngineWorld(interpreting, tmp_path / "first")

    def rows(name: str) -> list[tuple[int]]:
        return sorted(table_rows(interpreting, str(lake / name)))

    world.feed([(1,)], "id INT")
    first = world.run(declared(world, lake))
    assert first.state is UpdateState.COMPLETED
    twin = world.copy(tmp_path / "twin")
    twin.feed([(2,)], "id INT")
    pipeline = twin.pipeline(declared(twin, lake))
    refused = {step.dataset.table for step in pipeline.plan().steps if isinstance(step, RefuseTable)}
    assert refused == {"outside", "view"}
    for rebuilt in ([], ["outside"]):
        result = pipeline.run(full_refresh=rebuilt)
        assert {flow.error and flow.error.condition for flow in result.flows if flow.flow.table != "inside"} == {TABLE}
    assert (twin.rows("inside"), rows("outside"), rows("view")) == ([(1,), (2,)], [(1,)], [(1,)])
    with pytest.raises(OperationError, match=TABLE):
        pipeline.rewinds.plan(first.update_id, ["outside"])
    assert pipeline.table("outside").count() == 1  # to read it harms nobody

    # The first storage is not in use any more: the user says so.
    for name in ("outside", "view"):
        belongs = f"SET TBLPROPERTIES ('sluice.storage' = '{twin.root / 'storage'}')"
        interpreting.sql(f"ALTER TABLE delta.`{lake / name}` {belongs}")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert (rows("outside"), rows("view")) == ([(1,), (2,)], [(1,), (2,)])
    result = world.run(declared(world, lake))
    assert {flow.error and flow.error.condition for flow in result.flows if flow.flow.table != "inside"} == {TABLE}


def test_an_interrupted_rewind_is_finished_by_a_moved_storage_and_not_by_a_copy(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Also if the table was restored before the crash: it then has the properties of that time."""
    root = tmp_path / "root"
    world, lake = EngineWorld(interpreting, root / "first"), root / "lake"
    world.feed([(1,)], "id INT")
    first = world.run(declared(world, lake))
    interpreting.sql(f"ALTER TABLE delta.`{lake / 'outside'}` UNSET TBLPROPERTIES ('sluice.storage')")
    world.feed([(2,)], "id INT")
    world.run(declared(world, lake))
    rewinds = world.pipeline(declared(world, lake)).rewinds
    plan = rewinds.plan(first.update_id, ["outside"])
    copies = {"rewinds.after_mark": tmp_path / "marked", "rewinds.after_table": tmp_path / "restored"}
    copying(lambda: rewinds.rewind(plan), root, copies)
    for kept in copies.values():
        shutil.rmtree(root)
        kept.rename(root)
        forget_tables()
        check_finished(world, lake)


def check_finished(world: EngineWorld, lake: Path) -> None:
    """A copy refuses, the moved storage finishes the rewind; then the copy may have the table, but not finish it."""

    def rows(name: str) -> list[tuple[int]]:
        return sorted(table_rows(world.spark, str(lake / name)))

    twin = world.copy(world.root.parent / "twin")
    before = rows("outside")
    for finish in (twin.pipeline(declared(twin, lake)).run, twin.pipeline(declared(twin, lake)).rewinds.finish):
        with pytest.raises(OperationError, match=REWIND):
            finish()
    assert rows("outside") == before
    moved = EngineWorld(world.spark, world.root.rename(world.root.parent / "moved"))
    moved.name = world.name
    result = moved.run(declared(moved, lake))
    assert states(result) == {"inside": FlowState.IDLE, **dict.fromkeys(("outside", "view"), FlowState.COMPLETED)}
    assert (rows("outside"), rows("view")) == ([(1,), (2,)], [(1,), (2,)])
    with pytest.raises(OperationError, match=REWIND):
        twin.run(declared(twin, lake))
    shutil.rmtree(moved.root)  # so the copy may have the table, but not finish the rewind, after which it was written
    world.spark.sql(
        f"ALTER TABLE delta.`{lake / 'outside'}` SET TBLPROPERTIES ('sluice.storage' = '{twin.root / 'storage'}')"
    )
    with pytest.raises(OperationError, match="REWIND_NOT_FINISHABLE"):
        twin.run(declared(twin, lake))
    assert rows("outside") == [(1,), (2,)]


def test_a_copy_gives_up_the_rewind_that_its_original_has_finished(interpreting: SparkSession, tmp_path: Path) -> None:
    """Its own tables go back, and a table of the original is left alone: the copy fills one at another path."""
    world = EngineWorld(interpreting, tmp_path / "first")
    world.feed([(1,)], "id INT")
    first = world.run(declared(world, tmp_path / "lake", view=False))
    world.feed([(2,)], "id INT")
    world.run(declared(world, tmp_path / "lake", view=False))
    rewinds = world.pipeline(declared(world, tmp_path / "lake", view=False)).rewinds
    interrupt(lambda: rewinds.rewind(rewinds.plan(first.update_id)), "rewinds.after_mark")
    twin = world.copy(tmp_path / "twin")
    assert rewinds.finish() is not None
    restored = table_rows(interpreting, str(tmp_path / "lake" / "outside"))

    pipeline = twin.pipeline(declared(twin, tmp_path / "own", view=False))
    with pytest.raises(OperationError, match=REWIND):
        pipeline.run()
    plan = pipeline.rewinds.plan_abandonment()
    assert plan is not None
    assert plan.rest is not None
    assert [name.table for name in plan.rewound] == ["inside"]
    assert [name.table for name in plan.rest.refreshed] == ["outside"]
    pipeline.rewinds.abandon(plan)
    assert twin.rows("inside") == [(1,)]
    assert pipeline.run().state is UpdateState.COMPLETED
    for rows in (twin.rows("inside"), table_rows(interpreting, str(tmp_path / "own" / "outside"))):
        assert sorted(rows) == [(1,), (2,)]
    assert table_rows(interpreting, str(tmp_path / "lake" / "outside")) == restored == [(1,)]


def test_only_one_storage_writes_to_a_table_outside_of_it(interpreting: SparkSession, tmp_path: Path) -> None:
    """Not one that was copied from the same storage, an older copy, or another storage of the pipeline, do."""
    lake, source = tmp_path / "lake", str(tmp_path / "source")

    def feed(number: int) -> None:
        append_rows(interpreting, source, [(number,)], "id INT")

    def declare() -> None:
        dp.create_streaming_table("merged", path=str(lake / "merged"))

        @dp.auto_cdc_flow(target="merged", name="changes", keys=["id"], sequence_by="id")
        def changes() -> DataFrame:
            return interpreting.readStream.format("delta").load(source)

        @dp.materialized_view(path=str(lake / "view"))
        def view() -> DataFrame:
            return interpreting.read.format("delta").load(source)

    def world(name: str) -> EngineWorld:
        found = EngineWorld(interpreting, tmp_path / name)
        found.name = "shop"
        return found

    def rows() -> list[list[tuple[int]]]:
        return [sorted(table_rows(interpreting, str(lake / name), without="__sluice")) for name in ("merged", "view")]

    feed(1)
    earlier = world("first")
    earlier.run(declare)
    for name in ("merged", "view"):  # tables may have lost the property that names their storage
        interpreting.sql(f"ALTER TABLE delta.`{lake / name}` UNSET TBLPROPERTIES ('sluice.storage')")
    (tmp_path / "first" / "storage" / "storage.json").unlink()
    assert states(earlier.run(declare)) == dict.fromkeys(("changes", "view"), FlowState.IDLE)
    earlier.copy(tmp_path / "backup")
    earlier.root.rename(tmp_path / "moved")
    copied = world("moved").copy(tmp_path / "copied")
    feed(2)
    assert world("moved").run(declare).state is UpdateState.COMPLETED
    (tmp_path / "backup").rename(tmp_path / "first")
    feed(3)
    for other in (copied, world("first"), world("second")):
        result = other.run(declare)
        assert {flow.error and flow.error.condition for flow in result.flows} == {TABLE}, other.root
        assert rows() == [[(1,), (2,)]] * 2
    assert world("moved").run(declare).state is UpdateState.COMPLETED
    assert rows() == [[(1,), (2,), (3,)]] * 2


def test_a_prune_that_was_interrupted_is_finished_by_the_storage_that_was_moved(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """A copy leaves the table to its original."""
    lake = tmp_path / "lake"
    world = EngineWorld(interpreting, tmp_path / "first")
    world.feed([(1,)], "id INT")
    world.run(declared(world, lake))

    def fewer() -> None:
        @dp.temporary_view
        def nothing() -> DataFrame:
            return interpreting.range(1)

    pipeline = world.pipeline(fewer)
    left = {table.name.table: table for table in pipeline.left_tables()}
    assert set(left) == {"inside", "outside", "view"}
    interrupt(lambda: pipeline.prune([left["outside"]]), "prune.after_mark")
    twin = world.copy(tmp_path / "twin")
    assert twin.run(fewer).state is UpdateState.COMPLETED
    assert (lake / "outside").exists()
    world.root.rename(tmp_path / "moved")
    moved = EngineWorld(interpreting, tmp_path / "moved")
    moved.name = world.name
    assert moved.run(fewer).state is UpdateState.COMPLETED
    assert not (lake / "outside").exists()
    assert [table.name.table for table in moved.pipeline(fewer).left_tables()] == ["inside", "view"]


def test_an_older_copy_of_a_storage_does_not_double_or_lose_what_a_full_refresh_read(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """A backup from before the refresh does not append again; one from the middle of it publishes its own rows.

    Nor do its checkpoints alone, beside the newer state of the refresh.
    """
    lake, source = tmp_path / "lake", str(tmp_path / "source")

    def feed(number: int) -> None:
        append_rows(interpreting, source, [(number,)], "id INT")

    def declare() -> None:
        for name in ("before", "within"):

            @dp.table(name=name, path=str(lake / name))
            def query() -> DataFrame:
                return interpreting.readStream.format("delta").load(source)

    def rows() -> list[list[tuple[int]]]:
        return [sorted(table_rows(interpreting, str(lake / name))) for name in ("before", "within")]

    def put_back(backup: EngineWorld) -> None:
        shutil.rmtree(world.root)
        backup.copy(world.root)

    def conditions() -> set[str | None]:
        return {None if flow.error is None else flow.error.condition for flow in world.run(declare).flows}

    world = EngineWorld(interpreting, tmp_path / "world")
    feed(1)
    world.run(declare)
    before = world.copy(tmp_path / "before")
    interrupt(lambda: world.run(declare, full_refresh=["within"]), "rebuilds.after_begin")
    within = world.copy(tmp_path / "within")
    assert world.run(declare, full_refresh=["before"]).state is UpdateState.COMPLETED
    put_back(within)
    feed(2)
    result = world.run(declare)
    assert states(result) == {"before": FlowState.FAILED, "within": FlowState.COMPLETED}
    assert rows() == [[(1,)], [(1,), (2,)]]
    put_back(before)
    assert conditions() == {"STREAMING_CHECKPOINT_MISSING_METADATA_FILE"}
    assert world.run(declare, full_refresh_all=True).state is UpdateState.COMPLETED
    feed(3)
    checkpoints, newer = world.root / "storage" / "checkpoints", tmp_path / "newer"
    checkpoints.rename(newer)
    shutil.copytree(before.root / "storage" / "checkpoints", checkpoints)
    assert conditions() == {"STREAMING_CHECKPOINT_MISSING_METADATA_FILE"}
    shutil.rmtree(checkpoints)
    newer.rename(checkpoints)
    assert world.run(declare).state is UpdateState.COMPLETED
    assert rows() == [[(1,), (2,), (3,)]] * 2
