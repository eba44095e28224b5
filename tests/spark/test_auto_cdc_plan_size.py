"""The work of planning a batch: plans, generated code and calls to the JVM stay small for targets of many columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import DataFrame, SparkSession

from framework.cdc import apply as applying
from framework.cdc.delta import merge_write, target_write, transaction_write
from framework.cdc.spark import execution
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.jvm_cache import java_class
from tests.support.cdc_world import World

SPEC = AutoCdcSpec(
    keys=("id",),
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    ignore_null_updates=ColumnSelection(),
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
KEEPING = {
    "scd1-merged": (SPEC, {"delta.enableChangeDataFeed": "true"}),
    "scd2": (replace(SPEC, scd_type=2), {}),
}
"""Each type and each way, by MERGE and by replacing files."""


def nodes_of_a_batch(spark: SparkSession, root: Path, kind: str, structs: int, swap: pytest.MonkeyPatch) -> list[int]:
    """Return the number of nodes in each optimized plan of a batch that joins rows and tombstones.

    Args:
        spark: the session.
        root: an empty folder.
        kind: the kind of the target.
        structs: the number of its columns that are structs of three fields.
        swap: replaces the functions that compute DataFrames by a recorder.
    """
    spec, properties = KEEPING[kind]
    columns = ", ".join(f"s{number} STRUCT<a: STRING, b: STRUCT<c: STRING, d: INT>>" for number in range(structs))
    world = World(spark, root, {"changes": (spec, f"id INT, {columns}, op STRING, seq INT", False)}, properties)
    sizes: list[int] = []

    @contextmanager
    def recording(frame: DataFrame, *, at_once: bool = False) -> Iterator[DataFrame]:
        sizes.append(frame._jdf.queryExecution().optimizedPlan().toJSON().count('"class":'))
        with execution.computed_once(frame, at_once=at_once) as computed:
            yield computed

    def event(key: int, value: str, operation: str, sequence: int) -> tuple[object, ...]:
        return (key, *[(value, (None, sequence))] * structs, operation, sequence)

    world.apply("changes", [event(1, "one", "U", 2), event(2, "one", "D", 2)])
    with swap.context() as patch:
        for module in (applying, merge_write, target_write, transaction_write):
            patch.setattr(module, "computed_once", recording)
        world.apply("changes", [event(1, "two", "U", 3), event(1, "late", "U", 1), event(2, "two", "U", 3)])
    assert [(1, "two", 3), (2, "two", 3)] == [row for row in world.rows("id", "s0.a", "s0.b.d") if row[1] == "two"]
    return sizes


@pytest.mark.parametrize("kind", KEEPING)
def test_plans_grow_linearly_with_the_leaves_of_a_target(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, kind: str
) -> None:
    """Each further struct column adds as many nodes to a plan as the previous one."""
    one, two, three = (
        nodes_of_a_batch(interpreting, tmp_path / str(structs), kind, structs, swap) for structs in (1, 2, 3)
    )
    growth = [(second - first, third - second) for first, second, third in zip(one, two, three, strict=True)]
    assert len(growth) >= 1
    assert [] == [(former, latter) for former, latter in growth if latter > 1.1 * former]


def written(rows: DataFrame, folder: Path) -> DataFrame:
    """Return rows as a source reads them: from files, whose size Spark knows."""
    rows.write.parquet(str(folder))
    return rows.sparkSession.read.schema(rows.schema).parquet(str(folder))


def wide_world(spark: SparkSession, root: Path, strings: int) -> World:
    """A target with so many text columns, each a leaf with an author."""
    columns = ", ".join(f"c{number} STRING" for number in range(strings))
    return World(spark, root, {"changes": (SPEC, f"id INT, {columns}, op STRING, seq INT", False)})


@pytest.mark.parametrize("case", [(50, "files", "NO_CODEGEN"), (50, "memory", "FALLBACK"), (5, "files", "FALLBACK")])
def test_few_rows_of_many_columns_are_interpreted(
    compiling: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, case: tuple[int, str, str]
) -> None:
    """Code is generated for few columns, and for rows whose size is unknown; the setting ends with the batch."""
    strings, source, mode = case
    world = wide_world(compiling, tmp_path / "target", strings)
    rows = world.frame("changes", [(1, *["one"] * strings, "U", 1)])
    modes = set()

    @contextmanager
    def recording(frame: DataFrame, *, at_once: bool = False) -> Iterator[DataFrame]:
        modes.add(frame.sparkSession.conf.get("spark.sql.codegen.factoryMode"))
        with execution.computed_once(frame, at_once=at_once) as computed:
            yield computed

    for module in (applying, merge_write, target_write, transaction_write):
        swap.setattr(module, "computed_once", recording)
    world.apply("changes", [(2, *["two"] * strings, "U", 1)])
    modes.clear()
    world.apply_frame("changes", written(rows, tmp_path / "rows") if source == "files" else rows)
    assert modes == {mode}
    assert compiling.conf.get("spark.sql.codegen.factoryMode") == "FALLBACK"
    assert world.rows("id", "c0") == [(1, "one"), (2, "two")]


def test_batches_with_deletes_share_their_generated_code(compiling: SparkSession, tmp_path: Path) -> None:
    """No value of a batch, and no time, is a part of the code: a later batch compiles nothing."""
    world = wide_world(compiling, tmp_path, 1)
    count = java_class("org.apache.spark.metrics.source.CodegenMetrics").METRIC_COMPILATION_TIME().getCount
    compiled: list[int] = []
    while len(compiled) < 4 or (compiled[-1] > 0 and len(compiled) < 40):  # other workers compile in the same JVM
        before, sequence = count(), len(compiled)
        world.apply("changes", [(1, "one", "U", sequence), (2, "two", "D", sequence)])
        compiled.append(count() - before)
    assert compiled[0] > 0
    assert compiled[-1] == 0


@pytest.mark.parametrize("scd_type", [1, 2])
def test_a_second_batch_into_many_columns_builds_few_expressions(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, scd_type: int
) -> None:
    """Expressions are built once per target: a batch passes columns to the JVM, and no expression of each leaf."""
    strings = 50
    columns = ", ".join(f"c{number} STRING" for number in range(strings))
    spec = replace(SPEC, scd_type=scd_type)
    world = World(interpreting, tmp_path, {"changes": (spec, f"id INT, {columns}, op STRING, seq INT", False)})
    for sequence in (1, 2):
        events = [(1, *[f"{sequence}"] * strings, "U", sequence), (2, *["late"] * strings, "D", sequence)]
        world.apply("changes", events)
    frame = world.frame("changes", [(1, *["3"] * strings, "U", 3), (2, *["3"] * strings, "U", 3)])
    calls = 0
    send = ClientServerConnection.send_command

    def counted(connection: ClientServerConnection, command: str) -> object:
        nonlocal calls
        calls += 1
        return send(connection, command)

    swap.setattr(ClientServerConnection, "send_command", counted)
    world.apply_frame("changes", frame)
    assert calls < 100 * strings, calls
