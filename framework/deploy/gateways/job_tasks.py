"""What the tasks of a job run: pipelines and other jobs, named directly or inside a for-each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTargets:
    """The ids that the tasks of a job name.

    Args:
        pipelines: ids of pipelines.
        jobs: ids of jobs.
        open_tasks: keys of tasks whose pipeline or job only a run knows, as with `{{input}}`.
    """

    pipelines: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    open_tasks: tuple[str, ...] = ()


def job_targets(spec: Mapping[str, Any]) -> JobTargets:
    """Return what the settings of a job run; a resource that is not deployed yet has no id and is left out.

    Examples:
        >>> job_targets({"tasks": [{"task_key": "a", "pipeline_task": {"pipeline_id": "p-1"}}]}).pipelines
        ('p-1',)
    """
    pipelines: dict[str, None] = {}
    jobs: dict[str, None] = {}
    open_tasks: dict[str, None] = {}
    for task in _tasks(spec.get("tasks")):
        for found, name, field in ((pipelines, "pipeline_task", "pipeline_id"), (jobs, "run_job_task", "job_id")):
            settings = task.get(name)
            value = settings.get(field) if isinstance(settings, Mapping) else None
            if value is None or "${" in str(value):
                continue
            if "{{" in str(value):
                open_tasks[str(task.get("task_key"))] = None
            else:
                found[str(value)] = None
    return JobTargets(pipelines=tuple(pipelines), jobs=tuple(jobs), open_tasks=tuple(open_tasks))


def _tasks(tasks: Any) -> Iterator[Mapping[str, Any]]:
    """Each task, and the task that a for-each task repeats."""
    for task in tasks if isinstance(tasks, list) else ():
        if not isinstance(task, Mapping):
            continue
        yield task
        repeated = task.get("for_each_task")
        if isinstance(repeated, Mapping):
            yield from _tasks([repeated.get("task")])
