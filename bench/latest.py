"""(n) The latest row of each key: `sluice run` with AUTO CDC, and `spark-pipelines run` with a view over a table.

Spark's own AUTO CDC does not support Delta, so its side is a view over a streaming table of all changes. Complete
processes are timed, for the second of two runs: 50,000 new changes after 300,000.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from bench.measure import Measure, pair_ratio, scratch_folder, seconds_of
from bench.side_by_side import copy_project, run_sluice, run_spark

GOAL = 1.0
_KEYS, _FIRST, _MORE = 100_000, 300_000, 50_000


def measure(pairs: int) -> list[Measure]:
    """The ratio of the second runs."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(pairs):
        for project, run, times in (("latest_sluice", run_sluice, ours), ("latest_spark", run_spark, theirs)):
            with scratch_folder() as folder:
                _prepare(folder, project)
                run(folder)
                _feed(folder, _FIRST, _MORE)
                times.append(run(folder))
    return [
        Measure(
            benchmark="n", what="latest row per key, second run: `sluice run` / `spark-pipelines run`", unit="x",
            goal=GOAL, value=pair_ratio(ours, theirs),
            detail=f"{seconds_of(ours)} / {seconds_of(theirs)}, {pairs} pairs",
        )
    ]  # fmt: skip


def _prepare(folder: Path, project: str) -> None:
    copy_project(project, folder)
    (folder / "data" / "changes").mkdir(parents=True)
    _feed(folder, 0, _FIRST)


def _feed(folder: Path, first: int, count: int) -> None:
    """A file of changes of random keys, in order."""
    chance = random.Random(first)  # noqa: S311 - test data
    with (folder / "data" / "changes" / f"{first}.json").open("w", encoding="utf-8") as file:
        for number in range(first, first + count):
            operation = "D" if chance.random() < 0.02 else "U"
            change = {"id": chance.randrange(_KEYS), "name": f"name {number}", "city": f"city {number % 1000}"}
            file.write(json.dumps({**change, "op": operation, "seq": number}) + "\n")
