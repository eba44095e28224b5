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
from tests.support.engine_world import EngineWorld, forget_tables, states
from tests.support.interruption import copying
from tests.support.plain_tables import append_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REWOUND = "CHECKPOINT_OLDER_THAN_REWIND"
GONE = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
POINTS = ("rewinds.after_names", "rewinds.after_restore")
COPIED = "rewinds.after_checkpoint"


class Lake:
    """Tables outside of a storage that is replaced by an older backup; the source is outside, too.

    Args:
        spark: the session.
        root: a folder of its own; what is kept is beside it.
        appended: the tables of appended rows; there is a target of AUTO CDC, too.
    """

    def __init__(self, spark: SparkSession, root: Path, *appended: str) -> None:
        self.spark, self.root, self.source = spark, root, str(root / "source")
        self.appended = appended or ("appended",)
        self.world = EngineWorld(spark, root / "app")

    def feed(self, *numbers: int) -> None:
        """Append a commit to the source."""
        append_rows(self.spark, self.source, [(number,) for number in numbers], "id INT")

    def declared(self) -> Callable[[], None]:
        """The tables."""

        def rows() -> DataFrame:
            return self.spark.readStream.format("delta").load(self.source)

        def declare() -> None:
            for name in self.appended:
                dp.table(name=name, path=str(self.root / "lake" / name))(rows)
            dp.create_streaming_table("merged", path=str(self.root / "lake" / "merged"))
            dp.auto_cdc_flow(target="merged", name="changes", keys=["id"], sequence_by="id")(rows)

        return declare

    def all(self, *ids: int) -> dict[str, list[int]]:
        """All tables with the same rows."""
        return {name: [*ids] for name in (*self.appended, "merged")}

    def rows(self) -> dict[str, list[int]]:
        """The rows of all tables."""
        folders = {name: str(self.root / "lake" / name) for name in self.all()}
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

    def put_back(self, folder: str = "", kept: str = "") -> None:
        """Replace the storage, or a folder of it, by the copy, or by that of what was kept."""
        copy = self.root.parent / kept / "app" if kept else self.root / "backup"
        shutil.rmtree(self.root / "app" / folder)
        shutil.copytree(copy / folder, self.root / "app" / folder)

    def keep(self, name: str) -> None:
        """Keep everything as it is now: storage, tables, source and backup."""
        shutil.copytree(self.root, self.root.parent / name)

    def back_to(self, name: str) -> None:
        """Have everything again as it was kept."""
        shutil.rmtree(self.root)
        shutil.copytree(self.root.parent / name, self.root)
        forget_tables()

    def broken(self) -> dict[str, str]:
        """The conditions of the flows that the plan does not start."""
        steps = [step for step in self.world.pipeline(self.declared()).plan().steps if isinstance(step, RunFlow)]
        return {step.flow.table: step.broken.condition for step in steps if step.broken is not None}


@pytest.fixture(scope="module")
def rewound(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, str]:
    """A rewind to the first of two updates, after a backup, kept at its end and where a crash may interrupt it."""
    lake = Lake(spark.newSession(), tmp_path_factory.mktemp("rewinds") / "root")
    first = lake.updated_twice()
    lake.back_up()
    rewinds = lake.world.pipeline(lake.declared()).rewinds
    plan = rewinds.plan(first)
    copying(lambda: rewinds.rewind(plan), lake.root, {point: lake.root.parent / point for point in (*POINTS, COPIED)})
    lake.feed(3)
    lake.keep("rewound")
    return lake, first


def end(lake: Lake, way: str, first: str) -> UpdateState:
    """End the state that the backup caused: by a rewind, resets or full refreshes; then update."""
    pipeline = lake.world.pipeline(lake.declared())
    if way == "rewind":
        pipeline.rewinds.rewind(pipeline.rewinds.plan(first))
        return pipeline.run().state
    if way == "refresh":
        return pipeline.run(full_refresh=["appended", "merged"]).state
    return pipeline.run(reset_checkpoints={"appended": "startingVersion=3", "changes": "startingVersion=0"}).state


@pytest.mark.parametrize(("since", "ways"), [("update", ("rewind", "reset")), ("nothing", ("rewind", "refresh"))])
def test_flows_from_before_a_rewind_do_not_go_on_in_the_rewound_tables(
    rewound: tuple[Lake, str], since: str, ways: tuple[str, ...]
) -> None:
    """They would repeat rows that came after the rewind, or never read those again that it undid. Three ways out."""
    lake, first = rewound
    lake.back_to("rewound")
    if since == "update":
        assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
        # The folder of the new checkpoint is there, the generation has not begun.
        lake.put_back("storage/checkpoints", COPIED)
        assert lake.broken() == {"appended": REWOUND, "changes": REWOUND}
    lake.put_back()
    assert lake.broken() == {"appended": REWOUND, "changes": REWOUND}
    result = lake.world.run(lake.declared())
    assert states(result) == {"appended": FlowState.FAILED, "changes": FlowState.FAILED}
    assert lake.rows() == (lake.all(1, 2, 3) if since == "update" else lake.all(1))
    lake.feed(4)
    lake.keep(since)
    for way in ways:
        lake.back_to(since)
        assert (way, end(lake, way, first)) == (way, UpdateState.COMPLETED)
        assert (way, lake.rows()) == (way, lake.all(1, 2, 3, 4))
        assert (way, lake.broken()) == (way, {})


@pytest.mark.parametrize("point", POINTS)
def test_a_backup_from_before_a_rewind_that_was_interrupted_does_not_go_on_in_its_tables(
    rewound: tuple[Lake, str], point: str
) -> None:
    """The backup does not have the rewind, and would never read the rows again that it has undone."""
    lake, first = rewound
    lake.back_to(point)
    lake.put_back()
    assert lake.broken() == {"appended": REWOUND}
    assert states(lake.world.run(lake.declared()))["appended"] is FlowState.FAILED
    assert end(lake, "rewind", first) is UpdateState.COMPLETED
    assert lake.rows() == lake.all(1, 2)


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


def test_an_append_flow_that_began_anew_does_not_go_on_from_an_earlier_checkpoint(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """It would repeat the rows that came since; an AUTO CDC flow may apply its events again.

    One flow began anew by a reset, one since its table was deleted.
    """
    lake = Lake(interpreting, tmp_path / "root", "reset", "deleted")
    lake.feed(1)
    assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
    lake.back_up()
    lake.feed(2)
    shutil.rmtree(lake.root / "lake" / "deleted")
    lake.world.run(lake.declared(), reset_checkpoints={"reset": "startingVersion=1"})
    assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
    assert lake.rows() == lake.all(1, 2)
    lake.keep("anew")
    for folder in ("", "storage/checkpoints"):
        lake.back_to("anew")
        lake.put_back(folder)
        assert lake.broken() == {"reset": GONE, "deleted": GONE}
        failed = dict.fromkeys(("reset", "deleted"), FlowState.FAILED)
        assert states(lake.world.run(lake.declared())) == {**failed, "changes": FlowState.COMPLETED}
        assert lake.rows() == lake.all(1, 2)
        lake.feed(3)
        lake.world.run(lake.declared(), reset_checkpoints=dict.fromkeys(("reset", "deleted"), "startingVersion=2"))
        assert lake.world.run(lake.declared()).state is UpdateState.COMPLETED
        assert lake.broken() == {}
        assert lake.rows() == lake.all(1, 2, 3)
