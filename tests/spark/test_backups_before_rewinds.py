"""A backup of the storage from before a rewind, put back after it, beside tables outside of the storage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.run.update.results import FlowState, UpdateState
from tests.support.engine_world import EngineWorld, states
from tests.support.interruption import interrupt
from tests.support.plain_tables import append_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REWOUND = "CHECKPOINT_OLDER_THAN_REWIND"
GONE = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
NAMES = ("appended", "merged")


class Lake:
    """Two tables outside of a storage that is replaced by an older backup; the source is outside, too."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.source = spark, root, str(root / "source")
        self.world = EngineWorld(spark, root / "app")

    def feed(self, *numbers: int) -> None:
        """Append a commit to the source."""
        append_rows(self.spark, self.source, [(number,) for number in numbers], "id INT")

    def declared(self) -> Callable[[], None]:
        """An append table and a target of AUTO CDC."""

        def rows() -> DataFrame:
            return self.spark.readStream.format("delta").load(self.source)

        def declare() -> None:
            dp.table(name="appended", path=str(self.root / "lake" / "appended"))(rows)
            dp.create_streaming_table("merged", path=str(self.root / "lake" / "merged"))
            dp.auto_cdc_flow(target="merged", name="changes", keys=["id"], sequence_by="id")(rows)

        return declare

    def rows(self) -> dict[str, list[int]]:
        """The rows of both tables."""
        folders = {name: str(self.root / "lake" / name) for name in NAMES}
        return {name: sorted(row[0] for row in table_rows(self.spark, folder)) for name, folder in folders.items()}

    def updated_twice(self) -> str:
        """Run two updates with a row each; the id of the first."""
        self.feed(1)
        first = self.world.run(self.declared())
        self.feed(2)
        assert self.world.run(self.declared()).state is UpdateState.COMPLETED
        return first.update_id

    def back_up(self) -> None:
        """Copy the storage."""
        shutil.copytree(self.root / "app", self.root / "backup")

    def put_back(self, folder: str = "") -> None:
        """Replace the storage, or a folder of it, by the copy."""
        shutil.rmtree(self.root / "app" / folder)
        shutil.copytree(self.root / "backup" / folder, self.root / "app" / folder)

    def broken(self) -> dict[str, str]:
        """The conditions of the flows that the plan does not start."""
        steps = [step for step in self.world.pipeline(self.declared()).plan().steps if isinstance(step, RunFlow)]
        return {step.flow.table: step.broken.condition for step in steps if step.broken is not None}


@pytest.mark.parametrize(
    ("way", "since"), [("rewind", "update"), ("rewind", "nothing"), ("reset", "update"), ("refresh", "nothing")]
)
def test_flows_from_before_a_rewind_do_not_go_on_in_the_rewound_tables(
    interpreting: SparkSession, tmp_path: Path, way: str, since: str
) -> None:
    """They would repeat rows that came after the rewind, or never read those again that it undid. Three ways out."""
    lake = Lake(interpreting, tmp_path)
    first = lake.updated_twice()
    lake.back_up()
    rewinds = lake.world.pipeline(lake.declared()).rewinds
    rewinds.rewind(rewinds.plan(first))
    lake.feed(3)
    before = {name: [1, 2, 3] if since == "update" else [1] for name in NAMES}
    if since == "update":
        assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
    lake.put_back()
    assert lake.broken() == {"appended": REWOUND, "changes": REWOUND}
    result = lake.world.run(lake.declared())
    assert states(result) == {"appended": FlowState.FAILED, "changes": FlowState.FAILED}
    assert lake.rows() == before
    lake.feed(4)
    pipeline = lake.world.pipeline(lake.declared())
    if way == "rewind":
        pipeline.rewinds.rewind(pipeline.rewinds.plan(first))
        result = pipeline.run()
    elif way == "refresh":
        result = pipeline.run(full_refresh=list(NAMES))
    else:
        result = pipeline.run(reset_checkpoints={"appended": "startingVersion=3", "changes": "startingVersion=0"})
    assert result.state is UpdateState.COMPLETED
    assert lake.rows() == {name: [1, 2, 3, 4] for name in NAMES}
    assert lake.broken() == {}


def test_a_reset_after_a_backup_was_put_back_skips_no_batch_of_its_table(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The table has batches of a generation that the backup does not have; the reset gets another number."""
    lake = Lake(interpreting, tmp_path)
    lake.feed(1)
    assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
    lake.back_up()
    reset = {"changes": "startingVersion=0"}
    assert lake.world.run(lake.declared(), reset_checkpoints=reset).state is UpdateState.COMPLETED
    lake.put_back()
    lake.feed(2)
    assert lake.world.run(lake.declared(), reset_checkpoints=reset).state is UpdateState.COMPLETED
    assert lake.rows()["merged"] == [1, 2]


@pytest.mark.parametrize(("way", "folder"), [("reset", ""), ("reset", "storage/checkpoints"), ("deleted", "")])
def test_an_append_flow_that_began_anew_does_not_go_on_from_an_earlier_checkpoint(
    interpreting: SparkSession, tmp_path: Path, way: str, folder: str
) -> None:
    """It would repeat the rows that came since; an AUTO CDC flow may apply its events again."""
    lake = Lake(interpreting, tmp_path)
    lake.feed(1)
    assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
    lake.back_up()
    lake.feed(2)
    if way == "reset":
        lake.world.run(lake.declared(), reset_checkpoints={"appended": "startingVersion=1"})
    else:
        shutil.rmtree(tmp_path / "lake" / "appended")
    assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
    assert lake.rows() == {name: [1, 2] for name in NAMES}
    lake.put_back(folder)
    assert lake.broken() == {"appended": GONE}
    assert states(lake.world.run(lake.declared())) == {"appended": FlowState.FAILED, "changes": FlowState.COMPLETED}
    assert lake.rows() == {name: [1, 2] for name in NAMES}
    lake.feed(3)
    lake.world.run(lake.declared(), reset_checkpoints={"appended": "startingVersion=2"})
    assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
    assert lake.broken() == {}
    assert lake.rows() == {name: [1, 2, 3] for name in NAMES}


@pytest.mark.parametrize("point", ["rewinds.after_names", "rewinds.after_restore"])
def test_a_backup_from_before_a_rewind_that_was_interrupted_does_not_go_on_in_its_tables(
    interpreting: SparkSession, tmp_path: Path, point: str
) -> None:
    """The backup does not have the rewind, and would never read the rows again that it has undone."""
    lake = Lake(interpreting, tmp_path)
    first = lake.updated_twice()
    lake.back_up()
    pipeline = lake.world.pipeline(lake.declared())
    plan = pipeline.rewinds.plan(first)
    interrupt(lambda: pipeline.rewinds.rewind(plan), point)
    lake.put_back()
    assert lake.broken() == {"appended": REWOUND}
    assert states(pipeline.run())["appended"] is FlowState.FAILED
    pipeline.rewinds.rewind(pipeline.rewinds.plan(first))
    assert pipeline.run().state is UpdateState.COMPLETED
    assert lake.rows() == {name: [1, 2] for name in NAMES}
