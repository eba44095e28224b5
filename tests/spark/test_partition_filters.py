"""A flow that reads some partitions of a Delta table runs for their new rows, misses none, and is else skipped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework import pipelines as dp
from framework.checkpoints.generations import GenerationStore
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphFlow, Read
from framework.plan.explainer import explain
from framework.run.update.results import FlowState
from framework.sources.delta import unread
from framework.sources.delta.log import read_tip
from framework.sources.delta.source import DeltaSource, table_source
from framework.sources.port import SourcePosition
from tests.spark.test_continuous import OFTEN, started
from tests.support.engine_world import EngineWorld, states
from tests.support.running_updates import Watched, until

if TYPE_CHECKING:
    from framework import Pipeline

Case = Callable[[DataFrame], DataFrame]

ODD = "ä b/%20=,'\\\n#"
ROWS = (
    ("public.t17", 17, date(2026, 1, 2), True),
    ("Public.T17", -17, date(2026, 1, 3), False),
    (ODD, 0, date(1969, 12, 31), None),
    (None, None, None, True),
    ("", 17, date(2026, 1, 2), False),
    ("NULL", 2**31 - 1, date(9999, 12, 31), True),
    ("O'Neil", -(2**31), date(1, 1, 1), False),
    ("public.t17", 18, None, None),
    (" 17", 0, date(2026, 1, 4), True),
)
"""The partition values s, n, day and flag of one commit each."""

SUPPORTED: Mapping[str, tuple[Case, str]] = {
    "equal": (lambda f: f.where("s = 'public.t17'"), "s = public.t17"),
    "reversed": (lambda f: f.where("'O''Neil' = s"), "s = O'Neil"),
    "other case": (lambda f: f.where(F.col("S") == "Public.T17"), "s = Public.T17"),
    "odd characters": (lambda f: f.where(F.col("s") == ODD), f"s = {ODD}"),
    "no such value": (lambda f: f.where("s = 'public.t18'"), "s = public.t18"),
    "word NULL": (lambda f: f.where("s = 'NULL'"), "s = NULL"),
    "one of": (lambda f: f.where(F.col("s").isin("b", " 17")), "s in ( 17, b)"),
    "one of one": (lambda f: f.where("n IN (-17)"), "n = -17"),
    "null-safe": (lambda f: f.where("s <=> 'public.t17'"), "s = public.t17"),
    "null": (lambda f: f.where("s IS NULL"), "s = NULL"),
    "no integer": (lambda f: f.where("n IS NULL"), "n = NULL"),
    "and more": (lambda f: f.where("s = 'public.t17' AND v > 3 AND rand() < 2"), "s = public.t17"),
    "both": (lambda f: f.where("s = 'public.t17' AND n = 18"), "s = public.t17, n = 18"),
    "one after the other": (lambda f: f.where("flag = true").select("*").where("n = 17"), "flag = true, n = 17"),
    "contradiction": (lambda f: f.where("s = 'a' AND s = 'public.t17'"), "s = a"),
    "before a change": (lambda f: f.where("s = 'NULL'").withColumn("s", F.lit("other")), "s = NULL"),
    "integer": (lambda f: f.where("n = 17"), "n = 17"),
    "wide integer": (lambda f: f.where("n = 17L"), "n = 17"),
    "integer as text": (lambda f: f.where("n = '-17'"), "n = -17"),
    "integer beyond": (lambda f: f.where("n = 99999999999"), "n = 99999999999"),
    "smallest integer": (lambda f: f.where(F.col("n") == -(2**31)), "n = -2147483648"),
    "day": (lambda f: f.where("day = DATE'2026-01-02'"), "day = 2026-01-02"),
    "day as text": (lambda f: f.where("day = '1969-12-31'"), "day = 1969-12-31"),
    "first and last day": (
        lambda f: f.where("day IN (DATE'9999-12-31', DATE'0001-01-01')"),
        "day in (0001-01-01, 9999-12-31)",
    ),
    "flag": (lambda f: f.where("flag = false"), "flag = false"),
}
"""Queries and the conditions that count."""

UNSUPPORTED: Mapping[str, Case] = {
    "all": lambda f: f,
    "or": lambda f: f.where("s = 'public.t17' OR n = 0"),
    "not": lambda f: f.where("NOT s = 'public.t17'"),
    "not in": lambda f: f.where("s NOT IN ('public.t17')"),
    "less": lambda f: f.where("n < 0"),
    "pattern": lambda f: f.where("s LIKE 'public%'"),
    "function": lambda f: f.where("lower(s) = 'public.t17'"),
    "collation": lambda f: f.where("s = 'PUBLIC.T17' COLLATE UTF8_LCASE"),
    "computed literal": lambda f: f.where("s = concat('public', '.t17')"),
    "today": lambda f: f.where("day = current_date()"),
    "short day": lambda f: f.where("day = '2026-1-2'"),
    "moment": lambda f: f.where("day = TIMESTAMP'2026-01-02 00:00:00'"),
    "decimal": lambda f: f.where("n = 17.0"),
    "integer with a space": lambda f: f.where("n = ' 17'"),
    "text as integer": lambda f: f.where("try_cast(s AS INT) = 17"),
    "null among": lambda f: f.where("s IN ('public.t17', NULL)"),
    "equal to null": lambda f: f.where("s = CAST(NULL AS STRING)"),
    "empty": lambda f: f.where("s = ''"),
    "flag itself": lambda f: f.where("flag"),
    "no partition column": lambda f: f.where("v = 3"),
    "changed before": lambda f: f.withColumn("s", F.lower("s")).where("s = 'public.t17'"),
    "renamed": lambda f: f.withColumnRenamed("s", "name").where("name = 'O''Neil'"),
    "selected": lambda f: f.select("v", F.col("s").alias("x")).alias("r").where("r.x = 'NULL'"),
    "exploded": lambda f: f.withColumn("each", F.explode(F.array("v"))).where("s = 'public.t17'"),
    "two streams": lambda f: f.where("s = 'public.t17'").union(f.where("s = 'NULL'")),
    "two equal streams": lambda f: f.where("s = 'NULL'").union(f.where("s = 'NULL'")),
}
"""Queries without a condition that counts."""

CASES = {**{name: case for name, (case, _) in SUPPORTED.items()}, **UNSUPPORTED}


def conditions(flow: GraphFlow) -> str:
    """The conditions on the streams of a flow."""
    return ", ".join(dict.fromkeys(str(condition) for read in flow.reads for condition in read.only))


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> EngineWorld:
    """An empty world."""
    return EngineWorld(spark, tmp_path)


def partitioned(spark: SparkSession, path: str) -> None:
    """A table of one commit for each of `ROWS`, with its version as `v`: Spark's one commit is divided into them."""
    ddl = "s STRING, n INT, day DATE, flag BOOLEAN, v INT"
    rows = spark.createDataFrame([(*row, version) for version, row in enumerate(ROWS)], ddl)
    rows.write.format("delta").partitionBy("s", "n", "day", "flag").save(path)
    log = Path(path, "_delta_log")
    lines = (log / f"{0:020d}.json").read_text("utf-8").splitlines(keepends=True)
    adds = {line: json.loads(line)["add"] for line in lines if '"add"' in line}
    files = {json.loads(add["stats"])["minValues"]["v"]: line for line, add in adds.items()}
    for version in range(len(ROWS)):
        others = [line for line in lines if line not in adds and (version == 0 or '"commitInfo"' in line)]
        (log / f"{version:020d}.json").write_text("".join([*others, files[version]]), "utf-8")
    for checksum in log.glob("*.crc"):
        checksum.unlink()


