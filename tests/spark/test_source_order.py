"""A checkpoint knows the sources of a query by their order: sources that change places are foretold, never doubled."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from framework import pipelines as dp
from framework.plan.steps import Breakage, RunFlow, SkipStep
from framework.run.update.results import UpdateState
from framework.sources.port import NO_LAG
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED = "STREAMING_SOURCES_CHANGED"
LISTED, NATIVE, GLOBS, BY_PATH, BY_NAME, MIXED = NAMES = (
    "listed", "native", "globs", "by_path", "by_name", "mixed",
)  # fmt: skip
"""Two folders of `cloudFiles`, two of Spark's own source, two globs of it, two Delta tables by path and by name, and a
table by name with a folder."""


class Unions:
    """A table for each kind of source, of a union of two sources in `order`."""

    def __init__(self, world: EngineWorld, root: Path) -> None:
        self.world = world
        self.order = ["a", "b"]
        self.more: dict[str, str] = {}
        """Options of `cloudFiles`; with any, its paths have another spelling."""
        # A path with the sign that separates an option of a start from its value.
        self.folders = {each: root / f"in=1/{each}" for each in self.order}

    def feed(self, *numbers: int, age: int = 0) -> None:
        """Add one row to each source: a file that is `age` seconds old, and a commit."""
        for number, each in zip(numbers, ("a", "b"), strict=True):
            path = self.folders[each] / f"{number}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'{{"id": {number}}}\n', "utf-8")
            os.utime(path, (time.time() - age,) * 2)
            self.world.feed([(number,)], "id INT", each)

    def declare(self) -> None:
        """The tables."""
        for each in self.folders:
            dp.table(name=f"copy_{each}")(partial(self._read, BY_PATH, each))
        for name in NAMES:
            dp.table(name=name)(partial(self._union, name))

        @dp.table
        def common() -> DataFrame:  # Spark decides later how often it reads the source
            rows = "WITH x AS (SELECT id FROM STREAM(copy_a)), y AS (SELECT id + 10 AS id FROM x) "
            return self.world.spark.sql(f"{rows}SELECT id FROM x UNION ALL SELECT CAST(id AS INT) FROM y")

    def _union(self, kind: str) -> DataFrame:
        return reduce(DataFrame.union, (self._read(kind, each) for each in self.order))

    def _read(self, kind: str, each: str) -> DataFrame:
        stream = self.world.spark.readStream
        if kind == BY_NAME or (kind, each) == (MIXED, "a"):
            return stream.table(f"copy_{each}")
        if kind == BY_PATH:
            return stream.format("delta").load(self.world.source(each))
        files = stream.schema("id INT")
        if kind != LISTED:
            return files.json(f"{self.folders[each]}{'/*.json' if kind == GLOBS else ''}")
        options = {"cloudFiles.format": "json", "cloudFiles.rescuedDataColumn": "r", **self.more}
        path = f"file:{self.folders[each]}/" if self.more else str(self.folders[each])
        return files.format("cloudFiles").options(**options).load(path).select("id")

    def run(self, **request: Any) -> dict[str, str]:
        """An update; the conditions of the flows that failed."""
        result = self.world.run(self.declare, **request)
        return {flow.flow.table: flow.error.condition for flow in result.flows if flow.error is not None}

    def foretold(self) -> dict[str, Breakage]:
        """The flows that would fail."""
        steps = self.world.pipeline(self.declare).plan().steps
        return {step.flow.table: step.broken for step in steps if isinstance(step, RunFlow) and step.broken}

    def rows(self) -> dict[str, list[int]]:
        """The rows of all unions."""
        return {name: [row[0] for row in self.world.rows(name)] for name in NAMES}


def test_sources_that_change_places_are_foretold_and_a_reset_names_them(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """No row is written until their order is restored; a reset may take the new order, with a start for each."""
    world = EngineWorld(interpreting, tmp_path)
    unions = Unions(world, tmp_path)
    unions.feed(1, 2, age=3600)
    assert unions.run() == {}
    assert world.rows("common") == [(1,), (11,)]
    unions.order.reverse()
    unions.more["pathGlobFilter"] = "*.json"
    unions.feed(3, 4)
    broken = dict.fromkeys(NAMES, CHANGED)
    foretold = unions.foretold()
    assert {name: each.condition for name, each in foretold.items()} == broken
    assert "main.s.copy_b (table) at the position of main.s.copy_a (table)" in foretold[BY_NAME].problem
    assert unions.run() == broken
    assert unions.rows() == {name: [1, 2] for name in NAMES}
    assert world.rows("common") == [(1,), (11,), (13,), (3,)]
    unions.order.reverse()
    assert unions.run() == {}
    assert unions.rows() == {name: [1, 2, 3, 4] for name in NAMES}

    unions.order.reverse()
    unions.feed(5, 6)
    after = datetime.fromtimestamp(time.time() - 1800, tz=UTC).isoformat()
    starts = [f"{folder}:modifiedAfter={after}" for folder in unions.folders.values()]
    assert unions.run(reset_checkpoints={LISTED: starts}) == {}
    assert unions.rows()[LISTED] == [1, 2, 3, 3, 4, 4, 5, 6]
    # The files before the start count neither as new nor as unread.
    pipeline = world.pipeline(unions.declare)
    skipped = [step.flow.table for step in pipeline.plan().steps if isinstance(step, SkipStep) and step.flow]
    assert LISTED in skipped
    assert [each.lag for each in pipeline.lag(LISTED)] == [NO_LAG]


def test_an_order_that_failed_can_be_restored(interpreting: SparkSession, tmp_path: Path) -> None:
    """The manifest of a rewind may have no sources; they are known after the first batch."""
    world = EngineWorld(interpreting, tmp_path)
    unions = Unions(world, tmp_path)

    def declare() -> None:
        dp.table(name=BY_PATH)(partial(unions._union, BY_PATH))

    unions.feed(1, 2)
    assert world.run(declare).state is UpdateState.COMPLETED
    (manifest,) = (tmp_path / "storage" / "checkpoints").rglob("manifest.json")
    content = json.loads(manifest.read_text("utf-8"))
    content["generations"][0]["sources"] = []
    manifest.write_text(json.dumps(content), "utf-8")
    unions.feed(3, 4)
    for expected in (UpdateState.FAILED, UpdateState.COMPLETED):
        unions.order.reverse()
        assert world.run(declare).state is expected
    assert world.rows(BY_PATH) == [(1,), (2,), (3,), (4,)]
    unions.order.reverse()
    (step,) = (step for step in world.pipeline(declare).plan().steps if isinstance(step, RunFlow))
    assert step.broken is not None
    assert step.broken.condition == CHANGED


def test_a_full_refresh_that_is_not_finished_keeps_the_order_of_its_sources(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """So does an update that failed before its first batch, although no position is stored."""
    world = EngineWorld(interpreting, tmp_path)
    unions, fails = Unions(world, tmp_path), [True]

    def declare() -> None:
        dp.create_streaming_table("both")
        dp.append_flow(target="both", name="first")(partial(unions._union, LISTED))

        @dp.append_flow(target="both", name="second")
        def second() -> DataFrame:
            rows = world.spark.readStream.format("delta").load(world.source("a"))
            return rows.selectExpr("IF(id > 0, raise_error('no'), id) AS id") if fails else rows.where("id < 0")

    def conditions(**request: Any) -> dict[str, str]:
        result = world.run(declare, **request)
        return {flow.flow.table: flow.error.condition for flow in result.flows if flow.error is not None}

    unions.feed(1, 2)
    moved = unions.folders["b"].rename(tmp_path / "moved")
    assert conditions() == {"first": "CLOUD_FILES_FOLDER_MISSING", "second": "FLOW_FAILED"}
    moved.rename(unions.folders["b"])
    fails.clear()
    unions.order.reverse()
    assert conditions() == {"first": CHANGED}
    unions.order.reverse()
    assert conditions() == {}
    assert world.rows("both") == [(1,), (2,)]
    fails.append(True)
    assert conditions(full_refresh=["both"]) == {"second": "FLOW_FAILED"}
    fails.clear()
    unions.order.reverse()
    assert conditions() == {"first": CHANGED}
    assert conditions(full_refresh=["both"]) == {}
    assert world.rows("both") == [(1,), (2,)]
