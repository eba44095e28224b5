"""A damaged record of a table, and a quarantine that can't be read, concern only the flows that need them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.errors import OperationError
from framework.plan.steps import KeepStored
from framework.run.update.results import FlowState
from tests.support.engine_world import EngineWorld, forget_tables, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DONE, _FAILED = FlowState.COMPLETED, FlowState.FAILED


def declare(world: EngineWorld) -> None:
    """A table with a quarantine, and one without."""

    def rows() -> DataFrame:
        return world.spark.readStream.format("delta").load(world.source())

    dp.table(name="sound")(rows)

    @dp.table(table_properties={"sluice.quarantine": "true"})
    @dp.expect_or_drop("positive", "id > 0")
    def checked() -> DataFrame:
        return rows()


def test_only_the_flow_that_needs_a_damaged_file_fails(spark: SparkSession, tmp_path: Path) -> None:
    """Plan, doctor and queries work, the file and the way out are named, and afterwards each row is there once."""
    world = EngineWorld(spark.newSession(), tmp_path)
    pipeline = world.pipeline(lambda: declare(world))
    world.feed([(1,), (-1,)], "id INT")
    assert set(states(pipeline.run()).values()) == {_DONE}

    world.feed([(2,), (-2,)], "id INT")
    records = tmp_path / "storage" / "records"
    for name in ("strange", "main.s.gone", "main.s.checked"):
        (records / f"{name}.json").write_text("{garbage", "utf-8")
    pipeline = world.pipeline(lambda: declare(world))
    kept = {step.dataset.table: step.reason for step in pipeline.plan().steps if isinstance(step, KeepStored)}
    assert (
        kept["gone"] == f"no longer declared, table kept; {records}/main.s.gone.json can't be used, STORED_FILE_DAMAGED"
    )
    findings = pipeline.doctor.examine().findings
    assert [(each.flow and each.flow.table, each.condition) for each in findings] == [
        ("checked", "STORED_FILE_DAMAGED")
    ]
    assert pipeline.sql("SELECT id FROM sound").count() == 2
    result = pipeline.run()
    assert states(result) == {"sound": _DONE, "checked": _FAILED}
    (fault,) = [flow.error for flow in result.flows if flow.error is not None]
    assert f"{records}/main.s.checked.json" in fault.what
    assert "Or delete it: the next update reads the table, and writes it again." in fault.remedy
    (records / "main.s.checked.json").unlink()
    assert states(world.pipeline(lambda: declare(world)).run()) == {"sound": FlowState.IDLE, "checked": _DONE}
    assert (world.rows("sound"), world.rows("checked")) == ([(-1,), (-2,), (1,), (2,)], [(1,), (2,)])

    world.feed([(3,), (-3,)], "id INT")
    log = tmp_path / "storage" / "quarantine" / "_delta_log" / f"{0:020}.json"
    commit = log.read_bytes()
    log.unlink()
    forget_tables()
    pipeline = world.pipeline(lambda: declare(world))
    findings = pipeline.doctor.examine().findings
    assert [(each.flow, each.condition, "DELTA_TRUNCATED" in each.cause) for each in findings] == [
        (None, "QUARANTINE_UNREADABLE", True)
    ]
    with pytest.raises(OperationError, match="QUARANTINE_UNREADABLE"):
        pipeline.quarantine.list()
    assert pipeline.sql("SELECT id FROM sound").count() == 4
    assert {flow.flow.table: flow.error and flow.error.condition for flow in pipeline.run().flows} == {
        "sound": None, "checked": "QUARANTINE_UNREADABLE"
    }  # fmt: skip
    log.write_bytes(commit)
    forget_tables()
    assert states(world.pipeline(lambda: declare(world)).run())["checked"] is _DONE
    assert world.rows("checked") == [(1,), (2,), (3,)]
    quarantined = world.pipeline(lambda: declare(world)).quarantine.rows().selectExpr("row:id::int").collect()
    assert sorted(row[0] for row in quarantined) == [-3, -2, -1]
