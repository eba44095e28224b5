"""A flow goes on past a renamed column of its Delta source in the way that the doctor names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from delta.tables import DeltaTable

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_flow_reads_past_a_renamed_column_with_what_the_doctor_says(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """No row is lost or doubled, and after a full refresh the doctor names the folder of the new checkpoint."""
    world = EngineWorld(interpreting, tmp_path)
    source, options = world.source(), dict[str, str]()

    def declare() -> None:
        @dp.table
        def letters() -> DataFrame:
            return interpreting.readStream.format("delta").options(**options).load(source)

    def run(**request: list[str]) -> tuple[bool, str, list[str]]:
        """Whether an update completed, and the first diagnosis after it, with the folders that its first way names."""
        done = world.run(declare, **request).state is UpdateState.COMPLETED
        findings = [] if done else world.pipeline(declare).doctor.examine().findings
        text = findings[0].ways[0].text if findings else ""
        return done, "".join(each.diagnosis.name for each in findings), re.findall("`(/.*?)`", text)

    columns = DeltaTable.create(interpreting).location(source).addColumn("id", "INT").addColumn("kind", "STRING")
    columns.property("delta.columnMapping.mode", "name").execute()
    interpreting.sql(f"INSERT INTO delta.`{source}` VALUES (1, 'a')")
    assert run() == (True, "", [])
    interpreting.sql(f"INSERT INTO delta.`{source}` VALUES (2, 'b')")
    interpreting.sql(f"ALTER TABLE delta.`{source}` RENAME COLUMN kind TO sort")
    interpreting.sql(f"INSERT INTO delta.`{source}` VALUES (3, 'c')")
    done, diagnosis, (folder,) = run()
    assert (done, diagnosis) == (False, "DELTA_SOURCE_COLUMNS_REPLACED")
    options["schemaTrackingLocation"] = folder
    assert [run(), run(), run()] == [
        (False, "DELTA_SCHEMA_RECORDED", []),
        (False, "DELTA_SCHEMA_RECORDED", []),
        (False, "DELTA_SCHEMA_CHANGE_NOT_ALLOWED", []),
    ]
    options["allowSourceColumnRename"] = "always"
    assert run() == (True, "", [])
    assert world.rows("letters") == [(1, "a", None), (2, "b", None), (3, None, "c")]
    done, diagnosis, (folder,) = run(full_refresh=["letters"])
    assert (done, diagnosis) == (False, "DELTA_SCHEMA_LOG_MISPLACED")
    options["schemaTrackingLocation"] = folder
    assert run() == (True, "", [])
    assert world.rows("letters") == [(1, "a"), (2, "b"), (3, "c")]
