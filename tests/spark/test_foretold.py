"""What `plan` foretells of a checkpoint is what Spark does: one table of changes, and one run for each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.plan import planner
from framework.plan.steps import RunFlow
from framework.run.update import flow_attempts
from framework.run.update.results import FlowState, UpdateResult
from tests.support.engine_world import EngineWorld, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Query = Callable[[DataFrame], DataFrame]

OPERATORS = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
KEYS = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
VALUES = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
SOURCES = "STREAMING_SOURCES_CHANGED"


def timed(rows: DataFrame) -> DataFrame:
    """Rows with a watermark."""
    return rows.withWatermark("at", "1 hour")


def plain(rows: DataFrame) -> DataFrame:
    """The rows as they are."""
    return rows.select("id", "kind")


def deduplicated(*columns: str) -> Query:
    """The rows without duplicates of the columns."""
    return lambda rows: rows.dropDuplicates(list(columns) or None).select("id", "kind")


def within_watermark(rows: DataFrame) -> DataFrame:
    """The rows without duplicates of a kind within the watermark."""
    return timed(rows).dropDuplicatesWithinWatermark(["kind"]).select("id", "kind")


def counts(*keys: str, value: str = "count(*)") -> Query:
    """The number of rows by hour and keys."""
    return lambda rows: timed(rows).groupBy(F.window("at", "1 hour"), *keys).agg(F.expr(f"{value} AS n")).select("n")


def joined(*columns: str) -> Query:
    """The rows joined with themselves."""
    return lambda rows: (
        timed(rows).alias("a").join(timed(rows).alias("b"), [*columns]).select(F.col("a.id"), F.col("a.kind"))
    )


def counted_and_deduplicated(rows: DataFrame) -> DataFrame:
    """A chain of two stateful operators."""
    once = timed(rows).dropDuplicates(["id", "at"])
    return once.groupBy(F.window("at", "1 hour"), "kind").agg(F.count("*").alias("n")).select("n")


def twice(rows: DataFrame) -> DataFrame:
    """Two sources."""
    return rows.union(rows).select("id", "kind")


def once_more(query: Query) -> Query:
    """The same query of other rows."""
    return lambda rows: query(rows.where("id >= 0"))


@dataclass(frozen=True, kw_only=True)
class Change:
    """A query that wrote a checkpoint, the one that continues, and how that ends: a condition, or "" if it runs.

    `missed`: the plan does not foretell it. A stand-in has no reliable nullability, and a false alarm is worse.
    """

    before: Query
    after: Query
    ends: str = ""
    missed: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


CHANGES = {
    "dropDuplicates removed": Change(before=deduplicated("id"), after=plain, ends=OPERATORS),
    "dropDuplicates added": Change(before=plain, after=deduplicated("id"), ends=NO_STATE),
    "dropDuplicates of another type": Change(before=deduplicated("id"), after=deduplicated("kind"), ends=KEYS),
    "dropDuplicates of more columns": Change(before=deduplicated("id"), after=deduplicated("id", "kind"), ends=KEYS),
    "dropDuplicates of all columns": Change(before=deduplicated("id"), after=deduplicated(), ends=KEYS),
    "dropDuplicates of a column of the same type": Change(before=deduplicated("id"), after=deduplicated("other")),
    "dropDuplicates within a watermark": Change(before=deduplicated("id"), after=within_watermark, ends=OPERATORS),
    "aggregation removed": Change(before=counts("kind"), after=lambda rows: rows.selectExpr("id AS n"), ends=OPERATORS),
    "aggregation added": Change(before=lambda rows: rows.selectExpr("id AS n"), after=counts("kind"), ends=NO_STATE),
    "aggregation with another key": Change(before=counts("kind"), after=counts("kind", "id"), ends=KEYS),
    "aggregation with a key of another type": Change(before=counts("kind"), after=counts("id"), ends=KEYS),
    "aggregation with another value": Change(
        before=counts("kind"), after=counts("kind", value="bigint(length(max(kind)))"), ends=VALUES
    ),
    "aggregation of the same shape": Change(before=counts("kind"), after=counts("kind", value="count(other)")),
    "aggregation with a value that may be null": Change(
        before=counts("kind"), after=counts("kind", value="sum(id)"), ends=VALUES, missed=True
    ),
    "join removed": Change(before=joined("id", "at"), after=plain, ends=SOURCES),
    "join kept": Change(before=joined("id", "at"), after=once_more(joined("id", "at"))),
    "chain shortened": Change(before=counted_and_deduplicated, after=counts("kind"), ends=OPERATORS),
    "chain kept": Change(before=counted_and_deduplicated, after=once_more(counted_and_deduplicated)),
    "source added": Change(before=plain, after=twice, ends=SOURCES),
    "source removed": Change(before=twice, after=plain, ends=SOURCES),
    "nothing but a filter": Change(before=plain, after=once_more(plain)),
    "number of shuffle partitions": Change(
        before=deduplicated("id"), after=deduplicated("id"), settings={"spark.sql.shuffle.partitions": "3"}
    ),
    "provider of the state store": Change(
        before=deduplicated("id"),
        after=deduplicated("id"),
        settings={
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            )
        },
    ),
}
DDL = "id LONG, other LONG, kind STRING, at TIMESTAMP"


def declare(world: EngineWorld, *, changed: bool) -> None:
    """One table for each change, with its query before or after the change."""
    for number, change in enumerate(CHANGES.values()):
        settings = change.settings if changed else {}

        def query(change: Change = change) -> DataFrame:
            rows = world.spark.readStream.format("delta").load(world.source())
            return (change.after if changed else change.before)(rows)

        dp.table(name=f"t{number}", spark_conf=dict(settings))(query)


@pytest.fixture
def world(interpreting: SparkSession, tmp_path: Path) -> EngineWorld:
    """A source table with rows that no query has read."""
    world = EngineWorld(interpreting, tmp_path)
    feed(world, 1)
    return world


def feed(world: EngineWorld, first: int) -> None:
    """Append three rows."""
    rows = [(n, n, f"k{n % 2}", datetime(2025, 1, 1, n, tzinfo=UTC)) for n in range(first, first + 3)]
    world.feed(rows, "id LONG, other LONG, kind STRING, at TIMESTAMP")


def ends(result: UpdateResult) -> dict[str, str]:
    """The condition with which the flow of each change failed; "" if it completed."""
    errors = {flow.flow.table: flow.error.condition if flow.error is not None else "" for flow in result.flows}
    return {what: errors[f"t{number}"] for number, what in enumerate(CHANGES)}


def test_what_is_foretold_fails_and_what_is_not_foretold_runs(world: EngineWorld, swap: pytest.MonkeyPatch) -> None:
    """For each change of the table, the plan names the condition that Spark raises, and nothing where Spark runs.

    An update refuses what is foretold. The second one ignores that, so that Spark says how each change ends.
    """
    before = world.run(lambda: declare(world, changed=False))
    assert set(ends(before).values()) == {""}, [flow.error for flow in before.flows if flow.error]
    feed(world, 4)
    changed = world.pipeline(lambda: declare(world, changed=True))
    steps = {step.flow.table: step.broken for step in changed.plan().steps if isinstance(step, RunFlow)}
    foretold = {what: steps[f"t{number}"] for number, what in enumerate(CHANGES)}
    expected = {what: change.ends for what, change in CHANGES.items()}
    assert {what: broken.condition if broken is not None else "" for what, broken in foretold.items()} == {
        what: "" if change.missed else change.ends for what, change in CHANGES.items()
    }
    refused = [f"t{number}" for number, broken in enumerate(foretold.values()) if broken is not None]
    assert {flow.flow.table: flow.error and flow.error.condition for flow in changed.run(refresh=refused).flows} == {
        f"t{number}": change.ends for number, change in enumerate(CHANGES.values()) if f"t{number}" in refused
    }
    swap.setattr(planner, "foretell", lambda *_: None)
    swap.setattr(flow_attempts, "foretell", lambda *_: None)
    assert ends(changed.run()) == expected


STATEFUL: Mapping[str, Query] = {
    "once": lambda rows: timed(rows).dropDuplicates(["id"]).select("id"),
    "counts": lambda rows: counts("kind")(rows).select(F.col("n").alias("id")),
    "pairs": lambda rows: joined("id", "at")(rows).select("id"),
    "chain": lambda rows: counted_and_deduplicated(rows).select(F.col("n").alias("id")),
}


def declare_stateful(world: EngineWorld, *, fails: bool) -> None:
    """A table for each stateful query; before their repair, rows fail in the tasks that read them."""
    for name, query in STATEFUL.items():

        def rows(query: Query = query) -> DataFrame:
            rows = world.spark.readStream.format("delta").load(world.source())
            other = F.expr("CAST(kind AS LONG)") if fails else F.lit(0)
            return query(rows.where(other >= 0))

        dp.table(name=name)(rows)


def test_a_first_batch_that_failed_tells_its_cause_and_runs_once_it_is_repaired(world: EngineWorld) -> None:
    """Spark has made the folder of one partition of the state before the tasks that failed: that is no damage."""
    failing = world.pipeline(lambda: declare_stateful(world, fails=True))
    told = {flow.flow.table: str(flow.error) for flow in failing.run().flows}
    assert {name for name, error in told.items() if "[CAST_INVALID_INPUT]" in error} == set(STATEFUL), told
    state = world.root / "storage/checkpoints/main.s.once/main.s.once/1/state/0"
    assert {path.name for path in state.iterdir()} == {"0", "_metadata"}
    steps = [step for step in failing.plan().steps if isinstance(step, RunFlow)]
    assert [step.broken for step in steps] == [None] * len(STATEFUL)
    assert {each.diagnosis.name for each in failing.doctor.examine().findings} == {"ROW_NOT_USABLE"}
    feed(world, 7)
    repaired = world.run(lambda: declare_stateful(world, fails=False))
    assert set(states(repaired).values()) == {FlowState.COMPLETED}
    ids, closed_hours = [(1,), (2,), (3,), (7,), (8,), (9,)], [(1,)] * 4
    assert {name: world.rows(name) for name in STATEFUL} == {
        "once": ids, "pairs": ids, "counts": closed_hours, "chain": closed_hours
    }  # fmt: skip


def declare_chain(world: EngineWorld) -> None:
    """Two readers of the source, and one of the first reader's table, whose log has a checkpoint every two commits."""

    @dp.table(table_properties={"delta.checkpointInterval": "2"})
    def bronze() -> DataFrame:
        return world.spark.readStream.format("delta").option("failOnDataLoss", "false").load(world.source())

    @dp.table
    def silver() -> DataFrame:
        return world.spark.readStream.table("bronze")

    @dp.table
    def copy() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())