def cases_of(world: EngineWorld, path: str) -> None:
    """Each query over a table of the pipeline and over a path, and one of them in SQL and through a view."""
    spark = world.spark

    @dp.table(partition_cols=["s", "n", "day", "flag"])
    def log() -> DataFrame:
        return spark.readStream.format("delta").load(path)

    @dp.temporary_view
    def seen() -> DataFrame:
        return spark.readStream.table("log").where("s = 'public.t17'")

    def declare(number: int, case: Case) -> None:
        dp.table(name=f"t{number}")(lambda: case(spark.readStream.table("log")))
        dp.table(name=f"p{number}")(lambda: case(spark.readStream.format("delta").load(path)))

    for number, case in enumerate(CASES.values()):
        declare(number, case)
    dp.table(name="by_sql")(lambda: spark.sql("SELECT v FROM STREAM log WHERE s = 'public.t17'"))
    dp.table(name="by_view")(lambda: spark.readStream.table("seen").where("n = 17"))


def test_no_query_misses_a_row_and_simple_ones_read_their_partitions_only(world: EngineWorld) -> None:
    """From each version on, a query with unread rows runs, and one whose conditions count runs for its rows only."""
    path = world.source()
    partitioned(world.spark, path)
    graph = world.pipeline(lambda: cases_of(world, path)).graph
    flows = {flow.spec.name.table: flow for flow in graph.flows}
    wanted = {name: text for name, (_, text) in SUPPORTED.items()} | dict.fromkeys(UNSUPPORTED, "")
    assert {name: conditions(flows[f"t{n}"]) for n, name in enumerate(CASES)} == wanted
    assert {name: conditions(flows[f"p{n}"]) for n, name in enumerate(CASES)} == {
        **wanted,
        "no partition column": "v = 3",
    }
    assert conditions(flows["by_sql"]) == "s = public.t17"
    assert conditions(flows["by_view"]) == "s = public.t17, n = 17"

    stored = world.spark.read.format("delta").load(path)
    rows = world.spark.createDataFrame(stored.collect(), stored.schema)
    found = [case(rows).select(F.lit(name), "v") for name, case in CASES.items()]
    matching = {tuple(row) for row in reduce(DataFrame.union, found).collect()}
    last = {name: max((v for case, v in matching if case == name), default=-1) for name in CASES}
    assert min(last[name] for name in ("equal", "odd characters", "null", "day", "wide integer")) >= 0
    for number, name in enumerate(CASES):
        runs = {v for v in range(1, len(ROWS)) if not skipped(world, flows[f"p{number}"], v)}
        needed = set(range(1, (last[name] if wanted[name] else len(ROWS) - 1) + 1))
        # The log is remembered by column, so two conditions may meet in two commits: that costs a run.
        assert needed <= runs if "," in wanted[name] else needed == runs, name


