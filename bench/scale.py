"""(c) `sluice validate` of 1,000 flows and of 100, and (e) the Python process's peak memory in the former.

Complete processes. Half of the flows read files, the other half are views over their tables.
"""

from __future__ import annotations

from statistics import median

from bench.many import write_project
from bench.measure import Measure, Run, pair_ratio, run_process, scratch_folder, seconds_of, sluice

FLOWS = (100, 1000)
GOAL_SECONDS, GOAL_GROWTH, GOAL_MEGABYTES = 60, 12, 500
_TIMEOUT_SECONDS = 300


def measure(pairs: int) -> list[Measure]:
    """Time, growth and memory."""
    runs: dict[int, list[Run]] = {flows: [] for flows in FLOWS}
    for _ in range(pairs):
        for flows in FLOWS:
            with scratch_folder() as folder:
                write_project(folder, tables=flows // 2, views=flows // 2)
                command = sluice("validate", "--spec", "pipeline.yml", "--master", "local[2]")
                runs[flows].append(run_process(command, folder=folder, timeout_seconds=_TIMEOUT_SECONDS))
    few, many = ([run.seconds for run in runs[flows]] for flows in FLOWS)
    memory = [run.peak_megabytes for run in runs[FLOWS[1]]]
    return [
        Measure(
            benchmark="c", what="`sluice validate` of 1,000 flows", unit="s", goal=GOAL_SECONDS, value=median(many),
            detail=f"{pairs} runs",
        ),
        Measure(
            benchmark="c", what="`sluice validate`, 1,000 flows / 100 flows", unit="x", goal=GOAL_GROWTH,
            value=pair_ratio(many, few), detail=f"{seconds_of(many)} / {seconds_of(few)}, {pairs} pairs",
        ),
        Measure(
            benchmark="e", what="peak memory of the Python process, 1,000 flows", unit="MB", goal=GOAL_MEGABYTES,
            value=median(memory), detail=f"{pairs} runs",
        ),
    ]  # fmt: skip
