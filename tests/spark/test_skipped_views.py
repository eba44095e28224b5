"""A view or a snapshot is skipped only if its rows would be the same: one test for each thing that rows depend on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from framework import Pipeline
from framework import pipelines as dp
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """An empty storage."""
    return EngineWorld(spark, tmp_path)


def test_a_view_and_a_snapshot_follow_a_change_of_their_expectations(world: EngineWorld) -> None:
    """Added, changed, on a view below, on a snapshot or its source, and one with the time of day; the same are idle."""
    world.feed([(1, "a"), (2, "b"), (3, "c")], "id LONG, v STRING")

    def declare(least: int) -> Callable[[], None]:
        def expect(name: str) -> Callable[[Callable[[], DataFrame]], Callable[[], DataFrame]]:
            return dp.expect_or_drop(name, f"id > {least}") if least else lambda query: query

        def rows() -> DataFrame:
            return world.spark.range(4)

        def declarations() -> None:
            dp.materialized_view(name="added")(expect("e")(rows))
            dp.materialized_view(name="changed")(dp.expect_or_drop("e", f"id > {least}")(rows))
            dp.materialized_view(name="failing")(dp.expect_or_fail("e", f"id >= {least}")(rows))
            dp.materialized_view(name="timed")(dp.expect_or_drop("e", "id > year(now()) - 2000")(rows))
            dp.materialized_view(name="with_common_tables")(
                lambda: world.spark.sql(
                    "WITH ids AS (SELECT id FROM range(2)) SELECT * FROM ids JOIN ids more USING (id)"
                )
            )
            dp.materialized_view(name="as_it_was")(dp.expect_or_drop("e", "id > 2")(rows))
            dp.temporary_view(name="filtered")(expect("e")(rows))
            dp.temporary_view(name="renamed")(lambda: world.spark.read.table("filtered").withColumnRenamed("id", "x"))
            dp.materialized_view(name="of_view")(lambda: world.spark.read.table("renamed"))
            dp.temporary_view(name="source")(expect("e")(lambda: world.spark.read.format("delta").load(world.source())))
            dp.create_streaming_table("of_source")
            dp.create_auto_cdc_from_snapshot_flow("of_source", "source", ["id"])

        return declarations

    names = ("added", "changed", "of_view", "of_source")
    world.run(declare(0))
    assert [world.rows(name) for name in names] == [
        [(0,), (1,), (2,), (3,)], [(1,), (2,), (3,)], [(0,), (1,), (2,), (3,)], [(1, "a"), (2, "b"), (3, "c")],
    ]  # fmt: skip
    again = states(world.run(declare(0)))
    assert {name for name, state in again.items() if state is not FlowState.IDLE} == {"timed"}

    result = world.run(declare(2))
    assert [world.rows(name) for name in names] == [[(3,)], [(3,)], [(3,)], [(3, "c")]]
    assert states(result)["failing"] is FlowState.FAILED
    assert states(result)["as_it_was"] is FlowState.IDLE
    assert result.state is UpdateState.FAILED


def test_a_view_and_a_snapshot_follow_all_that_they_read_outside_of_the_pipeline(world: EngineWorld) -> None:
    """Rows deleted by deletion vectors, a table that is only counted, files in a subquery or below an outer join."""
    spark, files = world.spark, world.root / "my files"
    table = world.source("deleted")
    spark.sql(f"CREATE TABLE delta.`{table}` (id LONG) USING delta TBLPROPERTIES (delta.enableDeletionVectors = true)")
    spark.sql(f"CREATE OR REPLACE TABLE of_catalog USING delta LOCATION '{world.source('named')}' "
              "TBLPROPERTIES (delta.enableDeletionVectors = true) AS SELECT id FROM range(1, 4, 1, 1)")  # fmt: skip
    world.feed([(1,), (2,), (3,)], "id LONG", "deleted")
    world.feed([(1,), (2,)], "id LONG", "counted")
    files.mkdir()
    changing, fixed = files / "changing.json", files / "fixed.json"
    changing.write_text('{"id": 1, "a": 10}\n')
    fixed.write_text('{"id": 1}\n')

    def read(path: Path) -> DataFrame:
        return spark.read.schema("id LONG, a LONG").json(str(path))

    def declare() -> None:
        def ours() -> DataFrame:
            return read(changing).join(spark.read.table("ids"), "id")

        def counted() -> DataFrame:
            return spark.read.format("delta").load(world.source("counted")).groupBy().count()

        dp.table(name="ids")(lambda: spark.readStream.format("delta").load(world.source("counted")))
        dp.materialized_view(name="by_path")(lambda: spark.read.format("delta").load(table))
        dp.materialized_view(name="by_name")(lambda: spark.read.table("of_catalog"))
        dp.materialized_view(name="of_count")(counted)
        dp.materialized_view(name="of_subquery")(
            lambda: spark.sql(f"SELECT id, (SELECT max(a) FROM json.`{changing}`) AS top FROM json.`{fixed}`")
        )
        dp.materialized_view(name="of_union")(lambda: read(fixed).union(ours()))
        dp.materialized_view(name="of_join")(lambda: read(fixed).select("id").join(ours(), "id", "left"))
        dp.materialized_view(name="of_fixed")(lambda: read(fixed))
        dp.temporary_view(name="source")(lambda: spark.read.format("delta").load(table))
        dp.create_streaming_table("of_source")
        dp.create_auto_cdc_from_snapshot_flow("of_source", "source", ["id"])

    world.run(declare)
    assert set(states(world.run(declare)).values()) == {FlowState.IDLE}

    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 1")
    spark.sql("DELETE FROM of_catalog WHERE id = 1")
    world.feed([(3,)], "id LONG", "counted")
    changing.write_text('{"id": 1, "a": 11}\n')
    result = world.run(declare)
    names = ("by_path", "by_name", "of_count", "of_subquery", "of_union", "of_join", "of_source")
    assert {name: world.rows(name) for name in names} == {
        "by_path": [(2,), (3,)], "by_name": [(2,), (3,)], "of_count": [(3,)], "of_subquery": [(1, 11)],
        "of_union": [(1, 11), (1, None)], "of_join": [(1, 11)], "of_source": [(2,), (3,)],
    }  # fmt: skip
    assert states(result)["of_fixed"] is FlowState.IDLE


def test_views_follow_the_settings_of_their_session_that_change_rows(world: EngineWorld) -> None:
    """The time zone and ANSI mode in `configuration`; the number of partitions of a shuffle changes no rows."""

    def declare() -> None:
        dp.materialized_view(name="texts")(lambda: texts("timestamp_seconds(id)", "string"))
        dp.materialized_view(name="numbers")(lambda: texts("concat('x', id)", "int"))

    def texts(column: str, kind: str) -> DataFrame:
        return SparkSession.active().range(1).selectExpr(f"CAST({column} AS {kind}) AS value")

    def run(zone: str, ansi: str, partitions: str) -> dict[str, FlowState]:
        settings = {"session.timeZone": zone, "ansi.enabled": ansi, "shuffle.partitions": partitions}
        configuration = {f"spark.sql.{key}": value for key, value in settings.items()}
        return states(world.pipeline(declare, configuration=configuration).run())

    run("UTC", "false", "1")
    assert (world.rows("texts"), world.rows("numbers")) == ([("1970-01-01 00:00:00",)], [(None,)])
    assert set(run("UTC", "false", "2").values()) == {FlowState.IDLE}
    assert run("Asia/Tokyo", "true", "1") == {"texts": FlowState.COMPLETED, "numbers": FlowState.FAILED}
    assert world.rows("texts") == [("1970-01-01 09:00:00",)]


FUNCTIONS = """
import pandas as pd
from pyspark import pipelines as dp
from pyspark.sql import functions as F

