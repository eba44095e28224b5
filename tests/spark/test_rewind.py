"""A rewind takes tables and their flows back together: afterwards nothing is lost, and nothing is doubled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import Pipeline
from framework.checkpoints.reset_requests import ResetRequest, ResetRequests
from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError, UserError
from framework.foundation.names import QualifiedName
from framework.plan.steps import SkipStep
from framework.record.events import EventType
from framework.record.reader import read_events
from framework.run.update.results import UpdateState
from tests.support.interruption import interrupt
from tests.support.plain_tables import append_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]

CODE = """
from framework import pipelines as dp
from pyspark.sql import functions as F

SUFFIX, LEAST = "{suffix}", {least}

@dp.table
def visits():
    rows = spark.readStream.format("delta").load("{data}/visits").withWatermark("at", "1 hour")
    return rows.dropDuplicates(["id", "at"]).withColumn("city", F.concat("city", F.lit(SUFFIX)))

@dp.table
def loud():
    return spark.readStream.table("visits").select("id", F.upper("city").alias("city"))

@dp.materialized_view
def per_city():
    return spark.read.table("loud").groupBy("city").count()

@dp.table
def notes():
    return spark.readStream.schema("id INT").json("{data}/notes").where(F.col("id") > LEAST)

@dp.table(table_properties={{"sluice.quarantine": "true"}})
@dp.expect_or_drop("small", f"id <= {{max(LEAST, 2)}}")
def letters():
    files = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id INT")
    return files.load("{data}/letters").withColumn("suffix", F.lit(SUFFIX))

def changes():
    rows = spark.readStream.format("delta").load("{data}/changes")
    # The bad code deletes key 4 at a point at which it is inserted: a delete that is left behind would win.
    rows = rows.withColumn("op", F.when((F.col("id") == 4) & (F.lit(SUFFIX) != ""), "D").otherwise(F.col("op")))
    return rows.withColumn("name", F.concat("name", F.lit(SUFFIX)))

dp.temporary_view(name="changes")(changes)

for number in (1, 2):
    dp.create_streaming_table(f"people{{number}}")
    dp.create_auto_cdc_flow(
        target=f"people{{number}}", source="changes", keys=["id"], sequence_by="seq", stored_as_scd_type=number,
        apply_as_deletes="op = 'D'", except_column_list=["op", "seq"],
    )
"""
TABLES = ("visits", "loud", "per_city", "notes", "letters", "people1", "people2")
AT_LAST: dict[str, Rows] = {
    "visits": [(1, "bern"), (2, "oslo"), (3, "rome"), (4, "kyiv")],
    "loud": [(1, "BERN"), (2, "OSLO"), (3, "ROME"), (4, "KYIV")],
    "per_city": [("BERN", 1), ("KYIV", 1), ("OSLO", 1), ("ROME", 1)],
    "notes": [(1,), (2,), (3,)],
    "letters": [(1, ""), (2, "")],
    "people1": [(1, "anna"), (4, "di")],
    "people2": [
        (1, "ann", 1, 5), (1, "anna", 5, None), (2, "bo", 1, 3), (2, "bo1", 3, 4), (2, "bo2", 4, 6), (3, "cy", 1, 2),
        (4, "di", 7, None),
    ],
}  # fmt: skip


class World:
    """A pipeline over sources in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        for name in ("notes", "letters"):
            (folder / name).mkdir()

    def pipeline(self, *, bad: bool = False) -> Pipeline:
        """The pipeline with bad or with good code."""
        code = CODE.format(data=self.folder, suffix="?!" if bad else "", least=10 if bad else 0)
        file = self.folder / "code.py"
        file.write_text(code, "utf-8")
        return Pipeline(name="world", modules=[file], storage=self.folder / "storage", spark=self.spark)

    def feed(self, number: int, visits: Sequence[tuple[int, str, int]], changes: Rows) -> None:
        """Append to all sources; a file of letters has a second one that is too large."""
        at = [(each, city, datetime.fromtimestamp(second, UTC)) for each, city, second in visits]
        append_rows(self.spark, str(self.folder / "visits"), at, "id INT, city STRING, at TIMESTAMP")
        append_rows(self.spark, str(self.folder / "changes"), changes, "id INT, name STRING, op STRING, seq INT")
        (self.folder / "notes" / f"{number}.json").write_text(f'{{"id": {number}}}', "utf-8")
        (self.folder / "letters" / f"{number}.json").write_text(f'{{"id": {number}}}\n{{"id": {number + 6}}}', "utf-8")

    def oldest_file(self, table: str) -> Path:
        """The first file of a table."""
        files = (self.folder / "storage/tables/main/default" / table).glob("*.parquet")
        return min(files, key=lambda file: file.stat().st_mtime)

    def run(self, *, bad: bool = False) -> str:
        """Run an update, and return its id."""
        result = self.pipeline(bad=bad).run()
        assert result.state is UpdateState.COMPLETED, [flow.error for flow in result.flows if flow.error]
        return result.update_id


