"""The work of planning a batch: plans, generated code and calls to the JVM stay small for targets of many columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import DataFrame, SparkSession

from framework.cdc import apply as applying
from framework.cdc.analysis.target_schema import plan_target
from framework.cdc.delta import merge_write, target_write, transaction_write
from framework.cdc.events.normalize import read_events
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.engine.jvm.java import java_class
from framework.engine.sessions import execution
from tests.support.cdc_world import World, flow, name

SPEC = AutoCdcSpec(
    keys=("id",),
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    ignore_null_updates=ColumnSelection(),
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
MODE = "spark.sql.codegen.factoryMode"
KEEPING = {
    "scd1-merged": (SPEC, {"delta.enableChangeDataFeed": "true"}),
    "scd2": (replace(SPEC, scd_type=2), {}),
}
"""Each type and each way, by MERGE and by replacing files."""


def wide_flow(spec: AutoCdcSpec, structs: int) -> tuple[AutoCdcSpec, str, bool]:
    """A flow whose source has so many structs of three fields."""
    columns = ", ".join(f"s{number} STRUCT<a: STRING, b: STRUCT<c: STRING, d: INT>>" for number in range(structs))
    return (spec, f"id INT, {columns}, op STRING, seq INT", False)


def note_computed(patch: pytest.MonkeyPatch, note: Callable[[DataFrame], None]) -> None:
    """Call a function with each DataFrame that a batch computes."""

    @contextmanager
    def noting(frame: DataFrame, *, at_once: bool = False) -> Iterator[DataFrame]:
        note(frame)
        with execution.computed_once(frame, at_once=at_once) as computed:
            yield computed

    for module in (applying, merge_write, target_write, transaction_write):
        patch.setattr(module, "computed_once", noting)


def nodes_of(frame: DataFrame) -> int:
    """Return the number of nodes in an optimized plan, expressions counted."""
    return int(frame._jdf.queryExecution().optimizedPlan().toJSON().count('"class":'))


def nodes_of_a_batch(world: World, structs: int, swap: pytest.MonkeyPatch) -> list[int]:
    """Return the number of nodes in each optimized plan of a batch that joins rows and tombstones.

    Args:
        world: the target, with a row and a tombstone; it gets the columns that it lacks.
        structs: the number of its columns that are structs.
        swap: replaces the functions that compute DataFrames by a recorder.
    """
    world.flows["changes"] = wide_flow(world.flows["changes"][0], structs)
    world.target = world.plan(world.spark.table(world.table.sql).schema)
    empty = world.spark.createDataFrame([], world.target.table_schema).write.format("delta")
    empty.mode("append").option("mergeSchema", "true").save(str(world.table.path))
    sizes: list[int] = []
    with swap.context() as patch:
        note_computed(patch, lambda frame: sizes.append(nodes_of(frame)))
        new = 10 * structs
        events = [wide_event(1, "two", "U", new, structs), wide_event(1, "late", "U", 1, structs)]
        world.apply("changes", [*events, wide_event(2, "two", "U", new, structs)])
    rows: list[Any] = world.rows("id", f"s{structs - 1}")
    found = [(key, value.a) for key, value in rows if value and value.b.d == new]
    assert [(1, "two"), (2, "two")] == found
    return sizes


def wide_event(key: int, value: str, operation: str, sequence: int, structs: int) -> tuple[object, ...]:
    """An event with a value in each struct."""
    return (key, *[(value, (None, sequence))] * structs, operation, sequence)


@pytest.mark.parametrize("kind", KEEPING)
def test_plans_grow_linearly_with_the_leaves_of_a_target(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, kind: str
) -> None:
    """Each further struct column adds as many nodes to a plan as the previous one."""
    spec, properties = KEEPING[kind]
    world = World(interpreting, tmp_path, {"changes": wide_flow(spec, 1)}, properties)
    world.apply("changes", [wide_event(1, "one", "U", 2, 1), wide_event(2, "one", "D", 2, 1)])
    one, two, three = (nodes_of_a_batch(world, structs, swap) for structs in (1, 2, 3))
    growth = [(second - first, third - second) for first, second, third in zip(one, two, three, strict=True)]
    assert len(growth) >= 1
    assert [] == [(former, latter) for former, latter in growth if latter > 1.1 * former]


def written(rows: DataFrame, folder: Path) -> DataFrame:
    """Return rows as a source reads them: from files, whose size Spark knows."""
    rows.write.parquet(str(folder))
    return rows.sparkSession.read.schema(rows.schema).parquet(str(folder))


def wide_ddl(strings: int) -> str:
    """The columns of a source with so many text columns."""
    columns = ", ".join(f"c{number} STRING" for number in range(strings))
    return f"id INT, {columns}, op STRING, seq INT"


def wide_world(spark: SparkSession, root: Path, strings: int) -> World:
    """A target with so many text columns, each a leaf with an author."""
    return World(spark, root, {"changes": (SPEC, wide_ddl(strings), False)})


def test_few_rows_of_many_columns_are_interpreted(compiling: SparkSession, tmp_path: Path) -> None:
    """Code is generated for few columns, and for rows whose size is unknown; the setting ends with the batch."""
    many, few = (compiling.createDataFrame([(1, *["one"] * strings, "U", 1)], wide_ddl(strings)) for strings in (50, 5))
    cases = {
        "few rows of many columns": (written(many, tmp_path / "many"), "NO_CODEGEN"),
        "rows of many columns in memory": (many, "FALLBACK"),
        "few rows of few columns": (written(few, tmp_path / "few"), "FALLBACK"),
    }
    for told, (rows, mode) in cases.items():
        target = plan_target(name("target"), [flow(SPEC, rows)])
        with execution.planned_for(read_events(rows, SPEC, target, literal=False)):
            assert compiling.conf.get(MODE) == mode, told
        assert compiling.conf.get(MODE) == "FALLBACK", told


def test_batches_with_deletes_share_their_generated_code(compiling: SparkSession, tmp_path: Path) -> None:
    """No value of a batch, and no time, is a part of the code: a later batch compiles nothing."""
    world = wide_world(compiling, tmp_path, 1)
    count = java_class("org.apache.spark.metrics.source.CodegenMetrics").METRIC_COMPILATION_TIME().getCount
    compiled: list[int] = []
    while len(compiled) < 2 or (compiled[-1] > 0 and len(compiled) < 40):  # other workers compile in the same JVM
        before, sequence = count(), len(compiled)
        world.apply("changes", [(1, "one", "U", sequence), (2, "two", "D", sequence)])
        compiled.append(count() - before)
    assert compiled[0] > 0
    assert compiled[-1] == 0


@pytest.mark.parametrize("scd_type", [1, 2])
def test_a_second_batch_into_many_columns_builds_few_expressions(
    compiling: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, scd_type: int
) -> None:
    """Expressions are built once per target: a batch passes columns to the JVM, and no expression of each leaf.

    All queries of such a batch are interpreted.
    """
    strings = 50
    spec = replace(SPEC, scd_type=scd_type)
    world = World(compiling, tmp_path / "target", {"changes": (spec, wide_ddl(strings), False)})

    def events(sequence: int, operation: str) -> DataFrame:
        rows = [(1, *[f"{sequence}"] * strings, "U", sequence), (2, *["late"] * strings, operation, sequence)]
        return written(world.frame("changes", rows), tmp_path / str(sequence))

    for sequence in (1, 2):
        world.apply_frame("changes", events(sequence, "D"))
    frame = events(3, "U")
    calls, modes = 0, set[str | None]()
    send = ClientServerConnection.send_command

    def counted(connection: ClientServerConnection, command: str) -> object:
        nonlocal calls
        calls += 1
        return send(connection, command)

    note_computed(swap, lambda _: modes.add(compiling.conf.get(MODE)))
    swap.setattr(ClientServerConnection, "send_command", counted)
    world.apply_frame("changes", frame)
    assert calls < 100 * strings, calls
    assert modes == {"NO_CODEGEN"}