LIMIT = int(spark.conf.get("my.limit"))
KNOWN = {row.id for row in spark.range(LIMIT, LIMIT + 2).collect()}


class Rule:
    def __init__(self, least):
        self.least = least

    def keeps(self, value):
        return value >= self.least and value in KNOWN


RULE = Rule(LIMIT)


@F.udf("boolean")
def kept(value):
    return RULE.keeps(value)


def frames(parts):
    for part in parts:
        yield part[part.id >= LIMIT]


@F.udtf(returnType="id long")
class Limit:
    def eval(self):
        yield LIMIT,


@dp.materialized_view
def of_function():
    return spark.range(9).where(kept("id"))


@dp.materialized_view
def of_frames():
    return spark.range(5).mapInPandas(frames, "id long")


@dp.materialized_view
def of_table_function():
    return Limit.asDeterministic()()


@dp.materialized_view
def of_import():
    from helper import change

    return spark.range(1).select(change("id").alias("id"))


@dp.materialized_view
def of_module():
    import helper

    return spark.range(1).select(helper.change(F.udf(lambda value: value + helper.STEP, "long")("id")).alias("id"))


def late(value):
    from helper import STEP

    return value + STEP


@dp.materialized_view
def of_late_import():
    return spark.range(1).select(F.udf(late, "long")("id").alias("id"))