def rows_of(world: World, names: Sequence[str] = TABLES) -> dict[str, Rows]:
    """The rows of tables, sorted; of visits without their time."""
    found = {}
    for name in names:
        path = str(world.folder / "storage/tables/main/default" / name)
        rows = table_rows(world.spark, path, without="at" if name == "visits" else "__sluice")
        found[name] = sorted(map(tuple, rows), key=str)
    return found


def open_rows(pipeline: Pipeline) -> list[int]:
    """The ids of the open rows of the quarantine."""
    rows = pipeline.quarantine.rows().where("state = 'open'").selectExpr("row:id::int AS id")
    return sorted(row.id for row in rows.collect())


def waiting_resets(pipeline: Pipeline) -> ResetRequests:
    """The resets of a flow and of one of another pipeline, as a continuous update leaves them that ends first."""
    resets = ResetRequests(pipeline.storage, SystemClock())
    visits, other = (QualifiedName(catalog="main", schema="default", table=flow) for flow in ("visits", "other"))
    start = pipeline.starts_of(visits, ["startingVersion=2"])
    resets.ask(ResetRequest(dataset=visits, flow=visits, start=start))
    resets.ask(ResetRequest(dataset=other, flow=other, start=None))
    return resets


def test_after_a_rewind_the_fixed_code_ends_where_it_would_have_ended(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """Tables, state, positions in every kind of source, AUTO CDC's history and a reader of a table go back together.

    The rewind is interrupted between each two of its writes.
    """
    world = World(interpreting, tmp_path)
    world.feed(
        1,
        [(1, "bern", 1), (1, "bern", 1), (2, "oslo", 2)],
        [(1, "ann", "U", 1), (2, "bo", "U", 1), (3, "cy", "U", 1), (3, None, "D", 2), (2, "bo2", "U", 4)],
    )
    first = world.run()
    world.feed(2, [(2, "oslo", 2), (3, "rome", 3)], [(1, "anna", "U", 5), (2, "bo1", "U", 3)])
    world.feed(3, [(1, "bern", 1), (4, "kyiv", 4)], [(2, None, "D", 6), (4, "di", "U", 7)])
    world.run(bad=True)
    assert world.pipeline(bad=True).quarantine.replay("letters").passed == 1
    fixed = world.pipeline()
    resets, plan = waiting_resets(fixed), fixed.rewinds.plan(first)
    assert [flow.table for flow in plan.resets] == ["visits"]
    assert [each.auxiliary is not None for each in plan.tables] == [False, False, False, True, True]
    needed = world.oldest_file("people1")
    needed.rename(needed.with_suffix(".gone"))
    with pytest.raises(UserError, match=f"REWIND_FILES_GONE.*{needed.name}"):
        fixed.rewinds.plan(first)
    needed.with_suffix(".gone").rename(needed)
    interrupt(lambda: fixed.rewinds.rewind(plan, "bad names"), "rewinds.after_mark")
    for refused in (fixed.plan, lambda: fixed.quarantine.drop("letters"), lambda: fixed.rewinds.plan(first)):
        with pytest.raises(OperationError, match="REWIND_UNFINISHED"):
            refused()
    for place, nth in (("names", 2), ("restore", 2), ("table", 3), ("checkpoint", 2), ("quarantine", 1)):
        interrupt(fixed.rewinds.finish, f"rewinds.after_{place}", nth)
    assert [each.flow.table for each in resets.pending()] == ["other"]
    interrupt(fixed.run, "rewinds.after_generation", 2)
    result = fixed.run()
    assert [flow.error for flow in result.flows if flow.error] == []
    assert rows_of(world) == AT_LAST
    assert open_rows(fixed) == [3, 7, 8, 9]
    events = read_events(fixed.storage, type=EventType.USER_ACTION)
    found = [(event, event.details["user_action"]) for event in events]
    rewinds = [(each["status"], each["to"], each["reason"]) for _, each in found if each["action"] == "REWIND"]
    assert rewinds == [("BEGUN", first, "bad names"), ("DONE", first, "bad names")]
    assert [step for step in fixed.plan().steps if not isinstance(step, SkipStep)] == []
    # To the end of the rewind: the position is that of a generation that began with it, and wrote nothing yet.
    rewound = next(event.timestamp for event, each in found if each.get("status") == "DONE")
    again = fixed.rewinds.plan(rewound, ["people2"])
    fixed.rewinds.rewind(again)
    assert [(each.flow.origin, each.flow.batch) for each in again.flows] == [(2, 0)]
    assert fixed.run(refresh=["people2"]).state is UpdateState.COMPLETED
    assert rows_of(world, ["people2"]) == {"people2": AT_LAST["people2"]}
