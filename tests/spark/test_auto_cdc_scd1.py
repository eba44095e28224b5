"""AUTO CDC, SCD type 1: the golden case, and the guarantees of each batch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.cdc import apply as applying
from framework.cdc.delta import open_tables
from framework.cdc.delta.auxiliary_table import read_auxiliary_table
from framework.cdc.delta.target_write import KeyedMerge
from framework.cdc.delta.transaction_write import TransactionWrite
from framework.cdc.model.metrics import CdcMetrics
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from tests.support.cdc_world import World

DDL = "userId int, name string, city string, operation string, sequenceNum int"
CHANGES = AutoCdcSpec(
    keys=("userId",),
    sequence_by="sequenceNum",
    apply_as_deletes="operation = 'DELETE'",
    columns=ColumnSelection(columns=("operation", "sequenceNum"), excluded=True),
)
SNAPSHOT = AutoCdcSpec(keys=("userId",), sequence_by="0")
FLOWS = {"changes": (CHANGES, DDL, False), "snapshot": (SNAPSHOT, "userId int, name string, city string", True)}
GOLDEN = [
    (124, "Raul", "Oaxaca", "INSERT", 1),
    (123, "Isabel", "Monterrey", "INSERT", 1),
    (125, "Mercedes", "Tijuana", "INSERT", 2),
    (126, "Lily", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "Mercedes", "Guadalajara", "UPDATE", 6),
    (125, "Mercedes", "Mexicali", "UPDATE", 5),
    (123, "Isabel", "Chihuahua", "UPDATE", 5),
]
EXPECTED = [(124, "Raul", "Oaxaca"), (125, "Mercedes", "Guadalajara"), (126, "Lily", "Cancun")]


class Stopped(BaseException):
    """Simulates the death of the process; no handler may catch it."""


def stop() -> None:
    """Stop."""
    raise Stopped


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    """An empty target with a change flow and a snapshot flow."""
    return World(spark, tmp_path, FLOWS)


class Golden(NamedTuple):
    """A target after one batch of all events of the golden case.

    Args:
        world: has the target.
        metrics: of the batch.
    """

    world: World
    metrics: CdcMetrics


@pytest.fixture(scope="module")
def golden(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """The golden case; its tests change no row."""
    made = World(spark, tmp_path_factory.mktemp("golden"), FLOWS)
    return Golden(world=made, metrics=made.apply("changes", GOLDEN, batch_id=0))


def test_one_batch_of_all_events_leaves_the_newest_row_per_key(golden: Golden) -> None:
    """One batch of all events leaves the newest row of each key whose last event is not a delete."""
    assert EXPECTED == golden.world.rows()
    assert CdcMetrics(rows=8, upserted=3, deleted=0, late=0) == golden.metrics


def test_a_plain_reader_sees_no_tombstones(golden: Golden) -> None:
    """The target has live rows only; deletes are in the auxiliary table."""
    assert 3 == golden.world.spark.read.format("delta").load(str(golden.world.table.path)).count()
    assert ["delete"] == [row["__sluice"]["operation"] for row in golden.world.auxiliary_rows()]


def test_a_batch_restores_the_settings_of_its_session(golden: Golden) -> None:
    """A batch leaves no transaction identifier behind for the next command of its session."""
    assert golden.world.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def test_a_replayed_batch_is_skipped(golden: Golden) -> None:
    """Applying a batch a second time commits nothing to either table."""
    world = golden.world
    before, tombstones = world.version(), len(world.auxiliary_rows())
    assert world.apply("changes", GOLDEN, batch_id=0).skipped
    assert (before, tombstones) == (world.version(), len(world.auxiliary_rows()))
    assert EXPECTED == world.rows()


def test_a_new_generation_can_reread_all_events(golden: Golden) -> None:
    """After a reset of the flow's checkpoint, the same events in batches with the old numbers change no row."""
    world = golden.world
    world.generation["changes"] += 1
    assert not world.apply("changes", GOLDEN, batch_id=0).skipped
    assert EXPECTED == world.rows()


def test_events_in_reverse_order_with_the_snapshot_last_end_in_the_same_rows(world: World) -> None:
    """Events from last to first, then a snapshot of old rows, end in the same rows; no deleted row returns.

    The log folder without a commit that a kill left in place of the auxiliary table does not block the flow.
    """
    Path(str(world.auxiliary.path), "_delta_log").mkdir(parents=True)
    world.apply("changes", GOLDEN[:3:-1])
    world.apply("changes", GOLDEN[3::-1])
    metrics = world.apply("snapshot", [(123, "Isabel", "Old"), (124, "Raul", "Old"), (200, "New", "New")])
    assert [*EXPECTED, (200, "New", "New")] == world.rows()
    assert CdcMetrics(rows=3, upserted=1, deleted=0, late=2) == metrics


