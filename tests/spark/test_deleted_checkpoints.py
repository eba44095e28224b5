"""A checkpoint or a table that was deleted or put back by hand: no row is appended twice, and none is passed over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework import Pipeline

GONE = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
OLDER = "TABLE_OLDER_THAN_CHECKPOINT"
REPLACED = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
COPY = "checkpoints/main.s.copy/main.s.copy"
TABLES = ("tables/main/s/copy", "tables/main/s/target")


PARTS = {"all": ("",), "batches": ("offsets", "commits"), "offsets": ("offsets",)}
"""The parts of a checkpoint that are deleted, by the table of its flow."""


def test_a_deleted_checkpoint_of_an_appended_table_is_foretold(interpreting: SparkSession, tmp_path: Path) -> None:
    """Others go on; the checkpoint may be put back, and a reset reads everything again when that is asked for."""
    world = EngineWorld(interpreting, tmp_path)
    names = (*PARTS, "other")

    def declare() -> None:
        for name in names:
            dp.table(name=name)(lambda: world.spark.readStream.format("delta").load(world.source()))

    def checkpoint(name: str) -> Path:
        return tmp_path / "storage" / "checkpoints" / f"main.s.{name}" / f"main.s.{name}" / "1"

    world.feed([(1,)], "id INT")
    assert world.run(declare).state is UpdateState.COMPLETED
    for name, parts in PARTS.items():
        (tmp_path / "moved" / name).mkdir(parents=True)
        for part in parts:
            shutil.move(checkpoint(name) / part, tmp_path / "moved" / name / (part or "all"))
    world.feed([(2,)], "id INT")
    pipeline = world.pipeline(declare)
    steps = [step for step in pipeline.plan().steps if isinstance(step, RunFlow)]
    assert {step.flow.table: step.broken and step.broken.condition for step in steps} == {
        **dict.fromkeys(PARTS, GONE), "other": None
    }  # fmt: skip
    for other in (FlowState.COMPLETED, FlowState.IDLE):
        result = pipeline.run()
        assert states(result) == {**dict.fromkeys(PARTS, FlowState.FAILED), "other": other}
        assert {flow.error.condition for flow in result.flows if flow.error is not None} == {GONE}
    one, both = [(1,)], [(1,), (2,)]
    assert {name: world.rows(name) for name in names} == {**dict.fromkeys(PARTS, one), "other": both}

    for name, parts in PARTS.items():
        for part in parts:
            shutil.move(tmp_path / "moved" / name / (part or "all"), checkpoint(name) / part)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert {name: world.rows(name) for name in PARTS} == dict.fromkeys(PARTS, both)

    shutil.rmtree(checkpoint("all"))
    assert pipeline.run(reset_checkpoints={"all": "startingVersion=0"}).state is UpdateState.COMPLETED
    assert world.rows("all") == [(1,), (1,), (2,), (2,)]


def test_a_checkpoint_that_has_written_no_batch_may_be_deleted(interpreting: SparkSession, tmp_path: Path) -> None:
    """Its stream had started, and its first batch had failed."""
    world, fails = EngineWorld(interpreting, tmp_path), [True]

    def declare() -> None:
        @dp.table
        def copy() -> DataFrame:
            rows = world.spark.readStream.format("delta").load(world.source())
            return rows.selectExpr("IF(id = 1, raise_error('no'), id) AS id") if fails else rows

    world.feed([(1,)], "id INT")
    assert world.run(declare).state is UpdateState.FAILED
    checkpoint = tmp_path / "storage" / "checkpoints" / "main.s.copy" / "main.s.copy" / "1"
    assert (checkpoint / "offsets" / "0").exists()
    shutil.rmtree(checkpoint)
    fails.clear()
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.rows("copy") == [(1,)]


def declared(world: EngineWorld) -> Callable[[], None]:
    """A table of appended rows, a stream that reads it, and a target of AUTO CDC."""

    def declare() -> None:
        @dp.table
        def copy() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.table
        def reader() -> DataFrame:
            return world.spark.readStream.table("copy")

        dp.create_streaming_table("target")

        @dp.auto_cdc_flow(target="target", name="changes", keys=["id"], sequence_by="id")
        def changes() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    return declare


def put(world: EngineWorld, backup: str, *parts: str) -> None:
    """Put folders of the storage back from a backup of it."""
    for part in parts:
        shutil.rmtree(world.root / "storage" / part)
        shutil.copytree(world.root / backup / part, world.root / "storage" / part)


def planned(pipeline: Pipeline) -> dict[str, RunFlow]:
    """The flows that an update would run, or would not start because they are broken."""
    return {step.flow.table: step for step in pipeline.plan().steps if isinstance(step, RunFlow)}


def broken(pipeline: Pipeline) -> dict[str, str]:
    """The conditions of the flows that are foretold."""
    return {name: step.broken.condition for name, step in planned(pipeline).items() if step.broken is not None}


def test_an_older_copy_of_a_table_or_of_a_checkpoint_is_foretold(interpreting: SparkSession, tmp_path: Path) -> None:
    """Flows and readers of an older table would go on behind its lost rows; a table skips batches that it has."""
    world = EngineWorld(interpreting, tmp_path)
    pipeline = world.pipeline(declared(world))
    for number, backup in enumerate(("before", "after")):
        world.feed([(number,)], "id INT")
        assert pipeline.run().state is UpdateState.COMPLETED
        shutil.copytree(tmp_path / "storage", tmp_path / backup)
    assert broken(pipeline) == {}
    put(world, "before", *TABLES)
    world.feed([(2,)], "id INT")
    assert broken(pipeline) == {"copy": OLDER, "changes": OLDER, "reader": REPLACED}
    findings = pipeline.doctor.examine().findings
    assert {each.dataset and each.dataset.table: each.diagnosis.name for each in findings} == {
        "copy": "TABLE_WENT_BACK", "target": "TABLE_WENT_BACK", "reader": "DELTA_SOURCE_REPLACED"
    }  # fmt: skip
    ways = [way.way.name for each in findings if each.condition == OLDER for way in each.ways]
    assert ways == ["RESTORE", "FULL_REFRESH", "RESET_START", "RESTORE", "RESET_START", "FULL_REFRESH"]
    failed = dict.fromkeys(("copy", "changes"), FlowState.FAILED)
    assert states(pipeline.run()) == {**failed, "reader": FlowState.SKIPPED}
    result = pipeline.run(reset_checkpoints={"copy": "startingVersion=1"}, refresh=["copy"])
    assert (result.state, world.rows("copy")) == (UpdateState.COMPLETED, [(0,), (1,), (2,)])

    put(world, "after", *TABLES, COPY)
    assert broken(pipeline) == {}
    put(world, "before", f"{COPY}/1", "checkpoints/main.s.target/main.s.changes/1")
    assert (broken(pipeline), planned(pipeline)["changes"].reason) == (
        {"copy": GONE}, "files of its checkpoint were deleted"
    )  # fmt: skip
    put(world, "after", COPY)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert [world.rows(name) for name in ("copy", "reader", "target")] == [[(0,), (1,), (2,)]] * 3

    shutil.rmtree(tmp_path / "storage" / COPY)
    assert broken(pipeline) == {"copy": GONE}
    assert [each.diagnosis.name for each in pipeline.doctor.examine().findings] == ["CHECKPOINT_DAMAGED"]
    assert states(pipeline.run())["copy"] is FlowState.FAILED
    twice = "copy has rows of a flow whose checkpoint is not here: what both read is there twice"
    step = next(each for each in pipeline.plan(reset_checkpoints=["copy"]).steps if isinstance(each, RunFlow))
    assert (step.reason, step.broken) == (f"first run; {twice}", None)
