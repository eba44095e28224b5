"""Jobs that run the gateway of `ingestion_bundle`: its continuous job, and jobs that run it by another way."""

from __future__ import annotations

from typing import Any

from tests.support.ingestion_bundle import specs

GATEWAY_ID = "${resources.pipelines.gateway.id}"
JOB = "jobs.gateway"
JOB_NAME = "gateway job"


def gateway_task(pipeline_id: str = GATEWAY_ID) -> dict[str, Any]:
    """A task that runs a pipeline."""
    return {"task_key": "run", "pipeline_task": {"pipeline_id": pipeline_id}}


def job(task: dict[str, Any] | None = None, *, name: str = JOB_NAME, continuous: bool = True) -> dict[str, Any]:
    """The settings of a job with one task."""
    settings: dict[str, Any] = {"name": name, "tags": {"team": "data"}, "tasks": [task or gateway_task()]}
    return settings | ({"continuous": {"pause_status": "UNPAUSED"}} if continuous else {})


def specs_with_job(task: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """The bundle of `ingestion_bundle`, with the continuous job of its gateway."""
    return specs() | {JOB: job(task)}
