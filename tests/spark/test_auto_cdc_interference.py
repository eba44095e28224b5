"""Changes of a target's tables between two batches: constraints and RESTORE; and a refreshed source."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from delta import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from framework import pipelines as dp
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.files.local_storage import LocalStorage
from framework.run.update.results import FlowState, UpdateState
from framework.sources.delta.log import read_tip
from tests.support.cdc_world import World
from tests.support.engine_world import EngineWorld, states

Rows = list[tuple[object, ...]]

DDL = "id INT, name STRING, op STRING, seq INT"
SPEC = AutoCdcSpec(
    keys=("id",),
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
KEPT = {
    "scd1": (SPEC, {}),
    "scd2-merged": (replace(SPEC, scd_type=2), {"delta.enableChangeDataFeed": "true"}),
}
"""Each type and each way, by replacing files and by MERGE."""
FIRST = [(1, "a", "U", 1), (2, "a", "U", 1)]
SECOND = [(1, "toolong", "U", 2), (2, None, "D", 2), (3, "c", "U", 2)]


def shown(world: World) -> Rows:
    """Return the names that a target displays; for a history, with their intervals."""
    interval = ("__START_AT", "__END_AT") if world.target.scd_type == 2 else ()
    return world.rows("id", "name", *interval)


AFTER_FIRST = {1: [(1, "a"), (2, "a")], 2: [(1, "a", 1, None), (2, "a", 1, None)]}
AFTER_SECOND = {
    1: [(1, "toolong"), (3, "c")],
    2: [(1, "a", 1, 2), (1, "toolong", 2, None), (2, "a", 1, 2), (3, "c", 2, None)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violated:
    """A target after a batch that violated a constraint, and that was replayed without the constraint.

    Args:
        world: the target.
        error: of the first try.
        versions: of the target before and after the first try.
        rows: what the target displayed after the first try, and after the second one.
    """

    world: World
    error: OperationError
    versions: tuple[int, int]
    rows: tuple[Rows, Rows]


@pytest.fixture(scope="module", params=KEPT)
def violated(spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Violated:
    """A target of each type that had the constraint."""
    spec, own = KEPT[request.param]
    properties = {**own, "delta.constraints.short": "length(name) < 5"}
    root = tmp_path_factory.mktemp("violated")
    world = World(spark.newSession(), root, {"changes": (spec, DDL, False)}, properties)
    world.apply("changes", FIRST, batch_id=0)
    before = world.version()
    with pytest.raises(OperationError) as raised:
        world.apply("changes", SECOND, batch_id=1)
    failed = (world.version(), shown(world))
    world.spark.sql(f"ALTER TABLE {world.table.sql} DROP CONSTRAINT short")
    world.apply("changes", SECOND, batch_id=1)
    return Violated(world=world, error=raised.value, versions=(before, failed[0]), rows=(failed[1], shown(world)))


def test_a_batch_that_violates_a_constraint_writes_nothing_and_is_replayed(violated: Violated) -> None:
    """The error names constraint and value; after the constraint is dropped, the same batch is applied."""
    assert "AUTOCDC_CONSTRAINT_VIOLATED" == violated.error.condition
    violation = str(violated.error.fields["violation"])
    assert all(text in violation for text in ("CHECK constraint short", "length(name) < 5", "name : toolong"))
    before, after = violated.versions
    scd_type = violated.world.target.scd_type
    assert (before, AFTER_FIRST[scd_type], AFTER_SECOND[scd_type]) == (after, *violated.rows)


def test_a_restored_target_skips_the_batches_that_it_had(violated: Violated) -> None:
    """RESTORE undoes rows but not transaction identifiers; `test_auto_cdc_updates.py` has what brings the rows back."""
    world = violated.world
    world.spark.sql(f"RESTORE TABLE {world.table.sql} TO VERSION AS OF {violated.versions[0]}")
    assert world.apply("changes", SECOND, batch_id=1).skipped
    assert AFTER_FIRST[world.target.scd_type] == shown(world)


def test_a_batch_is_decided_anew_after_a_change_of_the_definition(interpreting: SparkSession, tmp_path: Path) -> None:
    """Someone adds a column between the commits of a batch: the batch takes the table as it is then."""
    world = World(interpreting, tmp_path, {"changes": (SPEC, DDL, False)})
    world.apply("changes", FIRST)

    def add_column() -> None:
        world.spark.sql(f"ALTER TABLE {world.table.sql} ADD COLUMN (own STRING)")

    arm("cdc.after_tombstones", action=add_column)
    try:
        world.apply("changes", SECOND)
    finally:
        disarm()
    assert [(1, "toolong", None), (3, "c", None)] == world.rows("id", "name", "own")


def test_recorded_deletes_have_the_keys_of_a_full_refresh(interpreting: SparkSession, tmp_path: Path) -> None:
    """The refresh has no delete, so that the table of the deletes of before is emptied, and gets the keys of now."""
    world = EngineWorld(interpreting, tmp_path)

    def declaring(*keys: str, deletes: str) -> Callable[[], None]:
        def declare() -> None:
            dp.create_streaming_table("t")

            @dp.auto_cdc_flow(
                target="t", name="changes", keys=[*keys], sequence_by="seq", apply_as_deletes=f"op = '{deletes}'",
                except_column_list=["op", "seq"],
            )  # fmt: skip
            def changes() -> DataFrame:
                return world.spark.readStream.format("delta").load(world.source())

        return declare

    ddl = "id INT, part STRING, op STRING, seq INT"
    world.feed([(1, "a", "U", 1), (2, "a", "U", 1), (2, "a", "D", 2)], ddl)
    assert world.run(declaring("id", deletes="D")).state is UpdateState.COMPLETED
    assert world.rows("t") == [(1, "a")]
    declare = declaring("id", "part", deletes="X")
    assert world.run(declare, full_refresh=["t"]).state is UpdateState.COMPLETED
    world.feed([(1, "b", "U", 3), (2, "a", "X", 3)], ddl)
    result = world.run(declare)
    assert [flow.error for flow in result.flows if flow.error is not None] == []
    assert world.rows("t") == [(1, "a"), (1, "b")]


REPLACED: dict[str, tuple[dict[str, str], Sequence[Sequence[object]]]] = {
    "replaced": ({}, SECOND),
    "replaced before a MERGE": ({"delta.enableChangeDataFeed": "true"}, SECOND),
    "deleted before": ({}, [(1, None, "D", 2), (2, None, "D", 2)]),
    "deleted before a MERGE": ({"delta.enableChangeDataFeed": "true"}, SECOND),
}
"""How another table takes the place of a target, its properties, and the batch that runs."""


@pytest.mark.parametrize("how", REPLACED)
def test_a_batch_writes_nothing_to_another_table_that_takes_the_place_of_its_target(
    interpreting: SparkSession, tmp_path: Path, how: str
) -> None:
    """The batch has begun, and its deletes are recorded: Delta would commit to the log of the new table."""
    own, batch = REPLACED[how]
    world = World(interpreting, tmp_path, {"changes": (SPEC, DDL, False)}, own)
    world.apply("changes", FIRST)
    path = str(world.table.path)
    tip = read_tip(LocalStorage(str(tmp_path)), path)
    assert tip is not None
    world.table = replace(world.table, table_id=tip.table_id)

    def put_another() -> None:
        make = DeltaTable.replace
        if how.startswith("deleted"):
            shutil.rmtree(path)
            make = DeltaTable.create
        made = make(world.spark).location(path).addColumns(world.target.table_schema)
        for key, value in {"delta.enableDeletionVectors": "true", **own}.items():
            made = made.property(key, value)
        made.execute()
        append_row(world, (7, "own"))

    arm("cdc.after_tombstones", action=put_another)
    try:
        with pytest.raises(OperationError) as raised:
            world.apply("changes", batch)
    finally:
        disarm()
    assert raised.value.condition == "TABLE_REPLACED"
    assert [(7, "own")] == world.rows("id", "name")


def append_row(world: World, row: tuple[int, str]) -> None:
    """Append a row as a user would."""
    rows = world.spark.createDataFrame([row], "id INT, name STRING")
    rows.write.format("delta").mode("append").save(str(world.table.path))


def test_a_flow_fails_after_its_source_is_refreshed_and_a_reset_rereads_the_source(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The replaced rows are no appends, so the flow fails and keeps its target; a reset ends in the right rows."""
    world = EngineWorld(interpreting, tmp_path)

    def declare() -> None:
        @dp.table
        def bronze() -> DataFrame:
            return world.spark.readStream.format("delta").load(world.source())

        dp.create_streaming_table("silver")
        dp.create_auto_cdc_flow(
            target="silver", source="bronze", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'D'",
            except_column_list=["op", "seq"],
        )  # fmt: skip

    world.feed([(1, "a", "U", 1), (2, "a", "U", 1)], DDL)
    assert world.run(declare).state is UpdateState.COMPLETED
    assert world.run(declare, full_refresh=["bronze"]).state is UpdateState.COMPLETED
    world.feed([(1, "b", "U", 2), (2, None, "D", 2)], DDL)
    failed = world.run(declare)
    assert {"bronze": FlowState.COMPLETED, "silver": FlowState.FAILED} == states(failed)
    error = next(flow.error for flow in failed.flows if flow.flow.table == "silver")
    assert "DELTA_SOURCE_TABLE_IGNORE_CHANGES" in str(error)
    assert [(1, "a"), (2, "a")] == world.rows("silver")
    assert world.run(declare, reset_checkpoints=["silver"]).state is UpdateState.COMPLETED
    assert [(1, "b")] == world.rows("silver")
    assert world.run(declare).is_idle
