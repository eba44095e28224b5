"""The first load of a target: rows are stored unchanged, with the same result as a merge."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cdc import apply as applying
from framework.cdc import writer
from framework.cdc.delta.transaction_write import TransactionWrite
from framework.cdc.events import batch_validation as contract
from framework.cdc.initial_load import NewFileStatistics, has_distinct_keys
from framework.cdc.model.metrics import CdcMetrics
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from tests.spark.test_auto_cdc_scd1 import FLOWS, Stopped, stop
from tests.support.cdc_world import World
from tests.support.snapshot_world import SPEC, SnapshotWorld

HISTORIES = {called: (replace(spec, scd_type=2), ddl, once) for called, (spec, ddl, once) in FLOWS.items()}
LOADED = [(1, "Ada", "A"), (2, "Bea", "B"), (3, "Cleo", None)]


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    """An empty target with a change flow and a snapshot flow."""
    return World(spark, tmp_path, FLOWS)


@pytest.fixture(scope="module")
def empty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A target to which nothing was ever written."""
    return World(spark, tmp_path_factory.mktemp("empty"), FLOWS)


def refuse(*_: object, **__: object) -> CdcMetrics:
    """Fail if called."""
    raise AssertionError


def test_a_snapshot_is_stored_unchanged_in_an_empty_target(world: World, swap: pytest.MonkeyPatch) -> None:
    """One commit without a merge; for a change flow, its rows are older than all events."""
    with swap.context() as patch:
        patch.setattr(TransactionWrite, "merge", refuse)
        before = world.version()
        assert CdcMetrics(rows=3, upserted=3) == world.apply("snapshot", LOADED)
    assert (LOADED, before + 1) == (world.rows(), world.version())
    changes = [(1, "Ann", "A", "UPDATE", 0), (2, None, None, "DELETE", 1), (4, "Di", "D", "INSERT", 2)]
    assert CdcMetrics(rows=3, upserted=2, deleted=1) == world.apply("changes", changes)
    assert [(1, "Ann", "A"), (3, "Cleo", None), (4, "Di", "D")] == world.rows()


def test_a_snapshot_with_a_duplicate_key_ends_as_if_split_into_two_batches(world: World, tmp_path: Path) -> None:
    """The rows of that key are merged, and the same one counts in any order."""
    twice = [*LOADED, (2, "Bob", "B")]
    metrics = world.apply("snapshot", twice)
    other = World(world.spark, tmp_path / "other", FLOWS)
    other.apply("snapshot", twice[2:])
    other.apply("snapshot", twice[:2])
    assert (other.rows(), 4, 3) == (world.rows(), metrics.rows, metrics.upserted)


@pytest.mark.parametrize("keys", [range(-70, 70), range(32_700, 32_840), (-(2**31), 0, 2**31 - 1)])
def test_a_load_detects_duplicate_keys_of_any_range(empty: World, keys: Sequence[int]) -> None:
    """Rows with distinct keys are stored unchanged; with a second row of the last key, they are not."""
    found = []
    for each in ([*keys], [*keys, keys[-1]]):
        rows = empty.frame("snapshot", [(key, "Ada", "A") for key in each])
        file = {"numRecords": len(each), "minValues": {"userId": min(each)}, "maxValues": {"userId": max(each)}}
        found.append(has_distinct_keys(rows, empty.target, NewFileStatistics(files=[file]), len(each)))
    assert found == [True, False]


def test_a_first_load_with_null_keys_writes_nothing(empty: World) -> None:
    """The contract is checked before the commit, and the error has the counts."""
    with pytest.raises(OperationError, match="NULL_KEY") as raised:
        empty.apply("snapshot", [*LOADED, (None, "Nobody", None), (None, "Nobody", "N")])
    assert "userId: 2" in str(raised.value)
    assert ([], 0) == (empty.rows(), empty.version())


