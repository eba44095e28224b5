"""Delta sources that others changed before a stream has read them: what the error says to do makes its table whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.plain_tables import delete_old_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

DDL = "id INT, name STRING, seq INT"
BREAKS = {
    "compacted": "DELTA_SOURCE_FILES_GONE",
    "deleted": "DELTA_SOURCE_IGNORE_DELETE",
    "renamed": "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
}


def test_the_error_of_a_source_that_was_changed_names_a_way_out(interpreting: SparkSession, tmp_path: Path) -> None:
    """A start where the checkpoint ends would come to the same commit, so that the error does not name it."""
    spark, world = interpreting, EngineWorld(interpreting, tmp_path)

    def declare() -> None:
        for name in BREAKS:

            @dp.temporary_view(name=f"{name}_changes")
            def changes(name: str = name) -> DataFrame:
                return spark.readStream.format("delta").load(world.source(name))

            dp.create_streaming_table(name)
            dp.create_auto_cdc_flow(target=name, source=f"{name}_changes", keys=["id"], sequence_by="seq")

    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE delta.`{world.source('renamed')}` ({DDL}) USING delta {mapped}")
    for row in (1, "a", 1), (2, "b", 1):
        for name in BREAKS:
            world.feed([row], DDL, called=name)
        if row[0] == 1:
            assert world.run(declare).state is UpdateState.COMPLETED
    spark.sql(f"OPTIMIZE delta.`{world.source('compacted')}`")
    delete_old_files(world.source("compacted"))
    spark.sql(f"DELETE FROM delta.`{world.source('deleted')}` WHERE id = 1")
    spark.sql(f"ALTER TABLE delta.`{world.source('renamed')}` RENAME COLUMN name TO title")

    errors = {flow.flow.table: flow.error for flow in world.run(declare).flows}
    assert BREAKS == {name: error.condition for name, error in errors.items() if error is not None}
    for name, error in errors.items():
        assert f"`sluice run --reset-checkpoint main.s.{name}`" in str(error)
        assert f"`sluice run --full-refresh main.s.{name}`" in str(error)
        assert "startingVersion" not in str(error)
    result = world.run(declare, reset_checkpoints=["compacted", "deleted"], full_refresh=["renamed"])
    assert result.state is UpdateState.COMPLETED
    assert {name: [(1, "a", 1), (2, "b", 1)] for name in BREAKS} == {name: world.rows(name) for name in BREAKS}
