"""AUTO CDC, SCD type 2: the golden cases, and the guarantees of each batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from tests.spark.test_auto_cdc_scd1 import CHANGES, DDL, GOLDEN, Stopped, stop
from tests.support.cdc_world import World

HISTORY = replace(CHANGES, scd_type=2)
BUT_CITY = replace(HISTORY, track_history=ColumnSelection(columns=("city",), excluded=True))
EXPECTED = [
    (123, "Isabel", "Chihuahua", 5, 6),
    (123, "Isabel", "Monterrey", 1, 5),
    (124, "Raul", "Oaxaca", 1, None),
    (125, "Mercedes", "Guadalajara", 6, None),
    (125, "Mercedes", "Mexicali", 5, 6),
    (125, "Mercedes", "Tijuana", 2, 5),
    (126, "Lily", "Cancun", 2, None),
]


def test_the_golden_case_in_one_batch_with_a_death_and_backwards(spark: SparkSession, tmp_path: Path) -> None:
    """One batch, and one batch per event in reverse order with a crash in between, end in the same history."""
    together = World(spark, tmp_path / "together", {"changes": (HISTORY, DDL, False)})
    together.apply("changes", GOLDEN)
    assert EXPECTED == together.rows()
    assert 7 == spark.read.format("delta").load(str(together.table.path)).count()
    apart = World(spark, tmp_path / "apart", {"changes": (HISTORY, DDL, False)})
    apart.apply("changes", [*GOLDEN[:3:-1], GOLDEN[0]], batch_id=0)
    arm("cdc.after_events", action=stop)
    try:
        with pytest.raises(Stopped):
            apart.apply("changes", [*GOLDEN[:4], (124, "Raul", "Oaxaca", "UPDATE", 9)], batch_id=1)
    finally:
        disarm()
    apart.apply("changes", [*GOLDEN[:4], (124, "Raul", "Oaxaca", "UPDATE", 9)], batch_id=1)
    assert EXPECTED == apart.rows()
    version = apart.version()
    assert apart.apply("changes", GOLDEN[:4], batch_id=1).skipped
    assert version == apart.version()


def test_the_golden_case_that_tracks_all_but_the_city(spark: SparkSession, tmp_path: Path) -> None:
    """A change of an untracked column rewrites the open row and starts no new one."""
    world = World(spark, tmp_path, {"changes": (BUT_CITY, DDL, False)})
    metrics = world.apply("changes", GOLDEN)
    assert [
        (123, "Isabel", "Chihuahua", 1, 6),
        (124, "Raul", "Oaxaca", 1, None),
        (125, "Mercedes", "Guadalajara", 2, None),
        (126, "Lily", "Cancun", 2, None),
    ] == world.rows()
    assert (8, 4, 0) == (metrics.rows, metrics.upserted, metrics.deleted)


def test_a_struct_sequence_is_compared_field_by_field_and_shown_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """`__START_AT` and `__END_AT` have the fields of the sequence."""
    spec = AutoCdcSpec(
        keys=("id",), sequence_by="struct(day, step)", scd_type=2, columns=ColumnSelection(columns=("id", "v"))
    )
    world = World(spark, tmp_path, {"changes": (spec, "id int, v string, day date, step int", False)})
    source = "values (1, 'b', date'2026-01-01', 2), (1, 'c', date'2026-01-02', 1), (1, 'a', date'2026-01-01', 1)"
    batch = spark.sql(f"select * from {source} as t(id, v, day, step)")
    world.writer("changes").apply(batch, 0)
    shown = world.spark.table(world.table.sql).orderBy("__START_AT")
    rows = shown.selectExpr("v", "__START_AT.day || '/' || __START_AT.step", "__END_AT.day || '/' || __END_AT.step")
    assert [
        ("a", "2026-01-01/1", "2026-01-01/2"),
        ("b", "2026-01-01/2", "2026-01-02/1"),
        ("c", "2026-01-02/1", None),
    ] == [tuple(row) for row in rows.collect()]


def test_a_batch_that_breaks_the_contract_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Null keys are counted and named, and neither table has a new commit."""
    world = World(spark, tmp_path, {"changes": (HISTORY, DDL, False)})
    before = world.version()
    with pytest.raises(OperationError) as raised:
        world.apply("changes", [(None, "a", "b", "INSERT", 1), (1, "a", "b", "INSERT", 3)])
    assert "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY" == raised.value.condition
    assert (1, 2) == (raised.value.fields["null_count"], raised.value.fields["row_count"])
    assert (before, []) == (world.version(), world.auxiliary_rows())
