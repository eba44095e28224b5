"""The files of an AUTO CDC target: few after any number of batches, and found in any number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.cdc.delta import compaction, transaction
from framework.cdc.delta.table_version import TableVersion
from framework.cdc.events.key_bounds import may_hold
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.scd1 import merge as scd1
from tests.spark.test_auto_cdc_scd1 import DDL, EXPECTED, FLOWS, GOLDEN
from tests.spark.test_auto_cdc_scd2 import EXPECTED as INTERVALS
from tests.spark.test_auto_cdc_scd2 import HISTORY
from tests.support.cdc_world import World

HISTORY_FLOWS = {"changes": (HISTORY, DDL, False)}


def files(world: World) -> int:
    """How many files the target has."""
    return len(world.spark.read.format("delta").load(str(world.table.path)).inputFiles())


def two_by_two(world: World) -> None:
    """The golden case in four batches, the newest first."""
    for start in (6, 4, 2, 0):
        world.apply("changes", GOLDEN[start : start + 2])


def test_small_files_are_made_into_one_before_they_pile_up(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """The rows do not change, and repeated batches are still recognized."""
    swap.setattr(compaction, "MANY", 3)
    world = World(spark, tmp_path, FLOWS)
    two_by_two(world)
    world.apply("changes", [(number, "New", "N", "INSERT", 9) for number in (1, 2, 3)])
    world.apply("changes", [(4, "New", "N", "INSERT", 9)], batch_id=20)
    assert files(world) <= 3
    assert world.apply("changes", [(4, "New", "N", "INSERT", 9)], batch_id=20).skipped
    assert sorted([*((number, "New", "N") for number in (1, 2, 3, 4)), *EXPECTED], key=repr) == world.rows()


@pytest.mark.parametrize(("flows", "shown"), [(FLOWS, EXPECTED), (HISTORY_FLOWS, INTERVALS)], ids=["scd1", "scd2"])
def test_a_table_whose_files_are_too_many_to_be_listed_ends_in_the_same_rows(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, flows: dict[str, tuple[object, str, bool]],
    shown: list[tuple[object, ...]],
) -> None:  # fmt: skip
    """Delta then finds the files by the bounds of the batch's keys, and returns their statistics."""
    swap.setattr(TableVersion, "listed_files", lambda _: None)
    swap.setattr(TableVersion, "listed_batches", lambda _: None)
    world = World(spark, tmp_path, flows)  # type: ignore[arg-type]  # of the two kinds of flows
    world.apply("changes", GOLDEN[4:])
    world.apply("changes", GOLDEN[:4], batch_id=7)
    assert world.apply("changes", GOLDEN[:4], batch_id=7).skipped
    assert shown == world.rows()


def test_a_chunk_of_new_keys_is_appended_without_reading_a_file(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """The log excludes all files for the new keys; the next batch reads only the files of its own keys."""
    world = World(spark, tmp_path, FLOWS)
    chunks = [[(number, "Old", "O") for number in range(start, start + 100)] for start in (0, 100, -100)]
    world.apply("snapshot", chunks[0])
    with swap.context() as patch:
        patch.setattr(scd1, "computed_once", lambda *_: pytest.fail("the table's rows are compared"))
        metrics = [world.apply("snapshot", chunk) for chunk in chunks[1:]]
        assert world.apply("snapshot", chunks[2], batch_id=2).skipped
    assert [CdcMetrics(rows=100, upserted=100)] * 2 == metrics
    before, found = files(world), []

    def noted(*given: Any) -> bool:
        found.append(may_hold(*given))
        return found[-1]

    swap.setattr(transaction, "may_hold", noted)
    edges = [(-1, "New", "N", "UPDATE", 1), (0, None, None, "DELETE", 1)]
    assert CdcMetrics(rows=2, upserted=1, deleted=1) == world.apply("changes", edges)
    others = [(number, "Old", "O") for number in range(-100, 200) if number not in (-1, 0)]
    assert (2, 6, 6) == (sum(found), len(found), before)
    assert sorted([(-1, "New", "N"), *others], key=repr) == world.rows()


def test_files_without_statistics_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """A table whose log has no bounds of its keys ends in the same rows."""
    world = World(spark, tmp_path, FLOWS, properties={"delta.dataSkippingNumIndexedCols": "0"})
    two_by_two(world)
    assert EXPECTED == world.rows()


def test_another_version_of_delta_gets_a_merge(spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """Its internals were not tested with ours, so they are not touched."""
    swap.setattr("framework.cdc.delta.table_version._TESTED", frozenset({"0.0.0"}))
    swap.setattr(transaction.Transaction, "commit", lambda *_: pytest.fail("a transaction of ours"))
    world = World(spark, tmp_path, FLOWS)
    two_by_two(world)
    assert EXPECTED == world.rows()


def test_a_table_of_few_rows_comes_to_the_facts(spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """With up to ten live rows per event, rows are joined to events, otherwise the reverse; the results are equal."""
    world, ways = World(spark, tmp_path, FLOWS), []

    def noted(way: str) -> Callable[..., DataFrame]:
        decide: Callable[..., DataFrame] = getattr(scd1, way)

        def note(*given: Any) -> DataFrame:
            ways.append(way)
            return decide(*given)

        return note

    for way in ("_decided_by_rows", "_decided_together"):
        swap.setattr(scd1, way, noted(way))
    world.apply("snapshot", [(number, "Old", "O") for number in range(100)])
    metrics = [
        world.apply("changes", [(0, "New", "N", "UPDATE", 1), (100, "New", "N", "INSERT", 1)]),
        world.apply("changes", [(number, None, None, "DELETE", 1) for number in range(1, 90)]),
        world.apply("changes", [(0, "Newer", "N", "UPDATE", 2), (101, "New", "N", "INSERT", 1)]),
    ]
    assert ["_decided_by_rows", "_decided_together", "_decided_together"] == ways
    assert [(2, 0), (0, 89), (2, 0)] == [(done.upserted, done.deleted) for done in metrics]
    kept = [(number, "Old", "O") for number in range(90, 100)]
    assert sorted([(0, "Newer", "N"), (100, "New", "N"), (101, "New", "N"), *kept], key=repr) == world.rows()