def test_lost_positions_and_replaced_tables_are_foretold(world: EngineWorld, swap: pytest.MonkeyPatch) -> None:
    """A log that was cleaned beyond the position fails its reader, and another table at the path fails all of its."""
    pipeline = world.pipeline(lambda: declare_chain(world))

    def foretold() -> dict[str, str]:
        steps = [step for step in pipeline.plan().steps if isinstance(step, RunFlow) and step.broken is not None]
        return {step.flow.table: step.broken.condition for step in steps if step.broken is not None}

    def failed() -> dict[str, str]:
        with swap.context() as patch:
            patch.setattr(planner, "foretell", lambda *_: None)
            return {flow.flow.table: flow.error.condition for flow in pipeline.run().flows if flow.error is not None}

    assert failed() == {}
    for first in (4, 7, 10):
        feed(world, first)
        pipeline.run(refresh=["bronze"])
    assert foretold() == {}
    for version in range(4):
        Path(world.path("bronze"), "_delta_log", f"{version:020d}.json").unlink()
    lost = {"silver": "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"}
    assert (foretold(), failed()) == (lost, lost)
    shutil.rmtree(world.source())
    feed(world, 20)
    replaced = dict.fromkeys(("bronze", "copy"), "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE")
    assert foretold() == {**lost, **replaced}
    assert {flow: each for flow, each in failed().items() if flow in replaced} == replaced
