"""Expectations: rows kept, dropped or rejected, and counted by name, in streams, views and once flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from framework.run.update.results import UpdateResult


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """A source with a valid row, an invalid one, and one for which the expectation is NULL."""
    made = EngineWorld(spark, tmp_path)
    made.feed([(1, 10), (2, -1), (3, None)], "id long, amount long")
    return made


def counts(result: UpdateResult, flow: str) -> dict[str, tuple[str, int, int]]:
    """Expectation -> (its dataset, rows that met it, rows that did not)."""
    found = next(each for each in result.flows if each.flow.table == flow)
    return {each.name: (each.dataset.table, each.passed, each.failed) for each in found.expectations}


def test_warned_rows_stay_dropped_rows_go_and_null_does_not_meet(world: EngineWorld) -> None:
    """Counted per name in the stream's own pass, by the view's expectations on the way too."""

    def declare() -> None:
        @dp.temporary_view
        @dp.expect("has an amount", "amount IS NOT NULL")
        def incoming() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.table
        @dp.expect("small", "amount < 5")
        @dp.expect_or_drop("positive", "amount > 0")
        def orders() -> DataFrame:
            return world.spark.readStream.table("incoming")

        @dp.materialized_view
        @dp.expect_or_drop("one", "id = 1")
        def view() -> DataFrame:
            return world.spark.read.format("delta").load(world.source())

        @dp.append_flow(target="orders", once=True)
        def backfill() -> DataFrame:
            return world.spark.createDataFrame([(8, 2), (9, -9)], "id long, amount long")

    result = world.run(declare)
    assert world.rows("orders") == [(1, 10), (8, 2)]
    assert world.rows("view") == [(1, 10)]
    assert counts(result, "orders") == {
        "has an amount": ("incoming", 2, 1), "small": ("orders", 1, 2), "positive": ("orders", 1, 2)
    }  # fmt: skip
    assert counts(result, "backfill") == {"small": ("orders", 2, 0), "positive": ("orders", 1, 1)}
    assert counts(result, "view") == {"one": ("view", 1, 2)}
    told = [event.details["flow_progress"] for event in world.events(type="flow_progress", dataset="view")]
    assert told[-1]["data_quality"] == {
        "dropped_records": 2,
        "expectations": [{"name": "one", "dataset": "main.s.view", "passed_records": 1, "failed_records": 2}],
    }


def test_a_view_that_is_read_twice_drops_rows_at_each_read_and_counts_them_once(world: EngineWorld) -> None:
    """A view joined with itself, and the union of two streams of one view."""

    def declare() -> None:
        @dp.temporary_view
        @dp.expect_or_drop("positive", "amount > 0")
        def valid() -> DataFrame:
            return world.spark.read.format("delta").load(world.source())

        @dp.temporary_view
        @dp.expect_or_drop("positive", "amount > 0")
        def incoming() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.materialized_view
        def pairs() -> DataFrame:
            return world.spark.sql("SELECT a.id, b.id AS other FROM valid a CROSS JOIN valid b")

        @dp.table
        def both() -> DataFrame:
            first, second = (world.spark.readStream.table("incoming") for _ in range(2))
            return first.union(second)

    result = world.run(declare)
    assert (world.rows("pairs"), world.rows("both")) == ([(1, 1)], [(1, 10), (1, 10)])
    assert counts(result, "pairs") == {"positive": ("valid", 1, 2)}
    assert counts(result, "both") == {"positive": ("incoming", 1, 2)}


def test_conditions_find_columns_that_the_query_drops_or_renames_in_its_last_step(world: EngineWorld) -> None:
    """As a filter behind the query does: in streams, views and groups; rows of a quarantine would lack the columns."""

    def declare() -> None:
        @dp.temporary_view
        @dp.expect_or_drop("has an amount", "amount IS NOT NULL")
        def ids() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source()).select("id")

        @dp.table
        @dp.expect("low", "id < 2")
        @dp.expect_or_drop("positive", "amount > 0 AND number < 9")
        def renamed() -> DataFrame:
            read = world.spark.readStream.format("delta").load(world.source())
            return read.withColumnRenamed("amount", "other").withColumnRenamed("id", "number")

        @dp.table
        def known() -> DataFrame:
            return world.spark.readStream.table("ids")

        @dp.materialized_view
        @dp.expect_or_drop("even", "rest = 0")
        def sums() -> DataFrame:
            read = world.spark.read.format("delta").load(world.source())
            return read.groupBy((read.id % 2).alias("rest")).sum("amount").select("sum(amount)").toDF("total")

        @dp.table(table_properties={"sluice.quarantine": "true"})
        @dp.expect_or_drop("positive", "amount > 0")
        def kept() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source()).drop("amount")

    result = world.run(declare)
    assert states(result)["kept"] is FlowState.FAILED
    assert [flow.error.condition for flow in result.flows if flow.error] == ["QUARANTINE_OF_DROPPED_COLUMNS"]
    assert (world.rows("renamed"), world.rows("known"), world.rows("sums")) == ([(1, 10)], [(1,), (2,)], [(-1,)])
    assert counts(result, "renamed") == {"low": ("renamed", 1, 2), "positive": ("renamed", 1, 2)}
    assert counts(result, "known") == {"has an amount": ("ids", 2, 1)}
    assert counts(result, "sums") == {"even": ("sums", 1, 1)}


def test_a_row_that_must_not_be_fails_the_flow_shows_itself_and_leaves_nothing(world: EngineWorld) -> None:
    """The batch is rolled back; the error has the expectation and the row; the other table completes."""

    def declare() -> None:
        @dp.table
        @dp.expect_or_fail("positive", "amount > 0")
        def strict() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        @dp.materialized_view
        @dp.expect_or_fail("positive", "amount > 0")
        def strict_view() -> DataFrame:
            return world.spark.read.format("delta").load(world.source()).where("id = 2")

        @dp.table
        def all_rows() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    result = world.run(declare)
    assert result.state is UpdateState.FAILED
    assert states(result) == {
        "strict": FlowState.FAILED, "strict_view": FlowState.FAILED, "all_rows": FlowState.COMPLETED
    }  # fmt: skip
    assert world.rows("strict") == []
    faults = {flow.flow.table: flow.error for flow in result.flows if flow.error is not None}
    assert {name: fault.condition for name, fault in faults.items()} == {
        "strict": "EXPECTATION_VIOLATION", "strict_view": "EXPECTATION_VIOLATION"
    }  # fmt: skip
    assert faults["strict"].fields["expectation"] == "positive"
    assert faults["strict_view"].fields["row"] == '{"id":2,"amount":-1}'
