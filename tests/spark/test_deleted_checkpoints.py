"""A checkpoint that was deleted by hand, whole or in part: no row is appended twice, and none is passed over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GONE = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"


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