@dp.materialized_view
def of_broadcast():
    known = spark.sparkContext.broadcast({0: LIMIT})
    return spark.range(1).select(F.udf(lambda value: known.value[value], "long")("id").alias("id"))
"""
HELPER = """
from pyspark.sql import functions as F
STEP = {step}
change = F.udf(lambda value: value + {step}, "long")
"""


def test_views_follow_what_their_python_functions_hold(world: EngineWorld) -> None:
    """Values of the module, objects of its classes, and a module that the query or function imports; no broadcast."""
    file, helper = world.root / "module" / "file.py", world.root / "module" / "helper.py"
    file.parent.mkdir()
    file.write_text(FUNCTIONS)

    def run(limit: int, step: int) -> set[str]:
        helper.write_text(HELPER.format(step=step))
        made = Pipeline(
            name="functions", modules=[file], storage=world.root / "storage", schema="s", spark=world.spark,
            development=True, configuration={"my.limit": str(limit)},
        )  # fmt: skip
        return {name for name, state in states(made.run()).items() if state is FlowState.COMPLETED}

    assert len(run(1, 1)) == 7
    assert run(1, 1) == {"of_broadcast"}
    assert run(3, 1) == {"of_function", "of_frames", "of_table_function", "of_broadcast"}
    assert world.rows("of_function") == [(3,), (4,)]
    assert world.rows("of_frames") == [(3,), (4,)]
    assert world.rows("of_table_function") == [(3,)]
    assert world.rows("of_broadcast") == [(3,)]
    assert run(3, 5) == {"of_import", "of_module", "of_late_import", "of_broadcast"}
    assert [world.rows(name) for name in ("of_import", "of_module", "of_late_import")] == [[(5,)], [(10,)], [(5,)]]


def test_a_view_whose_rows_others_changed_is_computed_again(world: EngineWorld) -> None:
    """A change of its table that changes no row, such as a compaction, is none."""
    spark, names = world.spark, ("deleted", "inserted", "updated", "restored", "compacted", "altered")

    def declare() -> None:
        for name in names:
            dp.materialized_view(name=name)(lambda: spark.range(3))

    world.run(declare)
    spark.sql(f"DELETE FROM delta.`{world.path('restored')}` WHERE id = 1")
    assert states(world.run(declare))["restored"] is FlowState.COMPLETED
    for name, statement in {
        "deleted": "DELETE FROM {} WHERE id = 1",
        "inserted": "INSERT INTO {} VALUES (9)",
        "updated": "UPDATE {} SET id = 7 WHERE id = 1",
        "restored": "RESTORE TABLE {} TO VERSION AS OF 1",
        "compacted": "OPTIMIZE {}",
        "altered": "ALTER TABLE {} SET TBLPROPERTIES ('a' = 'b')",
    }.items():
        spark.sql(statement.format(f"delta.`{world.path(name)}`"))
    for idle in ({"compacted", "altered"}, set(names)):
        found = states(world.run(declare))
        assert {name for name, state in found.items() if state is FlowState.IDLE} == idle
        assert [world.rows(name) for name in names] == [[(0,), (1,), (2,)]] * len(names)
