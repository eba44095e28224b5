"""Streams and views of a table end in its rows, whatever others do to the table in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.run.update.results import FlowState, UpdateState
from tests.support.cdc_histories import random_from
from tests.support.engine_world import EngineWorld, forget_tables
from tests.support.seeds import fresh_seed, kept_seeds, repeatable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# `make soak` sets thousands of worlds for a table; here a world is a pipeline.
SEEDS = max(1, int(os.environ.get("SLUICE_WORLDS", "150")) // 150)
KIND = "source"
QUIET_POINTS = 5
DDL = "id INT, at INT"

REFUSED = {
    "DELTA_SOURCE_PUT_BACK",
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    "DELTA_SOURCE_IGNORE_DELETE",
}
"""How a stream may refuse a table whose rows were taken away. Each of them names the full refresh."""


class World:
    """An external table, and a pipeline with two streams and a view of it."""

    def __init__(self, spark: SparkSession, root: Path, random: Random) -> None:
        self.spark, self.random, self.root, self.at = spark, random, root, 0
        self.engine = EngineWorld(spark, root)
        self.backups: list[Path] = []
        self.source = Path(self.engine.source())
        self.append()
        self.back_up()

    def declare(self) -> None:
        """A table of appended rows, a target of AUTO CDC and a view."""

        def rows() -> DataFrame:
            return self.spark.readStream.format("delta").load(str(self.source))

        dp.table(name="appended")(rows)
        dp.create_streaming_table("applied")
        dp.auto_cdc_flow(target="applied", name="apply", keys=["id"], sequence_by="at")(rows)
        dp.materialized_view(name="seen")(lambda: self.spark.read.format("delta").load(str(self.source)))

    def append(self) -> None:
        """A commit of one to three rows."""
        self.at += 1
        keys = self.random.sample(range(6), self.random.randrange(1, 4))
        self.engine.feed([(key, self.at) for key in keys], DDL)

    def back_up(self) -> None:
        """A copy of the folder."""
        copy = self.root / "backups" / str(len(self.backups))
        shutil.copytree(self.source, copy)
        self.backups.append(copy)

    def put_back(self) -> None:
        """A copy in the place of the folder, and written on to: up to, at or beyond the version that was read."""
        copy = self.random.choice(self.backups)
        shutil.rmtree(self.source)
        shutil.copytree(copy, self.source)
        forget_tables()
        for _ in range(self.random.randrange(3)):
            self.append()

    def restore(self) -> None:
        """A RESTORE to any version."""
        version = self.random.randrange(len([*Path(self.source, "_delta_log").glob("*[0-9].json")]))
        self.spark.sql(f"RESTORE TABLE delta.`{self.source}` TO VERSION AS OF {version}")

    def overwrite(self) -> None:
        """An INSERT OVERWRITE."""
        self.at += 1
        rows = self.spark.createDataFrame([(self.random.randrange(6), self.at)], DDL)
        rows.write.format("delta").mode("overwrite").save(str(self.source))

    def refresh(self) -> None:
        """A full refresh of one of the tables."""
        self.engine.run(self.declare, full_refresh=[self.random.choice(["appended", "applied"])])

    def check(self) -> None:
        """Compare the tables with the source after an update, and after a full refresh of those that were refused."""
        pipeline = self.engine.pipeline(self.declare)
        foretold = {s.flow.table for s in pipeline.plan().steps if isinstance(s, RunFlow) and s.broken is not None}
        result = pipeline.run()
        refused = {flow.flow.table: flow for flow in result.flows if flow.state is FlowState.FAILED}
        assert foretold <= {*refused}
        assert {flow.error.condition for flow in refused.values() if flow.error} <= REFUSED, str(result)
        assert (result.state is UpdateState.COMPLETED) == (not refused)
        rows = sorted((row.id, row.at) for row in self.spark.read.format("delta").load(str(self.source)).collect())
        latest = sorted({key: max(at for other, at in rows if other == key) for key, _ in rows}.items())
        wanted = {"appended": rows, "apply": latest}
        assert self.engine.rows("seen") == rows
        tables = {"appended": "appended", "apply": "applied"}
        for flow, table in tables.items():
            assert flow in refused or self.engine.rows(table) == wanted[flow], flow
        if refused:
            again = self.engine.run(self.declare, full_refresh=[tables[flow] for flow in refused])
            assert again.state is UpdateState.COMPLETED, str(again)
            assert [self.engine.rows(tables[flow]) for flow in refused] == [wanted[flow] for flow in refused]


STEPS: tuple[Callable[[World], None], ...] = (
    World.append, World.append, World.back_up, World.put_back, World.put_back, World.restore, World.overwrite,
    World.refresh,
)  # fmt: skip
RUNS: list[tuple[str, int | None]] = [*kept_seeds({KIND}), *((KIND, None) for _ in range(SEEDS))]


@pytest.mark.parametrize(("kind", "seed"), RUNS)
def test_tables_end_in_their_source(spark: SparkSession, tmp_path: Path, kind: str, seed: int | None) -> None:
    """After appends, backups put back and written on to, RESTORE, overwrites and full refreshes, in any order."""
    seed = fresh_seed() if seed is None else seed
    random = random_from(seed)
    with repeatable(__file__, kind, seed, ""):
        world = World(spark.newSession(), tmp_path, random)
        world.check()
        for _ in range(QUIET_POINTS):
            for step in random.choices(STEPS, k=2):
                step(world)
            world.check()
