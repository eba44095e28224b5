"""The plans of a batch grow linearly with the number of a target's leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.cdc import apply as applying
from framework.cdc.delta import merge_write, target_write, transaction_write
from framework.cdc.spark import execution
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from tests.support.cdc_world import World

SPEC = AutoCdcSpec(
    keys=("id",),
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    ignore_null_updates=ColumnSelection(),
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
KEEPING = {
    "scd1": (SPEC, {}),
    "scd1-merged": (SPEC, {"delta.enableChangeDataFeed": "true"}),
    "scd2": (replace(SPEC, scd_type=2), {}),
}


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
