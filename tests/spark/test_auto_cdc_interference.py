"""Changes of a target's tables between two batches: constraints, VACUUM and RESTORE."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework import pipelines as dp
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import OperationError
from framework.run.update.results import FlowState, UpdateState
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
    "scd1-merged": (SPEC, {"delta.enableChangeDataFeed": "true"}),
    "scd2": (replace(SPEC, scd_type=2), {}),
    "scd2-merged": (replace(SPEC, scd_type=2), {"delta.enableChangeDataFeed": "true"}),
}
"""Each type, written by replacing files and by MERGE. A test has each type and each way once."""
FIRST = [(1, "a", "U", 1), (2, "a", "U", 1)]
SECOND = [(1, "toolong", "U", 2), (2, None, "D", 2), (3, "c", "U", 2)]
THIRD = [(1, "d", "U", 4), (2, "late", "U", 0), (4, "d", "U", 4)]


def shown(world: World) -> Rows:
    """Return the names that a target displays; for a history, with their intervals."""
    interval = ("__START_AT", "__END_AT") if world.target.scd_type == 2 else ()
    return world.rows("id", "name", *interval)


AFTER_FIRST = {1: [(1, "a"), (2, "a")], 2: [(1, "a", 1, None), (2, "a", 1, None)]}
AFTER_SECOND = {
    1: [(1, "toolong"), (3, "c")],
    2: [(1, "a", 1, 2), (1, "toolong", 2, None), (2, "a", 1, 2), (3, "c", 2, None)],
}
AFTER_THIRD = {
    1: [(1, "d"), (3, "c"), (4, "d")],
    2: [
        *((1, "a", 1, 2), (1, "d", 4, None), (1, "toolong", 2, 4)),
        *((2, "a", 1, 2), (2, "late", 0, 1), (3, "c", 2, None), (4, "d", 4, None)),
    ],
}
AFTER_RESTORE = {
    1: [(1, "d"), (2, "a"), (4, "d")],
    2: [(1, "a", 1, 4), (1, "d", 4, None), (2, "a", 1, None), (4, "d", 4, None)],
}


def made(spark: SparkSession, root: Path, kept: str, **properties: str) -> World:
    """A target without rows."""
    spec, own = KEPT[kept]
    return World(spark, root, {"changes": (spec, DDL, False)}, own | properties)


@pytest.mark.parametrize("kept", ["scd1", "scd2-merged"])
def test_a_batch_that_violates_a_constraint_writes_nothing_and_is_replayed(
    interpreting: SparkSession, tmp_path: Path, kept: str
) -> None:
    """The error names constraint and value; after the constraint is dropped, the same batch is applied."""
    world = made(interpreting, tmp_path, kept, **{"delta.constraints.short": "length(name) < 5"})
    world.apply("changes", FIRST, batch_id=0)
    before = world.version()
    with pytest.raises(OperationError) as raised:
        world.apply("changes", SECOND, batch_id=1)
    assert "AUTOCDC_CONSTRAINT_VIOLATED" == raised.value.condition
    violation = str(raised.value.fields["violation"])
    assert all(text in violation for text in ("CHECK constraint short", "length(name) < 5", "name : toolong"))
    assert (before, AFTER_FIRST[world.target.scd_type]) == (world.version(), shown(world))
    interpreting.sql(f"ALTER TABLE {world.table.sql} DROP CONSTRAINT short")
    world.apply("changes", SECOND, batch_id=1)
    assert AFTER_SECOND[world.target.scd_type] == shown(world)


@pytest.mark.parametrize("kept", ["scd1-merged", "scd2"])
def test_a_restored_target_continues_and_a_reset_of_its_flow_reapplies_the_events(
    interpreting: SparkSession, tmp_path: Path, kept: str
) -> None:
    """RESTORE undoes rows but not transaction identifiers; rereading the source ends in the rows of all events.

    A VACUUM comes before each batch: they read the current version of the target and its auxiliary table only.
    """
    interpreting.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    interpreting.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # VACUUM's tasks: 10,000
    world = made(interpreting, tmp_path, kept)

    def vacuum() -> None:
        for table in (world.table, world.auxiliary):
            if Path(str(table.path)).exists():
                interpreting.sql(f"VACUUM {table.sql} RETAIN 0 HOURS")

    world.apply("changes", FIRST, batch_id=0)
    vacuum()
    version = world.version()
    world.apply("changes", SECOND, batch_id=1)
    interpreting.sql(f"RESTORE TABLE {world.table.sql} TO VERSION AS OF {version}")
    assert AFTER_FIRST[world.target.scd_type] == shown(world)
    assert world.apply("changes", SECOND, batch_id=1).skipped
    vacuum()
    world.apply("changes", [(1, "d", "U", 4), (4, "d", "U", 4)], batch_id=2)
    assert AFTER_RESTORE[world.target.scd_type] == shown(world)
    vacuum()
    world.generation["changes"] += 1
    world.apply("changes", [*FIRST, *SECOND, *THIRD], batch_id=0)
    assert AFTER_THIRD[world.target.scd_type] == shown(world)


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
