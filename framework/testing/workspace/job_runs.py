"""Runs of jobs, with the pipeline updates and job runs that their tasks start.

A continuous job that is not paused always has a run. A run starts the pipelines of its tasks, or joins an update that
is already running. Cancelling a run cancels those updates, and the runs of other jobs that it started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from framework.testing.workspace.pipelines import Pipeline, Pipelines


class JobRun:
    """One run of a job: its pipelines, the runs that it started, and its result."""

    def __init__(self, *, run_id: int, job_id: int, began: datetime) -> None:
        self.run_id = run_id
        self.job_id = job_id
        self.began = began
        self.pipelines: list[str] = []
        self.children: list[JobRun] = []
        self.result = ""

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return not self.result

    def info(self) -> dict[str, Any]:
        """Return the run in the API's format."""
        state = {"life_cycle_state": "RUNNING"}
        if self.result:
            state = {"life_cycle_state": "TERMINATED", "result_state": self.result}
        start_time = int(self.began.timestamp() * 1000)
        return {"run_id": self.run_id, "job_id": self.job_id, "start_time": start_time, "state": state}


class JobRuns:
    """The runs of all jobs, oldest first.

    Args:
        now: the virtual clock.
        new_number: generates ids.
        pipelines: the pipelines that tasks run.
        settings_of: returns the settings of a job by its id; None if there is no such job.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        new_number: Callable[[], int],
        pipelines: Pipelines,
        settings_of: Callable[[int], dict[str, Any] | None],
    ) -> None:
        self._now = now
        self._new_number = new_number
        self._pipelines = pipelines
        self._settings_of = settings_of
        self.all: list[JobRun] = []

    def start(self, job_id: int) -> JobRun:
        """Start a run of a job, with the pipelines and jobs of its tasks."""
        run = JobRun(run_id=self._new_number(), job_id=job_id, began=self._now())
        self.all.append(run)
        for task in tasks_of(self._settings_of(job_id) or {}):
            pipeline = (task.get("pipeline_task") or {}).get("pipeline_id")
            job = (task.get("run_job_task") or {}).get("job_id")
            if pipeline is not None and self._pipelines.run(str(pipeline)):
                run.pipelines.append(str(pipeline))
            if job is not None and self._settings_of(int(job)) is not None:
                run.children.append(self.start(int(job)))
        return run

    def cancel(self, job_id: int) -> None:
        """Cancel the runs of a job."""
        for run in self.all:
            if run.job_id == job_id and run.active:
                self._cancel(run)

    def start_continuous(self, job_id: int) -> None:
        """Start a run of a continuous job that is not paused and has no active run."""
        has_run = any(run.job_id == job_id and run.active for run in self.all)
        if is_always_on(self._settings_of(job_id) or {}) and not has_run:
            self.start(job_id)

    def settle(self) -> None:
        """End the runs whose pipelines and children have ended."""
        for run in reversed(self.all):
            if run.active and not self._is_working(run):
                run.result = "SUCCESS"

    def _is_working(self, run: JobRun) -> bool:
        has_update = any(each.active is not None for each in self._pipelines_of(run))
        return has_update or any(child.active for child in run.children)

    def _pipelines_of(self, run: JobRun) -> list[Pipeline]:
        return [self._pipelines.by_id[each] for each in run.pipelines if each in self._pipelines.by_id]

    def _cancel(self, run: JobRun) -> None:
        run.result = "CANCELED"
        for pipeline in self._pipelines_of(run):
            pipeline.cancel(self._now())
        for child in run.children:
            if child.active:
                self._cancel(child)


def is_always_on(settings: Mapping[str, Any]) -> bool:
    """Return whether a job with these settings always has a run."""
    continuous = settings.get("continuous")
    return continuous is not None and continuous.get("pause_status", "UNPAUSED") != "PAUSED"


def tasks_of(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the tasks of a job, including the nested tasks of for-each tasks."""
    for task in settings.get("tasks") or []:
        yield task
        repeated = (task.get("for_each_task") or {}).get("task")
        if repeated is not None:
            yield from tasks_of({"tasks": [repeated]})