def skipped(world: EngineWorld, flow: GraphFlow, version: int) -> bool:
    """Whether a flow that has read to a version, and knows all commits before it, is skipped."""
    (read,) = {Read(text="", streaming=True, path=read.path, only=read.only) for read in flow.reads}
    storage = LocalStorage(str(world.root))
    tip = read_tip(storage, str(read.path))
    assert tip is not None
    offset = {"reservoirId": tip.table_id, "reservoirVersion": version, "index": -1, "isStartingVersion": False}
    position = SourcePosition(
        storage=storage, checkpoint="c", sources=(table_source(str(read.path), read.only),),
        offsets=(json.dumps(offset),), source_count=1,
    )  # fmt: skip
    if not storage.exists("c"):
        assert version == 1  # the flow is asked about its versions in order
        DeltaSource().remember(position)
    return DeltaSource().is_drained(position) is True


def targets(world: EngineWorld) -> None:
    """A table of changes, a target by appending and a target by AUTO CDC."""
    spark = world.spark

    @dp.table(partition_cols=["source_table"])
    def changes() -> DataFrame:
        return spark.readStream.format("delta").load(world.source())

    @dp.table
    def one() -> DataFrame:
        return spark.readStream.table("changes").where("source_table = 'one'").select("id", "at")

    @dp.temporary_view
    def of_two() -> DataFrame:
        return spark.readStream.table("changes").where("source_table = 'two'").select("id", "at")

    dp.create_streaming_table("two")
    dp.create_auto_cdc_flow(target="two", source="of_two", keys=["id"], sequence_by="at", name="follow")


def reasons(pipeline: Pipeline) -> dict[str, str]:
    """The reason of each step of the plan for a flow."""
    return {step.what: step.reason for step in explain(pipeline.plan())}


def batches(world: EngineWorld, dataset: str, flow: str) -> int:
    """How many batches a flow has committed."""
    target, name = (QualifiedName(catalog="main", schema="s", table=table) for table in (dataset, flow))
    folder = GenerationStore(LocalStorage(str(world.root / "storage"))).path(target, name, 1)
    return len([name for name in Path(folder, "commits").iterdir() if name.name.isdecimal()])


def test_an_update_runs_the_flows_whose_partitions_moved(world: EngineWorld, swap: pytest.MonkeyPatch) -> None:
    """The other flow stays behind the log; later it reads all of its rows, and none twice."""
    ddl = "source_table STRING, id INT, at INT"
    world.feed([("one", 1, 1), ("two", 1, 1)], ddl)
    world.run(lambda: targets(world))
    world.feed([("one", 2, 2)], ddl)
    second = states(world.run(lambda: targets(world)))
    pipeline = world.pipeline(lambda: targets(world))
    behind = reasons(pipeline)
    counts = batches(world, "one", "one"), batches(world, "two", "follow")
    swap.setattr(unread, "MOST_COMMITS", 0)
    forced = reasons(pipeline)
    swap.undo()
    world.feed([("two", 1, 3), ("two", 2, 3)], ddl)
    world.feed([("three", 1, 4)], ddl)
    third = states(world.run(lambda: targets(world)))
    assert (second["one"], second["follow"]) == (FlowState.COMPLETED, FlowState.IDLE)
    assert behind["follow into two"] == "no new data in source_table = two"
    assert behind["one"] == "no new data in source_table = one"
    assert forced == {**behind, "follow into two": "its sources may have new rows"}
    assert counts == (2, 1)
    assert (third["one"], third["follow"]) == (FlowState.IDLE, FlowState.COMPLETED)
    assert (world.rows("one"), world.rows("two")) == ([(1, 1), (2, 2)], [(1, 3), (2, 3)])


def test_a_continuous_update_starts_the_flows_whose_partitions_moved(world: EngineWorld) -> None:
    """While one partition gets row after row, the flow of the other one has no batch; then it reads its rows."""
    ddl = "source_table STRING, id INT, at INT"
    world.feed([("one", 1, 1), ("two", 1, 1)], ddl)
    seen = Watched(world)
    with started(world.pipeline(lambda: targets(world), configuration=OFTEN)) as running:
        until(lambda: len(seen.rows("one")) == len(seen.rows("two")) == 1, running)
        until(lambda: {flow.health.value for flow in running.flows if flow.flow.table == "follow"} == {"IDLE"}, running)
        before = batches(world, "two", "follow")
        for number in (2, 3):
            world.feed([("one", number, number)], ddl)
            until(lambda wanted=number: len(seen.rows("one")) == wanted, running)  # type: ignore[misc]
        between = batches(world, "two", "follow")
        world.feed([("two", 2, 2)], ddl)
        until(lambda: len(seen.rows("two")) == 2, running)
    assert (between - before, world.rows("two")) == (0, [(1, 1), (2, 2)])
