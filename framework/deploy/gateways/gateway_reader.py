"""Gateways that jobs run, directly or through other jobs, and the state of each gateway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.workspace import Workspace, error_name
from framework.deploy.gateways.event_log import IngestedTables, read_gateway
from framework.deploy.plan.gateway_state import GatewayState, Phase, worst_state
from framework.deploy.plan.planner import is_gateway
from framework.deploy.state.resource_api import Remote, RemoteKind
from framework.foundation.errors import OperationError


class GatewayReader:
    """Finds the gateways that jobs run and reads their state; reads each pipeline, job and log at most once.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        tables: the tables that the bundle ingests.
        known: resources that have already been read, by kind and id.
    """

    def __init__(
        self,
        workspace: Workspace,
        kinds: Mapping[str, RemoteKind],
        tables: IngestedTables,
        known: Mapping[tuple[str, str], Remote | None] | None = None,
    ) -> None:
        self._workspace = workspace
        self._kinds = kinds
        self._tables = tables
        self._remotes: dict[tuple[str, str], Remote | None] = dict(known or {})
        self._faults: dict[tuple[str, str], str] = {}
        self._states: dict[str, GatewayState] = {}

    def gateways_run_by(self, specs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return the ids of the gateways that jobs with these settings run.

        A pipeline or job that can't be read, and a task whose pipeline is only known at run time, count as a gateway.
        """
        found: dict[str, None] = {}
        waiting = list(specs)
        seen: set[str] = set()
        while waiting:
            targets = job_targets(waiting.pop())
            for task in targets.open_tasks:
                found[f"task {task}"] = None
                self._faults["pipelines", f"task {task}"] = f"the pipeline of task {task} is only known at run time"
            found |= dict.fromkeys(each for each in targets.pipelines if self._counts(each))
            for job in targets.jobs:
                if job in seen:
                    continue
                seen.add(job)
                remote = self._read("jobs", job)
                if remote is not None:
                    waiting.append(remote.spec.as_dict())
                elif ("jobs", job) in self._faults:
                    found[f"job {job}"] = None
                    self._faults["pipelines", f"job {job}"] = self._faults["jobs", job]
        return tuple(sorted(found))

    def state_of(self, gateways: Iterable[str]) -> GatewayState:
        """Return the combined state of gateways: the worst phase, all tables."""
        return worst_state(tuple(self._state(each) for each in gateways))

    def _counts(self, id: str) -> bool:
        remote = self._read("pipelines", id)
        return ("pipelines", id) in self._faults or (remote is not None and is_gateway(remote.spec.as_dict()))

    def _state(self, id: str) -> GatewayState:
        if id not in self._states:
            remote = None if ("pipelines", id) in self._faults else self._read("pipelines", id)
            fault = self._faults.get(("pipelines", id))
            if fault is not None:
                self._states[id] = GatewayState(phase=Phase.UNKNOWN, reason=fault)
            elif remote is None:
                self._states[id] = GatewayState(phase=Phase.STOPPED)
            else:
                self._states[id] = read_gateway(self._workspace, remote, self._tables)
        return self._states[id]

    def _read(self, kind: str, id: str) -> Remote | None:
        if (kind, id) not in self._remotes:
            self._remotes[kind, id] = None
            try:
                self._remotes[kind, id] = self._kinds[kind].read(id)
            except (OperationError, DatabricksError) as error:
                self._faults[kind, id] = f"{kind.removesuffix('s')} {id} cannot be read ({error_name(error)})"
        return self._remotes[kind, id]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTargets:
    """Ids in the tasks of a job.

    Args:
        pipelines: ids of pipelines.
        jobs: ids of jobs.
        open_tasks: keys of tasks whose pipeline or job is only known at run time, as with `{{input}}`.
    """

    pipelines: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    open_tasks: tuple[str, ...] = ()


def job_targets(spec: Mapping[str, Any]) -> JobTargets:
    """Return the pipelines and jobs in a job's tasks; a resource that is not deployed yet has no id and is omitted.

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
    """Return each task, and the nested task of each for-each task."""
    for task in tasks if isinstance(tasks, list) else ():
        if not isinstance(task, Mapping):
            continue
        yield task
        repeated = task.get("for_each_task")
        if isinstance(repeated, Mapping):
            yield from _tasks([repeated.get("task")])