def test_a_tie_has_the_same_winner_in_any_order_of_arrival(world: World) -> None:
    """Of two upserts at one point the same one counts, in either order of arrival."""
    world.apply("changes", [(1, "Ada", "A", "INSERT", 5), (2, "Bea", "B", "INSERT", 5)])
    world.apply("changes", [(1, "Bea", "B", "INSERT", 5), (2, "Ada", "A", "INSERT", 5)])
    (_, *one), (_, *other) = world.rows()
    assert one == other


def test_a_commit_that_conflicts_with_another_process_is_retried(world: World) -> None:
    """The retry reads what the other process wrote, and the metrics do not show the conflict."""
    world.apply("changes", GOLDEN[:4])
    prepare, losses = TransactionWrite._prepare_merge, ["Puebla", "Toluca"]

    def prepare_too_late(write: TransactionWrite, merge: KeyedMerge) -> CdcMetrics:
        done = prepare(write, merge)
        assert done is not None
        if losses:
            world.spark.sql(f"UPDATE {world.table.sql} SET city = '{losses.pop()}' WHERE userId = 124")
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionWrite, "_prepare_merge", prepare_too_late)
        metrics = world.apply("changes", GOLDEN[4:])
    shown = [(124, "Raul", "Puebla"), *(row for row in EXPECTED if row[0] != 124)]
    assert (shown, 1, 1, []) == (world.rows(), metrics.upserted, metrics.deleted, losses)
    assert 1 == len(world.auxiliary_rows())


def test_a_concurrent_delete_of_another_process_is_applied(world: World, swap: pytest.MonkeyPatch) -> None:
    """A delete committed to both tables after the tombstones were read still suppresses an older row."""
    world.apply("changes", [(1, "Ada", "A", "INSERT", 1)])
    other, deletes, read = world.writer("changes"), [(1, None, None, "DELETE", 5)], read_auxiliary_table

    def read_too_early(*arguments: Any) -> DataFrame | None:
        auxiliary = read(*arguments)
        if deletes:
            with swap.context() as patch:
                patch.setattr(applying, "locked", lambda *_: nullcontext())
                other.apply(world.frame("changes", [deletes.pop()]), 1)
        return auxiliary

    swap.setattr(open_tables, "read_auxiliary_table", read_too_early)
    assert CdcMetrics(rows=2, upserted=1, late=1) == world.apply("snapshot", [(1, "Old", "O"), (2, "Bea", "B")])
    assert ([(2, "Bea", "B")], []) == (world.rows(), deletes)


def test_replaying_a_batch_repairs_a_crash_between_its_commits(world: World) -> None:
    """The batch dies twice, after each commit; the replay ends in the same rows, whatever another flow applied."""
    world.apply("changes", GOLDEN[:4])
    for point in ("cdc.after_tombstones", "cdc.after_merge"):
        arm(point, action=stop)
        try:
            with pytest.raises(Stopped):
                world.apply("changes", GOLDEN[4:], batch_id=7)
        finally:
            disarm()
        world.apply("snapshot", [(123, "Isabel", "Old"), (125, "Mercedes", "Old")])
    world.apply("changes", GOLDEN[4:], batch_id=7)
    assert EXPECTED == world.rows()
    assert {123} == {row["userId"] for row in world.auxiliary_rows()}


@pytest.fixture(scope="module")
def empty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A target to which nothing was ever written."""
    return World(spark, tmp_path_factory.mktemp("empty"), FLOWS)


@pytest.mark.parametrize(
    ("rows", "condition", "fields"),
    [
        (
            [(None, "a", "b", "INSERT", 1), (None, "a", "b", "INSERT", 2), (1, "a", "b", "INSERT", 3)],
            "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY",
            {"null_count": 2, "row_count": 3, "counts": "userId: 2", "batch_id": 0},
        ),
        (
            [(1, "a", "b", "INSERT", None), (1, "a", "b", "DELETE", 5), (2, "a", "b", "DELETE", None)],
            "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE",
            {"null_count": 2, "row_count": 3, "batch_id": 0},
        ),
    ],
)
def test_a_batch_that_violates_the_contract_writes_nothing(
    empty: World, rows: list[tuple[object, ...]], condition: str, fields: dict[str, object]
) -> None:
    """The error has the counts of null keys and null sequences, and neither table has a new commit."""
    with pytest.raises(OperationError) as raised:
        empty.apply("changes", rows, batch_id=0)
    assert condition == raised.value.condition
    assert fields == {key: raised.value.fields[key] for key in fields}
    assert (0, []) == (empty.version(), empty.auxiliary_rows())
