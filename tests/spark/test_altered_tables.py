"""Tables that somebody alters between the plan of an update and its steps, or by hand before it is planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from framework import pipelines as dp
from framework.engine.delta.computed_replacement import replace_and_compute
from framework.engine.delta.fed_replacement import replace_table
from framework.engine.delta.table_replacement import TableDefinition
from framework.engine.registry.private_part import TESTED, Product
from framework.foundation.failpoints import arm_all, disarm
from framework.foundation.table_address import TableAddress
from framework.plan.explainer import plan_text
from framework.run.update.results import FlowState
from tests.support.engine_world import EngineWorld, states
from tests.support.plain_tables import stored_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from framework.run.update.results import UpdateResult

ONE_BY_ONE = {"pipelines.maxParallelFlows": "1"}
WIDENS = {"delta.enableTypeWidening": "true"}
CHANGED = "TABLE_CHANGED_SINCE_PLAN"


def declared(world: EngineWorld, *, of_events: Sequence[str], of_notes: Sequence[str]) -> Callable[[], object]:
    """Two tables whose types may widen, set up one after the other, with views of the second one and of that view."""

    def source() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    def declare() -> None:
        @dp.table(table_properties=WIDENS)
        def events() -> DataFrame:
            return source().selectExpr(*of_events)

        @dp.table(table_properties=WIDENS)
        def notes() -> DataFrame:
            return source().selectExpr(*of_notes)

        @dp.materialized_view
        def all_notes() -> DataFrame:
            return world.spark.read.table("notes")

        @dp.materialized_view
        def distinct_notes() -> DataFrame:
            return world.spark.read.table("all_notes").distinct()

    return declare


def columns(world: EngineWorld, table: str) -> str:
    """The columns of a table, from its log."""
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in stored_schema(world.path(table)).fields)


def replaced(world: EngineWorld, table: str, *query: str) -> None:
    """Give a table of the pipeline other columns and no rows, as somebody else would."""
    writer = world.spark.range(0).selectExpr(*query).write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").save(world.path(table))


def faults(result: UpdateResult) -> dict[str, str]:
    """The condition of each table that failed."""
    return {flow.flow.table: flow.error.condition for flow in result.flows if flow.error is not None}


def step(world: EngineWorld, declare: Callable[[], object], what: str, **request: Any) -> str:
    """The line of a plan about one step."""
    text = plan_text(world.pipeline(declare).plan(**request))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return next(line for line in lines if line.startswith(what))


def test_a_table_with_another_type_than_planned_is_not_changed_in_part(spark: SparkSession, tmp_path: Path) -> None:
    """Neither widened nor extended. The next plan refuses it alone, until the column has its type back."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a")], "n INT, word STRING")
    first = declared(world, of_events=["n"], of_notes=["n", "word"])
    assert faults(world.run(first)) == {}
    second = declared(
        world, of_events=["CAST(n AS BIGINT) AS n"], of_notes=["CAST(n AS BIGINT) AS n", "word", "word AS more"]
    )
    arm_all({("tables.after_wider_types", 1): lambda: replaced(world, "notes", "1 AS n", "2 AS word")})
    result = world.pipeline(second, configuration=ONE_BY_ONE).run()
    disarm()
    assert faults(result) == {"notes": CHANGED, "all_notes": CHANGED}
    failed = next(flow.error for flow in result.flows if flow.error is not None)
    assert failed.fields["change"] == "adds more string; widens n from int to bigint; changes word from int to string"
    assert columns(world, "notes") == "n int, word int"
    assert columns(world, "all_notes") == "n int, word string"

    assert step(world, second, "refuse notes").endswith(
        "column word of its table has type int, and its flows have string"
    )
    world.feed([(2, "b")], "n INT, word STRING")
    assert faults(world.run(second)) == {"notes": "SCHEMA_CANNOT_EVOLVE"}
    assert world.rows("events") == [(1,), (2,)]
    replaced(world, "notes", "1 AS n", "'' AS word")
    assert faults(world.run(second)) == {}
    assert columns(world, "notes") == "n bigint, word string, more string"


