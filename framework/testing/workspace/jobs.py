"""Jobs of the workspace: their settings, and the effect of a change on their runs."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from framework.testing.workspace.exchange import Request, invalid, missing, run_as_of
from framework.testing.workspace.job_runs import JobRuns, is_always_on
from framework.testing.workspace.pipelines import Pipelines

_PAGE = 20


class Jobs:
    """All jobs by id; names may repeat."""

    def __init__(self, now: Callable[[], datetime], new_number: Callable[[], int], pipelines: Pipelines) -> None:
        self._now = now
        self._new_number = new_number
        self.by_id: dict[int, dict[str, Any]] = {}
        self.resets: Counter[int] = Counter()
        self.runs = JobRuns(now, new_number, pipelines, self._settings)

    def create(self, request: Request) -> dict[str, Any]:
        """Create a job."""
        job_id = self._new_number()
        self.by_id[job_id] = {
            "job_id": job_id,
            "creator_user_name": request.user,
            "run_as_user_name": run_as_of(request.body, request.user),
            "created_time": int(self._now().timestamp() * 1000),
            "settings": _stored(dict(request.body)),
        }
        self.runs.start_continuous(job_id)
        return {"job_id": job_id}

    def reset(self, request: Request) -> dict[str, Any]:
        """Replace all settings; the run of a continuous job is cancelled, and a new run starts unless it is paused."""
        job, settings = self._find(request.body["job_id"]), dict(request.body["new_settings"])
        stored = _stored(settings)
        if is_always_on(job["settings"]):
            self.runs.cancel(job["job_id"])
        job["settings"] = stored
        job["run_as_user_name"] = run_as_of(settings, job["run_as_user_name"])
        self.resets[job["job_id"]] += 1
        self.runs.start_continuous(job["job_id"])
        return {}

    def read(self, request: Request) -> dict[str, Any]:
        """Return a job with its settings."""
        return copy.deepcopy(self._find(request.query["job_id"]))

    def listing(self, request: Request) -> dict[str, Any]:
        """Return a page of jobs without their tasks; `name` is compared case-insensitively."""
        name = request.query.get("name", "").lower()
        found = [job for job in self.by_id.values() if not name or job["settings"].get("name", "").lower() == name]
        first = int(request.query.get("page_token") or 0)
        jobs = []
        for job in copy.deepcopy(found[first : first + _PAGE]):
            job["settings"].pop("tasks", None)
            jobs.append(job)
        page: dict[str, Any] = {"jobs": jobs}
        return page | ({"next_page_token": str(first + _PAGE), "has_more": True} if first + _PAGE < len(found) else {})

    def remove(self, request: Request) -> dict[str, Any]:
        """Delete a job and cancel its runs."""
        job_id = int(self._find(request.body["job_id"])["job_id"])
        self.runs.cancel(job_id)
        del self.by_id[job_id]
        return {}

    def run_now(self, request: Request) -> dict[str, Any]:
        """Start a run."""
        return {"run_id": self.runs.start(self._find(request.body["job_id"])["job_id"]).run_id}

    def list_runs(self, request: Request) -> dict[str, Any]:
        """Return the runs of one job or of all, newest first."""
        wanted = request.query.get("job_id")
        runs = [run for run in reversed(self.runs.all) if wanted is None or run.job_id == int(wanted)]
        return {"runs": [run.info() for run in runs]}

    def settle(self) -> None:
        """Advance all runs to the clock's time; an ended run of a continuous job is followed by a new one."""
        self.runs.settle()
        for job_id in self.by_id:
            self.runs.start_continuous(job_id)

    def _settings(self, job_id: int) -> dict[str, Any] | None:
        job = self.by_id.get(job_id)
        return None if job is None else job["settings"]

    def _find(self, job_id: object) -> dict[str, Any]:
        job = self.by_id.get(int(str(job_id)))
        if job is None:
            raise missing("Job", job_id)
        return job


def _stored(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as the service stores them, with its defaults."""
    settings = {key: copy.deepcopy(value) for key, value in settings.items() if key != "run_as"}
    keys = [task.get("task_key") for task in settings.get("tasks", [])]
    if len(keys) != len(set(keys)):
        raise invalid("The keys of a job's tasks must differ.")
    settings.setdefault("format", "MULTI_TASK")
    settings.setdefault("max_concurrent_runs", 1)
    settings.setdefault("timeout_seconds", 0)
    settings.setdefault("email_notifications", {})
    settings.setdefault("webhook_notifications", {})
    for task in settings.get("tasks", []):
        task.setdefault("run_if", "ALL_SUCCESS")
        task.setdefault("timeout_seconds", 0)
        task.setdefault("email_notifications", {})
    return settings
