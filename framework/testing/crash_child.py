"""The process that `crashes.kill_updates` starts: suspends each update at its failpoint, then kills itself."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from framework.foundation.failpoints import die
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session
from framework.testing.crashes import CrashJob, CrashPoint, freeze_at

# With one flow at a time, no other flow of a pipeline proceeds while its update is suspended.
_ONE_AT_A_TIME = {"pipelines.maxParallelFlows": "1"}


def main(listed: pathlib.Path) -> None:
    """Suspend all updates in the file and kill the process; exit with an error if one does not reach its failpoint."""
    content = json.loads(listed.read_text(encoding="utf-8"))
    jobs = [_job(row) for row in content["jobs"]]
    spark = start_session(app_name="crashes", master="local[2]", spark_conf=content["spark_conf"])
    for job in jobs:
        pipeline = Pipeline.from_spec(job.spec, spark=spark, parameters=_ONE_AT_A_TIME)
        folder = pathlib.Path(job.spec).parent
        points: dict[CrashPoint, Callable[[], object]]
        points = {point: partial(shutil.copytree, folder, copy) for copy, point in job.copies.items()}
        if job.point is not None:
            points[job.point] = lambda: None
        reasons = list[str]()
        if not freeze_at(points, partial(_act, pipeline, job, reasons)):
            causes = "\n".join(reasons)
            sys.stderr.write(
                f"The update of {job.spec} ended without passing {', '.join(map(str, points))}.\n{causes}\n"
            )
            sys.stderr.flush()
            os._exit(1)  # the threads of the other updates would keep the process alive
    die()


def _job(row: Mapping[str, Any]) -> CrashJob:
    copies = {folder: CrashPoint(**point) for folder, point in row["copies"].items()}
    point = None if row["point"] is None else CrashPoint(**row["point"])
    return CrashJob(**{**row, "point": point, "copies": copies})


def _act(pipeline: Pipeline, job: CrashJob, reasons: list[str]) -> None:
    if job.rewind_to is None:
        result = pipeline.run(**job.arguments)
        reasons += [f"{flow.flow}: {flow.state} {flow.reason}" for flow in result.flows]
    else:
        pipeline.rewinds.rewind(pipeline.rewinds.plan(job.rewind_to))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
