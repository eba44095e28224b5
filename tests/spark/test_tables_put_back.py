"""An older copy of the tables alone, put back after their checkpoints have begun anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import Pipeline
from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld, forget_tables
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


def rewind(_: EngineWorld, pipeline: Pipeline, second: str) -> None:
    """Rewind to the end of the second update."""
    pipeline.rewinds.rewind(pipeline.rewinds.plan(second))


def refresh(_: EngineWorld, pipeline: Pipeline, __: str) -> None:
    """Fully refresh all tables."""
    assert pipeline.run(full_refresh=list(NAMES)).state is UpdateState.COMPLETED


def create_anew(world: EngineWorld, pipeline: Pipeline, _: str) -> None:
    """Delete the tables; the next update creates them and reads everything again, wherever it is killed."""
    for name in NAMES:
        shutil.rmtree(world.path(name))
    for point in ("tables.before_create", "generations.after_begin", "appends.after_commit"):
        forget_tables()
        interrupt(pipeline.run, point)
        with put_back(world, 0):
            assert conditions(pipeline) == dict.fromkeys(FLOWS, OLDER)
    forget_tables()
    assert pipeline.run().state is UpdateState.COMPLETED


@contextmanager
def put_back(world: EngineWorld, backup: int) -> Iterator[None]:
    """Have an older copy in the place of the tables."""
    tables, newer = world.root / "storage" / "tables", world.root / "newer"
    shutil.move(tables, newer)
    shutil.copytree(world.root / f"backup_{backup}", tables)
    forget_tables()
    yield
    shutil.rmtree(tables)
    shutil.move(newer, tables)
    forget_tables()


def conditions(pipeline: Pipeline) -> dict[str, str | None]:
    """Why flows of a plan do not run; None if they do."""
    steps = [step for step in pipeline.plan().steps if isinstance(step, RunFlow)]
    return {step.flow.table: None if step.broken is None else step.broken.condition for step in steps}


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[EngineWorld, str]:
    """A pipeline after four updates with a row each, and a copy of the tables after each; the second one's id."""
    world = EngineWorld(spark.newSession(), tmp_path_factory.mktemp("put_back"))
    updates = []
    for number in range(4):
        world.feed([(number,)], "id INT")
        result = world.run(declared(world))
        assert result.state is UpdateState.COMPLETED
        updates.append(result.update_id)
        shutil.copytree(world.root / "storage" / "tables", world.root / f"backup_{number}")
    return world, updates[1]


@pytest.mark.parametrize(
    ("change", "backups"),
    [(rewind, (0, 2)), (refresh, (0,)), (create_anew, (0,))],
    ids=["older and newer than a rewind", "older than a full refresh", "older than another table"],
)
def test_flows_do_not_go_on_in_an_older_copy_of_their_table(
    template: tuple[EngineWorld, str],
    tmp_path: Path,
    change: Callable[[EngineWorld, Pipeline, str], None],
    backups: tuple[int, ...],
) -> None:
    """Their checkpoints have begun since: they would repeat rows that the copy has, or pass over those it lacks."""
    world = template[0].copy(tmp_path)
    pipeline = world.pipeline(declared(world))
    change(world, pipeline, template[1])
    for backup in backups:
        with put_back(world, backup):
            assert conditions(pipeline) == dict.fromkeys(FLOWS, OLDER)
            assert pipeline.run().state is UpdateState.FAILED
            assert ids(world) == all_with(*range(backup + 1))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert ids(world) == all_with(0, 1, 2, 3)


def ids(world: EngineWorld) -> dict[str, list[int]]:
    """The ids in all tables."""
    return {name: [row[0] for row in world.rows(name)] for name in NAMES}


def all_with(*numbers: int) -> dict[str, list[int]]:
    """All tables with the same ids."""
    return {name: [*numbers] for name in NAMES}
