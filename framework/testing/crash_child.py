"""The process that `crashes.kill_updates` starts: suspends each update at its failpoint, then kills itself."""

from __future__ import annotations

import json
import pathlib
import sys
from functools import partial

from framework.foundation.failpoints import die
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session
from framework.testing.crashes import CrashJob, CrashPoint, freeze_at

# With one flow at a time, no other flow of a pipeline proceeds while its update is suspended.
_ONE_AT_A_TIME = {"pipelines.maxParallelFlows": "1"}


def main(listed: pathlib.Path) -> None:
    """Suspend all updates in the file and kill the process; exit with an error if one does not reach its failpoint."""
    content = json.loads(listed.read_text(encoding="utf-8"))
    jobs = [CrashJob(**{**row, "point": CrashPoint(**row["point"])}) for row in content["jobs"]]
    spark = start_session(app_name="crashes", master="local[2]", spark_conf=content["spark_conf"])
    for job in jobs:
        pipeline = Pipeline.from_spec(job.spec, spark=spark, parameters=_ONE_AT_A_TIME)
        if not freeze_at(job.point, partial(_act, pipeline, job)):
            sys.exit(f"The update of {job.spec} ended without passing {job.point}.")
    die()


def _act(pipeline: Pipeline, job: CrashJob) -> None:
    if job.rewind_to is None:
        pipeline.run(**job.arguments)
    else:
        pipeline.rewinds.rewind(pipeline.rewinds.plan(job.rewind_to))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
