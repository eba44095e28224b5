"""The files of an AUTO CDC target: how they are compacted, skipped and found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.cdc.delta import compaction, transaction, transaction_write
from framework.cdc.events.key_bounds import may_contain
from framework.cdc.model.metrics import CdcMetrics
from tests.spark.test_auto_cdc_scd1 import EXPECTED, FLOWS, GOLDEN
from tests.support.cdc_world import World


def files(world: World) -> int:
    """How many files the target has."""
    return len(world.spark.read.format("delta").load(str(world.table.path)).inputFiles())


def test_small_files_are_compacted(spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """The rows stay the same, and replayed batches are still skipped."""
    swap.setattr(compaction, "MANY", 3)
    world = World(spark, tmp_path, FLOWS)
    for half in (GOLDEN[4:], GOLDEN[:4]):
        world.apply("changes", half)
    world.apply("changes", [(number, "New", "N", "INSERT", 9) for number in (1, 2, 3)])
    world.apply("changes", [(4, "New", "N", "INSERT", 9)], batch_id=20)
    assert files(world) <= 3
    assert world.apply("changes", [(4, "New", "N", "INSERT", 9)], batch_id=20).skipped
    assert sorted([*((number, "New", "N") for number in (1, 2, 3, 4)), *EXPECTED], key=repr) == world.rows()


def test_a_batch_of_new_keys_is_appended_without_reading_files(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """The file statistics rule out all files; the next batch reads the files of its keys only."""
    world = World(spark, tmp_path, FLOWS)
    chunks = [[(number, "Old", "O") for number in range(start, start + 100)] for start in (0, 100, -100)]
    world.apply("snapshot", chunks[0])
    with swap.context() as patch:
        patch.setattr(transaction_write, "computed_once", lambda *_: pytest.fail("the table's rows are compared"))
        metrics = [world.apply("snapshot", chunk) for chunk in chunks[1:]]
        assert world.apply("snapshot", chunks[2], batch_id=2).skipped
    assert [CdcMetrics(rows=100, upserted=100)] * 2 == metrics
    before, found = files(world), []

    def noted(*given: Any) -> bool:
        found.append(may_contain(*given))
        return found[-1]

    swap.setattr(transaction, "may_contain", noted)
    edges = [(-1, "New", "N", "UPDATE", 1), (0, None, None, "DELETE", 1)]
    assert CdcMetrics(rows=2, upserted=1, deleted=1) == world.apply("changes", edges)
    others = [(number, "Old", "O") for number in range(-100, 200) if number not in (-1, 0)]
    assert (2, 6, 6) == (sum(found), len(found), before)
    assert sorted([(-1, "New", "N"), *others], key=repr) == world.rows()


def test_the_join_depends_on_the_rows_per_changed_key(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """Up to ten live rows per key shuffle the table, more broadcast the batch; both end in the same rows."""
    world, ways = World(spark, tmp_path, FLOWS), []

    def noted(way: str) -> Callable[..., DataFrame]:
        decide: Callable[..., DataFrame] = getattr(transaction_write, way)

        def note(*given: Any) -> DataFrame:
            ways.append(way)
            return decide(*given)

        return note

    for way in ("_decide_by_rows", "_decide_by_keys"):
        swap.setattr(transaction_write, way, noted(way))
    world.apply("snapshot", [(number, "Old", "O") for number in range(100)])
    metrics = [
        world.apply("changes", [(0, "New", "N", "UPDATE", 1), (100, "New", "N", "INSERT", 1)]),
        world.apply("changes", [(number, None, None, "DELETE", 1) for number in range(1, 90)]),
        world.apply("changes", [(0, "Newer", "N", "UPDATE", 2), (101, "New", "N", "INSERT", 1)]),
    ]
    assert ["_decide_by_rows", "_decide_by_keys", "_decide_by_keys"] == ways
    assert [(2, 0), (0, 89), (2, 0)] == [(done.upserted, done.deleted) for done in metrics]
    kept = [(number, "Old", "O") for number in range(90, 100)]
    assert sorted([(0, "Newer", "N"), (100, "New", "N"), (101, "New", "N"), *kept], key=repr) == world.rows()
