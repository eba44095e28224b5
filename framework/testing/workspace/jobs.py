"""The jobs of the workspace: settings, and runs of their pipeline tasks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

from framework.testing.workspace.exchange import Request, invalid, missing, run_as_of

_PAGE = 20


class Jobs:
    """All jobs, by id; names need not differ."""

    def __init__(self, now: Callable[[], datetime], new_number: Callable[[], int]) -> None:
        self._now = now
        self._new_number = new_number
        self.by_id: dict[int, dict[str, Any]] = {}
        self.runs: list[dict[str, Any]] = []

    def create(self, request: Request) -> dict[str, Any]:
        """Make a job."""
        job_id = self._new_number()
        self.by_id[job_id] = {
            "job_id": job_id,
            "creator_user_name": request.user,
            "run_as_user_name": run_as_of(request.body, request.user),
            "created_time": int(self._now().timestamp() * 1000),
            "settings": _stored(dict(request.body)),
        }
        return {"job_id": job_id}

    def reset(self, request: Request) -> dict[str, Any]:
        """Replace all settings."""
        job, settings = self._find(request.body["job_id"]), dict(request.body["new_settings"])
        job["settings"] = _stored(settings)
        job["run_as_user_name"] = run_as_of(settings, job["run_as_user_name"])
        return {}

    def read(self, request: Request) -> dict[str, Any]:
        """A job with its settings."""
        return copy.deepcopy(self._find(request.query["job_id"]))

    def listing(self, request: Request) -> dict[str, Any]:
        """Jobs without their tasks, a page at a time; `name` is compared without regard to case."""
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
        """Delete a job."""
        del self.by_id[int(self._find(request.body["job_id"])["job_id"])]
        return {}

    def run_now(self, request: Request) -> dict[str, Any]:
        """Start a run."""
        job = self._find(request.body["job_id"])
        run_id = self._new_number()
        self.runs.append(
            {
                "run_id": run_id,
                "job_id": job["job_id"],
                "start_time": int(self._now().timestamp() * 1000),
                "state": {"life_cycle_state": "RUNNING"},
            }
        )
        return {"run_id": run_id}

    def list_runs(self, request: Request) -> dict[str, Any]:
        """Runs, newest first, of one job or of all."""
        wanted = request.query.get("job_id")
        runs = [run for run in reversed(self.runs) if wanted is None or run["job_id"] == int(wanted)]
        return {"runs": copy.deepcopy(runs)}

    def _find(self, job_id: object) -> dict[str, Any]:
        job = self.by_id.get(int(str(job_id)))
        if job is None:
            raise missing("Job", job_id)
        return job


def _stored(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as the service keeps them, with what it fills in."""
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
