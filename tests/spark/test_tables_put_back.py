"""An older copy of the tables alone, put back after their checkpoints have begun anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import interrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OLDER = "TABLE_OLDER_THAN_CHECKPOINT"
NAMES = ("copy", "target", "history")
FLOWS = ("copy", "into_target", "into_history")


def declared(world: EngineWorld) -> Callable[[], None]:
    """A table of appended rows, and targets of AUTO CDC of both types."""

    def rows() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    def declare() -> None:
        dp.table(name="copy")(rows)
        for name, scd_type in (("target", 1), ("history", 2)):
            dp.create_streaming_table(name)
            dp.auto_cdc_flow(
                target=name, name=f"into_{name}", keys=["id"], sequence_by="id", stored_as_scd_type=scd_type
            )(rows)

    return declare


def forget(world: EngineWorld) -> None:
    """Drop what Delta knows of the tables, as in a new process."""
    jvm: Any = world.spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def rewind_to(number: int) -> Callable[[EngineWorld, Pipeline, list[str]], None]:
    """Rewind to the end of an update."""

    def rewind(_: EngineWorld, pipeline: Pipeline, updates: list[str]) -> None:
        pipeline.rewinds.rewind(pipeline.rewinds.plan(updates[number]))

    return rewind


def refresh(_: EngineWorld, pipeline: Pipeline, __: list[str]) -> None:
    """Fully refresh all tables."""
    assert pipeline.run(full_refresh=list(NAMES)).state is UpdateState.COMPLETED


def create_anew(world: EngineWorld, pipeline: Pipeline, _: list[str]) -> None:
    """Delete the tables; the next update creates them and reads everything again, wherever it is killed."""
    for name in NAMES:
        shutil.rmtree(world.path(name))
    for point in ("tables.before_create", "generations.after_begin", "appends.after_commit"):
        forget(world)
        interrupt(pipeline.run, point)
        with put_back(world, 0):
            assert conditions(pipeline) == dict.fromkeys(FLOWS, OLDER)
    forget(world)
    assert pipeline.run().state is UpdateState.COMPLETED


@contextmanager
def put_back(world: EngineWorld, backup: int) -> Iterator[None]:
    """Have an older copy in the place of the tables."""
    tables, newer = world.root / "storage" / "tables", world.root / "newer"
    shutil.move(tables, newer)
    shutil.copytree(world.root / f"backup_{backup}", tables)
    forget(world)
    yield
    shutil.rmtree(tables)
    shutil.move(newer, tables)
    forget(world)


def conditions(pipeline: Pipeline) -> dict[str, str | None]:
    """Why flows of a plan do not run; None if they do."""
    steps = [step for step in pipeline.plan().steps if isinstance(step, RunFlow)]
    return {step.flow.table: None if step.broken is None else step.broken.condition for step in steps}


@pytest.mark.parametrize(
    ("backup", "change"),
    [(1, rewind_to(0)), (0, rewind_to(1)), (0, refresh), (0, create_anew)],
    ids=["newer than a rewind", "older than a rewind", "older than a full refresh", "older than another table"],
)
def test_flows_do_not_go_on_in_an_older_copy_of_their_table(
    interpreting: SparkSession, tmp_path: Path, backup: int, change: Callable[[EngineWorld, Pipeline, list[str]], None]
) -> None:
    """Their checkpoints have begun since: they would repeat rows that the copy has, or pass over those it lacks."""
    world = EngineWorld(interpreting, tmp_path)
    tables, pipeline, updates = tmp_path / "storage" / "tables", world.pipeline(declared(world)), []
    for number in range(3):
        world.feed([(number,)], "id INT")
        result = pipeline.run()
        assert result.state is UpdateState.COMPLETED
        updates.append(result.update_id)
        shutil.copytree(tables, tmp_path / f"backup_{number}")
    change(world, pipeline, updates)
    with put_back(world, backup):
        assert conditions(pipeline) == dict.fromkeys(FLOWS, OLDER)
        assert pipeline.run().state is UpdateState.FAILED
        assert {name: ids(world, name) for name in NAMES} == {name: list(range(backup + 1)) for name in NAMES}
    assert pipeline.run().state is UpdateState.COMPLETED
    assert {name: ids(world, name) for name in NAMES} == {name: [0, 1, 2] for name in NAMES}


def ids(world: EngineWorld, name: str) -> list[int]:
    """The ids in a table."""
    return [row[0] for row in world.rows(name)]
