"""(b) An update without new data, over 50 streaming tables and 50 views, compared with the first update.

Complete processes of `sluice run`, start-up included on both sides.
"""

from __future__ import annotations

from bench.many import write_project
from bench.measure import Measure, pair_ratio, run_process, scratch_folder, seconds_of, sluice

GOAL = 0.2
_DATASETS = 50
_TIMEOUT_SECONDS = 1200


def measure(pairs: int) -> list[Measure]:
    """The ratio of the idle update to the first one."""
    first, idle = [], []
    for _ in range(pairs):
        with scratch_folder() as folder:
            write_project(folder, tables=_DATASETS, views=_DATASETS)
            command = sluice("run", "--spec", "pipeline.yml", "--master", "local[2]")
            first.append(run_process(command, folder=folder, timeout_seconds=_TIMEOUT_SECONDS).seconds)
            idle.append(run_process(command, folder=folder, timeout_seconds=_TIMEOUT_SECONDS).seconds)
    return [
        Measure(
            benchmark="b", what="idle update / first update, 50 streaming tables and 50 views", unit="x", goal=GOAL,
            value=pair_ratio(idle, first), detail=f"{seconds_of(idle)} / {seconds_of(first)}, {pairs} pairs",
        )
    ]  # fmt: skip
