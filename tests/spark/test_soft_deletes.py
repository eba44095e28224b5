"""Soft deletes of AUTO CDC: a deleted row stays with its last values, and a column flags it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, IntegerType, StringType, StructField, StructType

from framework.cdc.delta import transaction_write
from framework.cdc.delta.destination import Destination
from framework.cdc.history import StoredTarget, put_back
from framework.cdc.model.metrics import CdcMetrics
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import UserError
from tests.support.cdc_world import NO_ROWS, World, name

DDL = "id int, name string, op string, seq int"
HARD = AutoCdcSpec(
    keys=("id",),
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    apply_as_truncates="op = 'T'",
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
SOFT = replace(HARD, soft_deletes="__deleted")
SNAPSHOT = AutoCdcSpec(keys=("id",), sequence_by="0")
FED = {"delta.enableChangeDataFeed": "true"}


def world_of(spark: SparkSession, root: Path, spec: AutoCdcSpec = SOFT, *, is_fed: bool = False) -> World:
    """A target with a change flow that declares soft deletes, and a snapshot flow that does not say."""
    flows = {"changes": (spec, DDL, False), "snapshot": (SNAPSHOT, "id int, name string", True)}
    return World(spark, root, flows, FED if is_fed else {})


@pytest.mark.parametrize("is_fed", [False, True])
def test_a_deleted_row_stays_until_its_key_is_inserted_again(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, *, is_fed: bool
) -> None:
    """Late, early and repeated deletes flag the same rows, and the metrics count rows that got the flag as deleted."""
    swap.setattr(transaction_write, "FEW_ROWS", NO_ROWS)
    swap.setattr(
        transaction_write, "SHUFFLED_ROWS_PER_KEY", NO_ROWS
    )  # recorded deletes are then read for new keys only
    world = world_of(interpreting, tmp_path, is_fed=is_fed)
    assert world.target.visible_schema.fieldNames() == ["id", "name", "__deleted"]
    loaded = world.apply("snapshot", [(1, "Ann"), (2, "Bob"), (6, "Flo")])
    assert loaded == CdcMetrics(rows=3, upserted=3)
    assert world.rows() == [(1, "Ann", False), (2, "Bob", False), (6, "Flo", False)]
    # A row that a delete flags; a delete before its row; both in one batch; a delete that is older than the row.
    first = [(1, None, "D", 5), (3, None, "D", 5), (4, "Dan", "U", 3), (4, None, "D", 4), (2, "Bea", "U", 7)]
    assert world.apply("changes", first) == CdcMetrics(rows=5, upserted=2, deleted=1)
    assert world.rows() == [(1, "Ann", True), (2, "Bea", False), (4, "Dan", True), (6, "Flo", False)]
    # Late rows of deleted keys are their last values; the later insert clears the flag; an old event changes nothing.
    second = [(1, "Anna", "U", 4), (3, "Cy", "U", 2), (4, "Eve", "U", 6), (2, None, "D", 6), (2, "B", "U", 1)]
    assert world.apply("changes", second) == CdcMetrics(rows=5, upserted=3, late=1)
    rows = [(1, "Anna", True), (2, "Bea", False), (3, "Cy", True), (4, "Eve", False), (6, "Flo", False)]
    assert world.rows() == rows
    # A new generation repeats all: nothing changes. A truncate flags what is older.
    world.generation["changes"] += 1
    assert world.apply("changes", [*second, *first], batch_id=0).deleted == 0
    assert world.rows() == rows
    assert world.apply("changes", [(None, None, "T", 7)]).deleted == 2
    assert world.rows() == [(1, "Anna", True), (2, "Bea", False), (3, "Cy", True), (4, "Eve", True), (6, "Flo", True)]


def test_history_that_is_put_back_has_the_flagged_rows(interpreting: SparkSession, tmp_path: Path) -> None:
    """A refresh of a source that lost events ends in their rows, and a tombstone is an event like others."""
    copy = world_of(interpreting, tmp_path / "copy")
    copy.apply("changes", [(1, "Ann", "U", 1), (2, "Bob", "U", 1), (3, "Cy", "U", 1), (1, None, "D", 2)])
    rebuilt = world_of(interpreting, tmp_path / "rebuilt")
    rebuilt.apply("changes", [(3, None, "D", 4), (2, "Bea", "U", 3)])
    destination = Destination(
        target=rebuilt.target, table=rebuilt.table, auxiliary=rebuilt.auxiliary, flow=name("changes"),
        application_id="history", truncates=False,
    )  # fmt: skip
    put_back(stored(copy), stored(rebuilt), destination, withheld=None, found=lambda _: None)
    assert rebuilt.rows() == [(1, "Ann", True), (2, "Bea", False), (3, "Cy", True)]


def stored(world: World) -> StoredTarget:
    """The tables of a world."""
    return StoredTarget(
        rows=world.spark.table(world.table.sql), auxiliary=world.spark.table(world.auxiliary.sql)
    )  # fmt: skip


def test_another_kind_of_deletes_needs_a_full_refresh(spark: SparkSession, tmp_path: Path) -> None:
    """Soft deletes that are switched on, off, or moved to another column are named; another case is the same column."""
    hard, soft = world_of(spark, tmp_path / "hard", HARD), world_of(spark, tmp_path / "soft")
    tables = {each: each.spark.table(each.table.sql).schema for each in (hard, soft)}
    other = world_of(spark, tmp_path / "other", replace(SOFT, soft_deletes="gone"))
    for world, schema, texts in (
        (soft, tables[hard], ("are removed", "are flagged in column __deleted")),
        (hard, tables[soft], ("are flagged in column __deleted", "are removed")),
        (other, tables[soft], ("are flagged in column __deleted", "are flagged in column gone")),
    ):
        with pytest.raises(UserError) as raised:
            world.plan(schema)
        assert raised.value.condition == "AUTOCDC_SOFT_DELETES_DRIFT"
        assert (raised.value.fields["stored"], raised.value.fields["declared"]) == texts
        assert "sluice run --full-refresh" in str(raised.value)
    other.flows["changes"] = (replace(SOFT, soft_deletes="__DELETED"), DDL, False)
    assert other.plan(tables[soft]).flag == "__deleted"
    other.flows["changes"] = (SOFT, f"{DDL}, email string", False)  # new columns come after the flag
    assert other.plan(tables[soft]).visible_schema.fieldNames() == ["id", "name", "__deleted", "email"]
    # A table whose deletes were always removed has no word of it.
    assert hard.plan(tables[hard]).flag is None


def test_the_column_of_the_flag_is_no_column_of_a_flow(spark: SparkSession, tmp_path: Path) -> None:
    """A source that has the column, two names of it, a reserved one, and another declared type are named."""
    world = world_of(spark, tmp_path)
    snapshot = "id int, name string, `__Deleted` boolean"

    def planned(condition: str, changes: AutoCdcSpec, *, other: AutoCdcSpec = SNAPSHOT, ddl: str = snapshot) -> None:
        world.flows = {"changes": (changes, DDL, False), "snapshot": (other, ddl, True)}
        with pytest.raises(UserError) as raised:
            world.plan()
        assert raised.value.condition == condition

    planned("AUTOCDC_SOFT_DELETES_COLUMN", SOFT)
    planned("AUTOCDC_DIFFERENT_SOFT_DELETES", SOFT, other=replace(SNAPSHOT, soft_deletes="gone"), ddl="id int")
    planned("AUTOCDC_RESERVED_COLUMN_NAME_PREFIX_CONFLICT", replace(SOFT, soft_deletes="__sluice_gone"), ddl="id int")
    planned("AUTOCDC_FILE_METADATA_COLUMN", replace(SOFT, soft_deletes="_metadata"), ddl="id int")
    planned("AUTOCDC_SOFT_DELETES_COLUMN", replace(SOFT, soft_deletes="NAME"), ddl="id int")
    planned("AUTOCDC_NEEDS_SCD_TYPE", replace(SOFT, scd_type=2, apply_as_truncates=None), ddl="id int")


@pytest.mark.parametrize(("declared", "is_right"), [(BooleanType(), True), (StringType(), False)])
def test_a_declared_flag_is_a_boolean(
    spark: SparkSession, tmp_path: Path, declared: DataType, *, is_right: bool
) -> None:
    """The schema of a target may have the flag, as BOOLEAN, in its own place."""
    world = world_of(spark, tmp_path)
    fields = [StructField("id", IntegerType()), StructField("name", StringType()), StructField("__deleted", declared)]
    schema = StructType(fields)
    if is_right:
        assert world.plan(declared=schema).row_schema.fieldNames() == ["id", "name"]
        return
    with pytest.raises(UserError) as raised:
        world.plan(declared=schema)
    assert (raised.value.condition, raised.value.fields["type"]) == ("AUTOCDC_SOFT_DELETES_TYPE", "string")
