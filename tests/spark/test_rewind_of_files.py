"""Files and recovery together: a rewind neither loses nor doubles rows of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import pipelines as dp
from framework.foundation.errors import UserErrors
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def landing(interpreting: SparkSession, tmp_path: Path) -> Landing:
    """An empty folder, and a pipeline before its first update."""
    return Landing(world=EngineWorld(interpreting, tmp_path), root=tmp_path / "in")


def test_a_rewind_to_before_a_first_batch_needs_the_files_that_it_has_read(landing: Landing) -> None:
    """A flow that is younger than the moment would begin again: without files that are gone, or after present ones."""
    world, is_new = landing.world, [False]

    def read(folder: str, **options: str) -> DataFrame:
        given = {"cloudFiles.format": "json", **options}
        return (
            world.spark.readStream.format("cloudFiles")
            .options(**given)
            .schema("id INT")
            .load(f"{landing.root}/{folder}")
        )

    def declare() -> None:
        dp.create_streaming_table("both")
        dp.create_streaming_table("late")
        dp.append_flow(target="both", name="first")(lambda: read("a"))
        dp.append_flow(target="late", name="newer")(
            lambda: read("c", **{"cloudFiles.includeExistingFiles": "false"})
        )  # fmt: skip
        if is_new[0]:
            dp.append_flow(target="both", name="second")(lambda: read("b"))

    landing.put("a/1.json", {"id": 1})
    landing.put("c/0.json", {"id": 0})
    first = world.run(declare)
    assert first.state is UpdateState.COMPLETED
    is_new[0] = True
    read_by_second = landing.put("b/2.json", {"id": 2})
    landing.put("c/3.json", {"id": 3})
    assert world.run(declare).state is UpdateState.COMPLETED
    rows = {"both": [(1,), (2,)], "late": [(3,)]}
    assert {name: world.rows(name) for name in rows} == rows
    read_by_second.unlink()
    with pytest.raises(UserErrors) as caught:
        world.pipeline(declare).rewinds.plan(first.update_id)
    lost = {str(error.fields["flow"]): str(error.fields["lost"]) for error in caught.value.errors}
    assert {flow: text.replace(str(landing.root), "") for flow, text in lost.items()} == {
        "main.s.second": "file:/b/2.json is gone",
        "main.s.newer": "`cloudFiles.includeExistingFiles=false` begins later in /c than it did",
    }
    assert world.run(declare).state is UpdateState.COMPLETED
    assert {name: world.rows(name) for name in rows} == rows