def test_a_replayed_first_load_is_skipped_after_a_crash_behind_its_commit(world: World) -> None:
    """The table has the transaction identifier of the load."""
    arm("cdc.after_merge", action=stop)
    try:
        with pytest.raises(Stopped):
            world.apply("snapshot", LOADED, batch_id=3)
    finally:
        disarm()
    assert world.apply("snapshot", LOADED, batch_id=3).skipped
    assert LOADED == world.rows()


def test_a_snapshot_after_a_delete_is_no_first_load(world: World) -> None:
    """A target without rows may have tombstones, which suppress older rows."""
    world.apply("changes", [(2, None, None, "DELETE", 5)])
    assert CdcMetrics(rows=3, upserted=2, late=1) == world.apply("snapshot", LOADED)
    assert [(1, "Ada", "A"), (3, "Cleo", None)] == world.rows()


def test_a_load_that_conflicts_with_another_process_is_merged(world: World, swap: pytest.MonkeyPatch) -> None:
    """Rows that the other process wrote in between count by their sequence."""
    other = world.writer("changes")
    checked = contract.check_contract

    def check_late(*arguments: object, **named: object) -> None:
        checked(*arguments, **named)  # type: ignore[arg-type]
        swap.undo()
        frame = world.frame("changes", [(1, "Ann", "A", "INSERT", 9)])
        with swap.context() as patch:
            patch.setattr(applying, "locked", lambda *_: nullcontext())
            other.apply(frame, 0)

    swap.setattr(applying, "check_contract", check_late)
    assert 3 == world.apply("snapshot", LOADED).rows
    assert [(1, "Ann", "A"), *LOADED[1:]] == world.rows()


def test_a_snapshot_is_stored_unchanged_in_an_empty_history(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """The rows, with the hidden column, equal those of a merge."""
    loaded, merged = World(spark, tmp_path / "loaded", HISTORIES), World(spark, tmp_path / "merged", HISTORIES)
    with swap.context() as patch:
        patch.setattr(applying, "compute_history", refuse)
        assert CdcMetrics(rows=3, upserted=3) == loaded.apply("snapshot", LOADED)
    with swap.context() as patch:
        patch.setattr(writer, "may_load", lambda *_: False)
        assert CdcMetrics(rows=3, upserted=3) == merged.apply("snapshot", LOADED)
    everything = loaded.target.table_schema.fieldNames()
    assert [(*row, 0, None) for row in LOADED] == loaded.rows()
    assert merged.rows(*everything) == loaded.rows(*everything)


def test_a_snapshot_with_a_duplicate_key_has_one_row_of_it_in_the_history(spark: SparkSession, tmp_path: Path) -> None:
    """Two rows at one point are one entry of the timeline, so the snapshot is not stored unchanged."""
    world = World(spark, tmp_path, HISTORIES)
    assert CdcMetrics(rows=4, upserted=3) == world.apply("snapshot", [*LOADED, (3, "Cleo", None)])
    assert [(*row, 0, None) for row in LOADED] == world.rows()


FIRST = [(0, "x", "a", None), (0, "y", "b", "b")]


@pytest.mark.parametrize("scd_type", [1, 2])
def test_the_first_snapshot_of_a_source_is_stored_unchanged(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, scd_type: int
) -> None:
    """Nothing is merged, and it is applied once; `test_snapshot_scenarios.py` compares the next ones with it."""
    world = SnapshotWorld(spark, tmp_path, replace(SPEC, scd_type=scd_type))
    swap.setattr(TransactionWrite, "merge", refuse)
    swap.setattr(applying, "compute_history", refuse)
    assert CdcMetrics(rows=2, upserted=2) == world.take(1, FIRST, ordinal=1)
    assert CdcMetrics() == world.take(1, FIRST, ordinal=1)
    interval = (1, None) if scd_type == 2 else ()
    assert {0: frozenset((*row, *interval) for _, *row in FIRST)} == world.rows()
