"""(g) Plan and idle deploy of a bundle of 500 deployed resources, over HTTP to the stand-in workspace.

No Spark and no process: loading and start-up are not included; the stand-in's response time is.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from bench.measure import Measure
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.deployer import Deployer
from framework.testing.workspace import serve_workspace

PLAN_GOAL_SECONDS = 5.0
READS_GOAL = 1.0
_RESOURCES = 500


def measure(pairs: int) -> list[Measure]:
    """Seconds of a plan, reads per resource of an idle deploy, and its writes."""
    with serve_workspace() as served:
        workspace = Workspace(served.config(), clock=served.clock)
        deployer = Deployer(workspace, _bundle(), user="ada@example.com")
        deployer.deploy()
        seconds = []
        for _ in range(pairs):
            began = time.perf_counter()
            deployer.plan()
            seconds.append(time.perf_counter() - began)
        served.forget_requests()
        deployer.deploy()
        # The one read of the state is the target's and no resource's.
        reads = len([each for each in served.requests if not each.is_write and "/workspace/" not in each.path])
        writes = len(served.writes())
    what = f"{_RESOURCES} deployed resources"
    return [
        Measure(
            benchmark="g", what=f"plan of {what}", unit="s", goal=PLAN_GOAL_SECONDS, value=median(seconds),
            detail=f"median of {pairs}",
        ),
        Measure(
            benchmark="g", what=f"reads per resource, idle deploy of {what}", unit="", goal=READS_GOAL,
            value=reads / _RESOURCES, detail=f"{reads} reads",
        ),
        Measure(benchmark="g", what=f"writes, idle deploy of {what}", unit="", goal=0.0, value=float(writes)),
    ]  # fmt: skip


def _bundle() -> Bundle:
    """Half pipelines, half jobs, each job with a task for its pipeline."""
    resources = []
    for number in range(_RESOURCES // 2):
        name = f"p{number:03d}"
        pipeline: dict[str, object] = {
            "name": name, "catalog": "Main", "schema": "s", "channel": "current", "configuration": {"n": str(number)}
        }  # fmt: skip
        task = {"task_key": "update", "pipeline_task": {"pipeline_id": f"${{resources.pipelines.{name}.id}}"}}
        job: dict[str, object] = {"name": name, "tasks": [task], "tags": {"team": "data"}}
        resources += [_resource(f"pipelines.{name}", pipeline), _resource(f"jobs.{name}", job, f"pipelines.{name}")]
    place = "/Workspace/Shared/.bundle/many/prod"
    return Bundle(
        name="many",
        target="prod",
        mode="production",
        root_path=place,
        state_path=f"{place}/state",
        file_path=f"{place}/files",
        root=Path(),
        resources=tuple(resources),
    )


def _resource(key: str, spec: dict[str, object], *depends_on: str) -> Resource:
    return Resource(
        key=key,
        kind=key.partition(".")[0],
        name=str(spec["name"]),
        spec=FrozenSpec.of(spec),
        depends_on=depends_on,
    )
