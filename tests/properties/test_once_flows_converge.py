"""A once flow's rows are in its table once, whatever fails or comes to its source in between."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.failpoints import arm, disarm
from framework.plan.steps import SkipStep
from framework.run.update.results import UpdateState
from tests.support.cdc_histories import random_from
from tests.support.engine_world import EngineWorld
from tests.support.interruption import StoppedHereError, stop
from tests.support.plain_tables import table_rows
from tests.support.seeds import fresh_seed, kept_seeds, repeatable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEEDS = max(1, int(os.environ.get("SLUICE_WORLDS", "150")) // 150)
KIND = "once"
QUIET_POINTS = 2
DDL = "id INT"
FAILPOINTS = ("generations.after_begin", "appends.after_commit", "run.before_once_mark", "cdc.after_merge")
OF_REFRESHES = ("rebuilds.after_begin", "rebuilds.after_freeze", "rebuilds.after_publish", "rebuilds.after_mark")


class World:
    """A table with a once flow of a batch and a stream, and a target of AUTO CDC with a once flow of a stream.

    A once flow reads what its source has in one of the attempts since it was last to begin: any one of those may have
    written the rows, but none a part of them.
    """

    def __init__(self, spark: SparkSession, root: Path, random: Random) -> None:
        self.spark, self.random, self.next = spark, random, 0
        self.engine = EngineWorld(spark, root)
        self.sources: dict[str, list[int]] = {"batch": [], "drained": [], "live": []}
        for called in self.sources:
            self.append(called)
        self.seen: dict[str, list[list[int]]] = {"kept": [], "applied": []}
        """What the once flow of a table may have written."""
        self.done: set[str] = set()
        """The tables whose once flow has ended: it reads nothing more."""

    def declare(self) -> None:
        """Both tables."""

        def read(called: str) -> DataFrame:
            return self.spark.read.format("delta").load(self.engine.source(called))

        def stream(called: str) -> DataFrame:
            return self.spark.readStream.format("delta").load(self.engine.source(called))

        dp.create_streaming_table("kept")
        dp.append_flow(target="kept", name="of_batch", once=True)(lambda: read("batch"))
        dp.append_flow(target="kept", name="of_live")(lambda: stream("live"))
        dp.temporary_view(name="drained")(lambda: stream("drained"))
        dp.create_streaming_table("applied")
        dp.create_auto_cdc_flow(
            target="applied", name="apply", source="drained", keys=["id"], sequence_by="id", once=True
        )

    def append(self, called: str | None = None) -> None:
        """A row of a source."""
        self.next += 1
        called = called or self.random.choice([*self.sources])
        self.engine.feed([(self.next,)], DDL, called=called)
        self.sources[called].append(self.next)

    def update(self, **request: list[str]) -> bool:
        """An update, which may have written what the sources have now; whether it completed."""
        for table, source in (("kept", "batch"), ("applied", "drained")):
            if table not in self.done:
                self.seen[table].append([*self.sources[source]])
        try:
            return self.engine.run(self.declare, **request).state is UpdateState.COMPLETED
        except StoppedHereError:  # before any flow runs
            return False

    def fail(self) -> None:
        """An update that fails at a failpoint, or passes none."""
        arm(self.random.choice(FAILPOINTS), nth=self.random.randrange(1, 3), action=stop)
        try:
            self.update()
        finally:
            disarm()

    def refresh(self) -> None:
        """A full refresh, which may fail at a failpoint."""
        table = self.random.choice([*self.seen])
        if self.random.randrange(2):
            arm(self.random.choice((*FAILPOINTS, *OF_REFRESHES)), action=stop)
        before, self.seen[table] = self.seen[table], []
        self.done.discard(table)
        try:
            if not self.update(full_refresh=[table]):
                self.seen[table] += before  # it may not have begun
        finally:
            disarm()

    def check(self) -> None:
        """Compare the tables with the sources after an update; one more does nothing."""
        assert self.update()
        rows = [row[0] for row in table_rows(self.spark, self.engine.path("kept"), without="__sluice")]
        once = Counter(rows) - Counter(self.sources["live"])
        assert sorted(once.elements()) in self.seen["kept"], rows
        assert Counter(rows) - once == Counter(self.sources["live"])
        applied = [row[0] for row in self.engine.rows("applied")]
        assert sorted(applied) in self.seen["applied"]
        plan = self.engine.pipeline(self.declare).plan()
        assert [step for step in plan.steps if not isinstance(step, SkipStep)] == []
        self.seen = {"kept": [sorted(once.elements())], "applied": [sorted(applied)]}
        self.done = {*self.seen}


STEPS: tuple[Callable[[World], None], ...] = (World.append, World.append, World.fail, World.fail, World.refresh)
RUNS: list[tuple[str, int | None]] = [*kept_seeds({KIND}), *((KIND, None) for _ in range(SEEDS))]


@pytest.mark.parametrize(("kind", "seed"), RUNS)
def test_once_flows_write_their_rows_once(spark: SparkSession, tmp_path: Path, kind: str, seed: int | None) -> None:
    """After rows that come later, updates and full refreshes that fail anywhere, in any order."""
    seed = fresh_seed() if seed is None else seed
    with repeatable(__file__, kind, seed, ""):
        world = World(spark.newSession(), tmp_path, random_from(seed))
        for _ in range(QUIET_POINTS):
            for step in world.random.choices(STEPS, k=2):
                step(world)
            world.check()
