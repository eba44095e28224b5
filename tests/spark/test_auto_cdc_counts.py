"""The counts of AUTO CDC: upserted, deleted and late rows, and expectations, of streams and of once flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework import pipelines as dp
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from framework.run.update.results import UpdateResult

EVENTS = "id INT, name STRING, operation STRING, position INT"


def test_each_flow_tells_what_it_changed_and_what_its_expectations_found(spark: SparkSession, tmp_path: Path) -> None:
    """In each flow, one row without a name is dropped; expectations do not apply to deletes."""
    world = EngineWorld(spark, tmp_path)
    world.feed([], EVENTS)

    def declare() -> None:
        for scd_type in (1, 2):
            target = f"people{scd_type}"
            dp.create_streaming_table(target, expect_all_or_drop={"has a name": "name IS NOT NULL"})

            @dp.snapshot_flow(target=target, name=f"before{scd_type}", keys=["id"], stored_as_scd_type=scd_type)
            def before() -> DataFrame:
                return spark.createDataFrame([(1, "An"), (2, "Bob"), (3, None)], "id INT, name STRING")

            @dp.auto_cdc_flow(
                target=target, name=f"since{scd_type}", keys=["id"], sequence_by="position",
                apply_as_deletes="operation = 'D'", except_column_list=["operation", "position"],
                stored_as_scd_type=scd_type,
            )  # fmt: skip
            def since() -> DataFrame:
                return spark.readStream.format("delta").load(world.source())

    first = world.run(declare)
    world.feed([(1, "Ann", "U", 5), (2, None, "D", 6), (4, None, "U", 7), (5, "Eve", "U", 8)], EVENTS)
    second = world.run(declare)
    # Type 2 keeps the rows that end: Ann's and Bob's are written once more.
    since = {1: {"num_upserted_rows": 2, "num_deleted_rows": 1}, 2: {"num_upserted_rows": 4, "num_deleted_rows": 0}}
    for scd_type in (1, 2):
        assert told(first, f"before{scd_type}") == {"state": "COMPLETED", "met": 2, "unmet": 1}
        assert told(second, f"since{scd_type}") == {"state": "COMPLETED", "met": 3, "unmet": 1}
        assert changed(world, f"before{scd_type}") == {"num_upserted_rows": 2, "num_deleted_rows": 0}
        assert changed(world, f"since{scd_type}") == since[scd_type]


def told(result: UpdateResult, name: str) -> dict[str, object]:
    """How a flow ended, and how many rows met its one expectation."""
    flow = next(each for each in result.flows if each.flow.table == name)
    (expectation,) = flow.expectations
    return {"state": str(flow.state), "met": expectation.passed, "unmet": expectation.failed}


def changed(world: EngineWorld, flow: str) -> dict[str, int]:
    """Return the row counts in the last event of a flow: the sums of the update."""
    events = [event for event in world.events(type="flow_progress") if str(event.origin.flow_name).endswith(flow)]
    told = [event.details["flow_progress"] for event in events]
    metrics = [each["metrics"] for each in told if each["status"] == "COMPLETED" and each.get("metrics")]
    return {name: metrics[-1][name] for name in ("num_upserted_rows", "num_deleted_rows")}
