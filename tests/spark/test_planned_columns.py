"""The plan shows the columns that a step adds or widens, and the update changes exactly these."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import pipelines as dp
from framework.foundation.failpoints import arm_all, disarm
from framework.plan.explainer import plan_json, plan_text
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import stored_schema
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

PAGE = (ROOT / "docs/running.md").read_text("utf-8")
ONE_BY_ONE = {"pipelines.maxParallelFlows": "1"}


def declared(world: EngineWorld, orders_query: tuple[str, ...], notes_query: tuple[str, ...]) -> Callable[[], object]:
    """A table whose types may widen, a view of it, and a table whose types stay."""

    def declare() -> None:
        @dp.table(table_properties={"delta.enableTypeWidening": "true"})
        def orders() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source()).selectExpr(*orders_query)

        @dp.materialized_view
        def totals() -> DataFrame:
            return world.spark.read.table("orders").drop("id").distinct()

        @dp.table
        def notes() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source()).selectExpr(*notes_query)

    return declare


def columns(world: EngineWorld, table: str) -> str:
    """The columns of a table, from its log."""
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in stored_schema(world.path(table)).fields)


def lines(text: str) -> list[str]:
    """The steps of a plan about columns, without the width of its columns."""
    return [" ".join(line.split()) for line in text.splitlines() if "; adds " in line or "; drops " in line]


def replaced(world: EngineWorld, table: str, *query: str) -> None:
    """Give a table of the pipeline other columns, as somebody else would."""
    writer = world.spark.range(0).selectExpr(*query).write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").save(world.path(table))


def test_an_update_changes_the_columns_that_its_plan_shows(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing else: a table that has other columns by then is refused, and the next plan shows what it needs."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a")], "n INT, word STRING")
    first = declared(world, ("n AS id", "named_struct('x', n) AS part"), ("n", "word"))
    assert world.run(first).state is UpdateState.COMPLETED
    second = declared(
        world, ("CAST(n AS BIGINT) AS id", "named_struct('x', CAST(n AS BIGINT), 'y', word) AS part", "word AS note"),
        ("n", "word", "array(named_struct('k', n)) AS list"),
    )  # fmt: skip
    plan = world.pipeline(second).plan()
    shown = lines(plan_text(plan))
    assert shown == [line for line in lines(PAGE) if line in shown]
    assert len(shown) == 3
    steps: Any = plan_json(plan)["steps"]
    assert next(step["change"]["widened"] for step in steps if step["dataset"] == "main.s.orders") == [
        {"path": ["id"], "before": "int", "after": "bigint", "was": []},
        {"path": ["part", "x"], "before": "int", "after": "bigint", "was": []},
    ]
    # The table is set up after the other one, whose columns widen: meanwhile somebody takes a column of it away.
    arm_all({("tables.after_wider_types", 1): lambda: replaced(world, "notes", "CAST(id AS INT) AS n")})
    result = world.pipeline(second, configuration=ONE_BY_ONE).run()
    disarm()
    (failed,) = [flow for flow in result.flows if flow.error is not None]
    assert failed.error is not None
    assert (failed.flow.table, failed.error.condition) == ("notes", "TABLE_CHANGED_SINCE_PLAN")
    assert failed.error.fields["change"] == "adds word string, list array<struct<k:int>>"
    assert columns(world, "notes") == "n int"
    assert columns(world, "orders") == "id bigint, part struct<x:bigint,y:string>, note string"
    assert columns(world, "totals") == "part struct<x:bigint,y:string>, note string"

    # The rebuild would drop a column that somebody adds meanwhile: it waits for a plan that says so.
    spark.sql(f"ALTER TABLE delta.`{world.path('orders')}` ADD COLUMNS (own INT)")
    arm_all({("rebuilds.after_begin", 1): lambda: replaced(world, "notes", "1 AS n", "2 AS own")})
    result = world.run(second, full_refresh=["notes"])
    disarm()
    assert {flow.flow.table: flow.error.condition for flow in result.flows if flow.error} == {
        "notes": "TABLE_CHANGED_SINCE_PLAN"
    }
    assert columns(world, "notes") == "n int, own int"
    (line,) = lines(plan_text(world.pipeline(second).plan()))
    assert line.startswith("publish rebuild 1 of notes all flows of the rebuild have completed; ")
    assert line.endswith("; adds word string, list array<struct<k:int>>; drops own")
    assert world.run(second).state is UpdateState.COMPLETED
    assert columns(world, "notes") == "n int, word string, list array<struct<k:int>>"
    assert columns(world, "orders") == "id bigint, part struct<x:bigint,y:string>, note string, own int"
