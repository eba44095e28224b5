"""The first batch of a flow has the rows of its Delta sources, whether Delta reads their commits or their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta import DeltaTable

from framework import pipelines as dp
from framework.foundation.failpoints import arm, disarm
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LISTENERS_MILLISECONDS = 60_000
ROWS = [(1, "a"), (2, "b"), (3, "c")]
# The names are those of no other test: all workers have one list of jobs.
GROWN, CUT, AFTER, STOPPED = "first_read_grown", "first_read_cut", "first_read_after", "first_read_stopped"
BOTH, RACED = "first_read_both", "first_read_raced"


def jobs_of_flow(spark: SparkSession, flow: str) -> int:
    """How many jobs the stream of a flow has started; Spark describes each by the name of its query."""
    context: Any = spark._jsparkSession.sparkContext()
    context.listenerBus().waitUntilEmpty(_LISTENERS_MILLISECONDS)
    jobs = context.statusStore().jobsList(None)
    texts = [jobs.apply(number).description() for number in range(jobs.size())]
    return sum(text.isDefined() and text.get().startswith(f"main.s.{flow}\n") for text in texts)


def test_the_first_batch_of_a_table_that_only_grew_takes_no_query_of_its_log(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """One job reads and writes the rows, also those of a table that the same update made, and one those of the next.

    Each row arrives once. Delta looks for the files of a table whose rows were removed, also if the code loads it with
    the reader of another one, and reads a first batch again that was planned.
    """
    world = EngineWorld(interpreting, tmp_path)

    def declare() -> None:
        def read(source: str) -> DataFrame:
            return interpreting.readStream.format("delta").load(world.source(source))

        dp.table(name=GROWN)(lambda: read("grown"))
        dp.table(name=AFTER)(lambda: interpreting.readStream.table(GROWN))
        dp.table(name=CUT)(lambda: read("cut"))
        dp.table(name=STOPPED)(lambda: read("grown"))

        @dp.table(name=BOTH)
        def both() -> DataFrame:
            reader = interpreting.readStream.format("delta")
            return reader.load(world.source("grown")).union(reader.load(world.source("cut")))

    for source in ("grown", "cut"):
        world.feed(ROWS[:2], "id INT, name STRING", source)
        world.feed(ROWS[2:], "id INT, name STRING", source)
    DeltaTable.forPath(interpreting, world.source("cut")).delete("id = 1")
    arm("appends.after_commit", action=stop)
    try:
        assert world.run(declare, refresh=[STOPPED]).state is UpdateState.FAILED
    finally:
        disarm()
    world.feed([(4, "d")], "id INT, name STRING", "grown")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert [jobs_of_flow(interpreting, name) for name in (GROWN, AFTER)] == [1, 1]
    assert jobs_of_flow(interpreting, CUT) > 1, "the jobs of a stream are seen"
    world.feed([(5, "e")], "id INT, name STRING", "grown")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert [jobs_of_flow(interpreting, name) for name in (GROWN, AFTER)] == [2, 2]
    assert {name: world.rows(name) for name in (GROWN, AFTER, CUT, STOPPED, BOTH)} == {
        **{name: [*ROWS, (4, "d"), (5, "e")] for name in (GROWN, AFTER, STOPPED)}, CUT: ROWS[1:],
        BOTH: sorted([*ROWS, (4, "d"), (5, "e"), *ROWS[1:]], key=repr),
    }  # fmt: skip
    assert world.run(declare).is_idle


def remove_first_file(table: Path) -> None:
    """Commit the removal of the file that the first commit of a table added, without a job."""
    log = table / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text("utf-8").splitlines()]
    (path,) = [action["add"]["path"] for action in first if "add" in action]
    removed = {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}
    (log / f"{len([*log.glob('*.json')]):020d}.json").write_text(json.dumps(removed), "utf-8")


def test_rows_that_are_deleted_while_a_stream_starts_do_not_fail_its_flow(
    interpreting: SparkSession, tmp_path: Path
) -> None:
    """The stream begins again, with the files that are left: it has planned no batch of the commits."""
    world = EngineWorld(interpreting, tmp_path)
    for row in ROWS:
        world.feed([row], "id INT, name STRING")
    starts: list[int] = []

    def read() -> DataFrame:
        rows = interpreting.readStream.format("delta").load(world.source())
        if Path(world.path(RACED)).exists():  # the flow runs
            starts.append(len(starts))
            if starts == [0]:
                remove_first_file(Path(world.source()))
        return rows

    assert world.run(lambda: dp.table(name=RACED)(read)).state is UpdateState.COMPLETED
    assert (starts, world.rows(RACED)) == ([0, 1], ROWS[1:])