def test_a_running_update_adds_no_column_that_its_plan_lacks(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's sink would put back a column that somebody drops; the next plan shows it."""
    world = EngineWorld(spark, tmp_path)
    declare = declared(world, of_events=["n"], of_notes=["n", "word"])
    world.feed([(1, "a")], "n INT, word STRING")
    assert faults(world.run(declare)) == {}
    world.feed([(2, "b")], "n INT, word STRING")
    arm_all({("appends.after_commit", 1): lambda: replaced(world, "notes", "1 AS n")})
    result = world.pipeline(declare, configuration=ONE_BY_ONE).run()
    disarm()
    assert faults(result) == {"notes": CHANGED}
    assert columns(world, "notes") == "n int"
    assert step(world, declare, "set up table notes").endswith("adds word string")
    assert faults(world.run(declare)) == {}
    assert world.rows("notes") == [(2, "b")]


def test_a_view_has_the_columns_of_the_code_only(spark: SparkSession, tmp_path: Path) -> None:
    """Not those that somebody adds to a table or a view that it reads, nor the wider types; a planned drop happens."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a"), (2, "b")], "n INT, word STRING")
    query = ["n", "named_struct('x', n) AS part"]
    declare = declared(world, of_events=["n"], of_notes=query)
    assert faults(world.run(declare)) == {}
    plain = "n int, part struct<x:int>"
    for table in ("notes", "all_notes", "distinct_notes"):
        name = f"delta.`{world.path(table)}`"
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS (own INT, part.y INT)")
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        spark.sql(f"ALTER TABLE {name} ALTER COLUMN n TYPE BIGINT")
    altered = "n bigint, part struct<x:int,y:int>, own int"
    forced = {"full_refresh": ["distinct_notes"]}
    shown = step(world, declare, "refresh view distinct_notes", **forced)
    assert shown.endswith("full refresh requested; drops part.y, own; changes n from bigint to int")
    assert faults(world.run(declare, **forced)) == {}
    assert columns(world, "distinct_notes") == plain
    assert columns(world, "all_notes") == columns(world, "notes") == altered
    assert step(world, declare, "skip events").endswith("no new data to read")
    assert "set up" not in plan_text(world.pipeline(declare).plan())

    world.feed([(3, "c")], "n INT, word STRING")
    assert faults(world.run(declare)) == {}
    assert [columns(world, each) for each in ("notes", "all_notes", "distinct_notes")] == [altered, plain, plain]
    assert world.rows("distinct_notes") == [(1, (1,)), (2, (2,)), (3, (3,))]


def test_a_full_refresh_of_a_view_that_did_not_happen_is_planned_again(spark: SparkSession, tmp_path: Path) -> None:
    """Although nobody asks for it again, and the view's inputs and its code are as they were."""
    world = EngineWorld(spark, tmp_path)
    declare = declared(world, of_events=["n"], of_notes=["n", "word"])
    world.feed([(1, "a")], "n INT, word STRING")
    assert faults(world.run(declare)) == {}
    world.feed([(2, "b")], "n INT, word STRING")
    name = f"delta.`{world.path('all_notes')}`"

    def alter() -> None:
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS (own INT)")

    arm_all({("appends.after_commit", 1): alter})
    result = world.pipeline(declare, configuration=ONE_BY_ONE).run(refresh=["events"], full_refresh=["all_notes"])
    disarm()
    assert faults(result) == {"all_notes": CHANGED}
    assert columns(world, "all_notes") == "n int, word string, own int"
    assert step(world, declare, "refresh view all_notes", refresh=["all_notes"]).endswith("; drops own")
    assert states(world.run(declare, refresh=["all_notes"])) == {"all_notes": FlowState.COMPLETED}
    assert columns(world, "all_notes") == "n int, word string"
    assert world.rows("all_notes") == [(1, "a")]


def test_the_columns_that_a_view_replaces_are_checked_in_the_transaction(spark: SparkSession, tmp_path: Path) -> None:
    """If the check fails, nothing is written; otherwise the table gets its columns and definition in one commit."""
    address = TableAddress(path=str(tmp_path))
    spark.sql(f"CREATE TABLE {address.sql} (id INT, own INT) USING delta")
    rows, seen = spark.range(1).selectExpr("id"), list[str]()
    definition = TableDefinition(properties={"p": "1"}, comment="c", partition_columns=())

    def check(stored: str) -> None:
        seen.append(stored)
        raise LookupError

    with pytest.raises(LookupError):
        replace_table(address, rows, definition, check=check, user_metadata="{}")
    assert "own" in seen[0]
    assert replace_table(address, rows, definition, check=seen.append, user_metadata="{}")
    versions = [row.version for row in spark.sql(f"DESCRIBE HISTORY {address.sql}").collect()]
    assert versions == [1, 0]
    detail = spark.sql(f"DESCRIBE DETAIL {address.sql}").first()
    assert detail is not None
    assert (detail["properties"], detail["description"], spark.table(address.sql).columns) == ({"p": "1"}, "c", ["id"])


def test_a_view_with_computed_columns_is_checked_before_it_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Also by an untested version of Delta: if the check fails, nothing is written; otherwise Delta computes them."""
    address = TableAddress(path=str(tmp_path))
    spark.sql(f"CREATE TABLE {address.sql} (id INT, twice INT GENERATED ALWAYS AS (id * 2)) USING delta")
    columns = stored_schema(str(tmp_path))
    definition = TableDefinition(properties={}, comment=None, partition_columns=())
    rows, seen = spark.sql("SELECT CAST(3 AS INT) AS id"), list[str]()

    def check(stored: str) -> None:
        seen.append(stored)
        raise LookupError

    for versions in (TESTED[Product.DELTA], frozenset[str]()):
        with pytest.MonkeyPatch.context() as swap:
            swap.setattr("framework.engine.delta.table_version._TESTED", versions)
            before = len(list(tmp_path.glob("_delta_log/*.json")))
            with pytest.raises(LookupError):
                replace_and_compute(address, rows, columns, definition, check=check, user_metadata="{}")
            assert len(list(tmp_path.glob("_delta_log/*.json"))) == before
            replace_and_compute(address, rows, columns, definition, check=seen.append, user_metadata="{}")
            assert len(list(tmp_path.glob("_delta_log/*.json"))) == before + 1
    assert [list(StructType.fromJson(json.loads(each)).names) for each in seen] == [["id", "twice"]] * 4
    assert [tuple(row) for row in spark.table(address.sql).collect()] == [(3, 6)]


def test_tables_and_views_get_a_column_of_timestamp_ntz(spark: SparkSession, tmp_path: Path) -> None:
    """Also a field of a struct: Delta enables the feature for these types only in new tables."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a")], "n INT, word STRING")
    at = "TIMESTAMP_NTZ'2026-01-01 00:00:00'"
    first = declared(world, of_events=["n"], of_notes=["n", "named_struct('x', n) AS part"])
    assert faults(world.run(first)) == {}
    second = declared(
        world, of_events=["n", f"{at} AS at"], of_notes=["n", f"named_struct('x', n, 'at', {at}) AS part"]
    )
    assert faults(world.run(second)) == {}
    assert columns(world, "events") == "n int, at timestamp_ntz"
    for table in ("notes", "all_notes", "distinct_notes"):
        assert columns(world, table) == "n int, part struct<x:int,at:timestamp_ntz>"


def test_a_table_that_was_widened_by_a_failed_update_takes_the_former_code(spark: SparkSession, tmp_path: Path) -> None:
    """With one more column: the table keeps the wider type, and its readers have the type of the code."""
    world = EngineWorld(spark, tmp_path)
    world.feed([(1, "a")], "n INT, word STRING")
    first = declared(world, of_events=["n"], of_notes=["n"])
    assert faults(world.run(first)) == {}

    def interrupt() -> None:
        raise InterruptedError

    arm_all({("tables.after_wider_types", 1): interrupt})
    assert "notes" in faults(world.run(declared(world, of_events=["n"], of_notes=["CAST(n AS BIGINT) AS n"])))
    disarm()
    assert columns(world, "notes") == "n bigint"
    third = declared(world, of_events=["n"], of_notes=["n", "word"])
    world.feed([(2, "b")], "n INT, word STRING")
    assert step(world, third, "set up table notes").endswith("; adds word string")
    assert faults(world.run(third)) == {}
    assert columns(world, "notes") == "n bigint, word string"
    assert columns(world, "all_notes") == "n int, word string"
    assert world.rows("all_notes") == [(1, None), (2, "b")]
