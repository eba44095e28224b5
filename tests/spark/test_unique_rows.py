"""Unique expectations: no two rows of a table share a key, in streams, once flows and views, also after a crash."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.foundation.errors import GraphErrors, UserError
from framework.foundation.failpoints import arm, disarm
from framework.plan.steps import RunFlow
from framework.run.update.results import FlowState, UpdateState
from tests.spark.test_quality import counts
from tests.support.engine_world import EngineWorld, states
from tests.support.interruption import stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROW = "id long, name string"


@pytest.fixture
def world(interpreting: SparkSession, tmp_path: Path) -> Iterator[EngineWorld]:
    """A source with two rows of one id, two without an id, and two names that differ in case."""
    made = EngineWorld(interpreting, tmp_path)
    made.feed([(1, "b"), (1, "a"), (2, "A"), (None, "n"), (None, "n"), (4, "d")], ROW)
    yield made
    disarm()


def declare(world: EngineWorld) -> None:
    """Tables that drop, count and refuse rows, one that two flows write to, and a view."""

    def incoming() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    dp.table(name="dropping")(dp.expect_or_drop("one id", "UNIQUE (id)")(incoming))
    dp.table(name="counting")(
        dp.expect("one name", "(unique(lower(name), 1))")(dp.expect_or_drop("has an id", "id IS NOT NULL")(incoming))
    )
    dp.table(name="strict")(dp.expect_or_fail("one name", "UNIQUE (name)")(lambda: incoming().where("id > 1")))
    dp.create_streaming_table(
        "several",
        expect_all_or_drop={"small": "id < 9 OR id IS NULL", "one id": "UNIQUE (id)", "one name": "UNIQUE (name)"},
    )
    dp.append_flow(target="several", name="live")(incoming)
    dp.append_flow(target="several", name="old", once=True)(
        lambda: world.spark.createDataFrame([(2, "z"), (3, "z"), (3, "y"), (9, "w")], ROW)
    )

    @dp.materialized_view
    @dp.expect("one name", "UNIQUE (lower(name))")
    @dp.expect_or_drop("one id", "UNIQUE (id)")
    @dp.expect_or_drop("has an id", "id IS NOT NULL")
    def view() -> DataFrame:
        return world.spark.read.format("delta").load(world.source())


def test_no_two_rows_of_a_table_share_a_key(world: EngineWorld) -> None:
    """Rows of the table come first, then the first ones of the batch; NULL repeats nothing; all are counted."""
    result = world.run(lambda: declare(world), refresh=["dropping", "counting", "strict", "view"])
    assert [flow.error for flow in result.flows if flow.error] == []
    assert world.rows("dropping") == [(1, "a"), (2, "A"), (4, "d"), (None, "n"), (None, "n")]
    assert world.rows("counting") == [(1, "a"), (1, "b"), (2, "A"), (4, "d")]
    assert world.rows("view") == [(1, "a"), (2, "A"), (4, "d")]
    assert world.rows("strict") == [(2, "A"), (4, "d")]
    assert counts(result, "dropping") == {"one id": ("dropping", 5, 1)}
    assert counts(result, "counting") == {"has an id": ("counting", 4, 2), "one name": ("counting", 3, 1)}
    assert counts(result, "strict") == {"one name": ("strict", 2, 0)}
    assert counts(result, "view") == {
        "one name": ("view", 5, 1), "one id": ("view", 5, 1), "has an id": ("view", 4, 2)
    }  # fmt: skip
    dropping = next(flow for flow in result.flows if flow.flow.table == "dropping")
    assert (dropping.rows_written, dropping.rows_dropped) == (5, 1)

    world.feed([(1, "new"), (5, "e"), (5, "e"), (6, "d")], ROW)
    plan = world.pipeline(lambda: declare(world)).plan(refresh=["dropping", "counting", "strict"])
    reasons = {step.flow.table: step.reason for step in plan.steps if isinstance(step, RunFlow)}
    assert re.fullmatch(
        r"its sources may have new rows; each batch is compared with the rows of the table in 1 file \(\d+ bytes\)"
        r": UNIQUE \(id\)",
        reasons["dropping"],
    )
    result = world.run(lambda: declare(world), refresh=["dropping", "counting", "strict"])
    assert states(result) == {
        "dropping": FlowState.COMPLETED, "counting": FlowState.COMPLETED, "strict": FlowState.FAILED
    }  # fmt: skip
    fault = next(flow.error for flow in result.flows if flow.error)
    assert (fault.condition, fault.fields["expectation"]) == ("EXPECTATION_VIOLATION", "one name")
    assert fault.fields["row"] in {'{"id":5,"name":"e"}', '{"id":6,"name":"d"}'}
    assert world.rows("dropping") == [(1, "a"), (2, "A"), (4, "d"), (5, "e"), (6, "d"), (None, "n"), (None, "n")]
    assert counts(result, "dropping") == {"one id": ("dropping", 2, 2)}
    assert counts(result, "counting") == {"has an id": ("counting", 4, 0), "one name": ("counting", 2, 2)}
    assert world.rows("strict") == [(2, "A"), (4, "d")]


def test_two_flows_of_a_table_see_each_others_rows(world: EngineWorld) -> None:
    """Whichever flow is first, no id and no name is there twice; a full refresh begins without rows."""
    for request in ({"refresh": ["several"]}, {"full_refresh": ["several"]}):
        result = world.run(lambda: declare(world), **request)
        assert [flow.error for flow in result.flows if flow.error] == []
        found = world.rows("several")
        ids, names = ([row[place] for row in found if row[place] is not None] for place in (0, 1))
        assert (sorted(ids), len(names)) == ([1, 2, 3, 4], len({*names}))
        assert [row for row in found if row[0] is None] == [(None, "n")]
        failed = [counts(result, flow)["one id"][2] + counts(result, flow)["one name"][2] for flow in ("live", "old")]
        assert sum(failed) == 4


def test_a_batch_that_runs_again_does_not_repeat_itself(world: EngineWorld) -> None:
    """Its rows are in the table, but its stream or the record of its once flow does not know it."""
    for failpoint in ("appends.after_commit", "run.before_once_mark"):
        arm(failpoint, action=stop)
        assert world.run(lambda: declare(world), refresh=["several"]).state is UpdateState.FAILED
        disarm()
    result = world.run(lambda: declare(world), refresh=["several"])
    assert [flow.error for flow in result.flows if flow.error] == []
    ids = [row[0] for row in world.rows("several")]
    assert sorted(ids, key=repr) == [1, 2, 3, 4, None]
    world.feed([(7, "g")], ROW)
    assert world.run(lambda: declare(world), refresh=["dropping", "several", "counting"]).state is UpdateState.COMPLETED
    assert (7, "g") in world.rows("several")


def test_repeated_rows_are_quarantined_and_go_to_their_table_when_the_key_is_free(world: EngineWorld) -> None:
    """A replay compares them with the table as it is then, and with each other."""

    def quarantining() -> None:
        @dp.table(table_properties={"sluice.quarantine": "true"})
        @dp.expect_or_drop("one id", "UNIQUE (id)")
        @dp.expect_or_drop("not A", "name <> 'A'")
        def kept() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    world.feed([(2, "c"), (4, "e"), (4, "f")], ROW)
    result = world.run(quarantining)
    assert [flow.error for flow in result.flows if flow.error] == []
    rows = [(1, "a"), (2, "c"), (4, "d"), (None, "n"), (None, "n")]
    assert world.rows("kept") == rows
    pipeline = world.pipeline(quarantining)
    found = {(each.reasons, each.rows) for each in pipeline.quarantine.list()}
    assert found == {(("one id",), 3), (("not A",), 1)}
    assert counts(result, "kept") == {"one id": ("kept", 5, 3), "not A": ("kept", 8, 1)}
    done = pipeline.quarantine.replay("kept")
    assert (done.passed, done.failed_by_reasons) == (0, ((("not A",), 1), (("one id",), 3)))
    world.spark.sql(f"DELETE FROM delta.`{world.path('kept')}` WHERE id = 4")
    done = pipeline.quarantine.replay("kept")
    assert (done.passed, done.failed_by_reasons) == (1, ((("not A",), 1), (("one id",), 2)))
    assert [row[0] for row in world.rows("kept")].count(4) == 1


KEYS: dict[str, tuple[str, Any, Any]] = {
    "a_byte": ("tinyint", -128, 127), "a_short": ("smallint", 1, 2), "an_int": ("int", -1, 1),
    "a_decimal": ("decimal(38,10)", Decimal("1.0000000001"), Decimal("1.0000000002")),
    "a_double": ("double", float("nan"), 0.0), "a_float": ("float", float("inf"), float("-inf")),
    "a_flag": ("boolean", True, False), "a_binary": ("binary", bytearray(b"\x00"), bytearray(b"\x00\x00")),
    "a_text": ("string", "", " "),
    "a_day": ("date", date(1, 1, 1), date(9999, 12, 31)),
    "a_time": ("timestamp", datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)),
    "a_clock": ("timestamp_ntz", datetime(2026, 1, 1, 0, 0, 0, 7), datetime(2026, 1, 1)),  # noqa: DTZ001 - without a zone
    "a_struct": ("struct<x:int,y:string>", (1, None), (1, "a")), "an_array": ("array<int>", [1, None], [None, 1]),
    "`a.dotted`": ("int", 1, 2),
}  # fmt: skip


def test_keys_have_any_type_that_can_be_compared(interpreting: SparkSession, tmp_path: Path) -> None:
    """Of equal and different values of each type, in one batch and in two; -0.0 is 0.0, a NaN is a NaN."""
    world = EngineWorld(interpreting, tmp_path)
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _, _) in KEYS.items())
    same, other = ([values[place] for values in KEYS.values()] for place in (1, 2))

    names = [name.strip("`") for name in KEYS]

    def keyed() -> None:
        @dp.table
        @dp.expect_all({name.strip("`"): f"UNIQUE ({name})" for name in KEYS})
        @dp.expect("all", f"UNIQUE ({', '.join(KEYS)})")
        def found() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

    def feed(*rows: list[Any]) -> None:
        frame = interpreting.createDataFrame([tuple(row) for row in rows], ddl)
        frame = frame.withColumn("a_double", F.when(F.col("a_double") == 0, F.lit(-0.0)).otherwise(F.col("a_double")))
        frame.coalesce(1).write.format("delta").mode("append").save(world.source())

    feed(same, other, same, [None] * len(KEYS))
    first = world.run(keyed)
    assert [flow.error for flow in first.flows if flow.error] == []
    assert counts(first, "found") == dict.fromkeys(("all", *names), ("found", 3, 1))
    feed(other, same, [None] * len(KEYS))
    assert counts(world.run(keyed), "found") == dict.fromkeys(("all", *names), ("found", 1, 2))


REFUSED = {
    "a view": ("UNIQUE (id)", "a temporary view has none"), "changes": ("UNIQUE (id)", "not checked for changes"),
    "no key": ("UNIQUE ()", "no column"), "an unknown column": ("UNIQUE (nobody)", "nobody"),
    "a map": ("UNIQUE (tags)", "MAP"), "a part of a condition": ("UNIQUE (id) AND id > 0", "UNIQUE"),
}  # fmt: skip


def test_what_can_t_be_compared_is_refused_with_its_line(world: EngineWorld) -> None:
    """Each fault is one error of the graph, before any row is read."""

    def wrong() -> None:
        def tagged() -> DataFrame:
            rows = world.spark.readStream.format("delta").load(world.source())
            return rows.withColumn("tags", F.create_map(F.lit(1), "name"))

        for name, (condition, _) in REFUSED.items():
            if name == "changes":
                dp.create_streaming_table("changes", expect_all={"k": condition})
                dp.create_auto_cdc_flow(target="changes", source="rows", keys=["id"], sequence_by="id")
            else:
                declare = dp.temporary_view if name == "a view" else dp.table
                declare(name=name.replace(" ", "_"))(dp.expect("k", condition)(tagged))
        dp.temporary_view(name="rows")(tagged)

    with pytest.raises(GraphErrors) as raised:
        world.run(wrong)
    told = {str(each.fields["dataset"]).rpartition(".")[2].strip("`"): each for each in raised.value.errors}
    assert {each.condition for each in told.values()} == {"EXPECTATION_INVALID"}
    assert {name for name, (_, text) in REFUSED.items() if text not in told[name.replace(" ", "_")].what} == set()
    assert all(isinstance(each, UserError) and each.location is not None for each in told.values())
