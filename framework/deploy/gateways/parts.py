"""The gateways that a resource can stop: the gateway itself, and each job that runs it, also through other jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.workspace import Workspace
from framework.deploy.gateways.event_log import condition_of, read_gateway
from framework.deploy.gateways.ingested_tables import IngestedTables
from framework.deploy.gateways.job_tasks import job_targets
from framework.deploy.plan.gateway_state import GatewayState, Phase, worst_state
from framework.deploy.plan.planner import is_gateway
from framework.deploy.state.resource_api import Remote, RemoteKind
from framework.foundation.errors import OperationError


class GatewayParts:
    """Finds the gateways behind jobs, and reads what each does; reads a pipeline, a job and a log once.

    Args:
        workspace: the workspace.
        kinds: the calls for each kind of resource.
        tables: what the bundle says about the tables that are ingested.
        known: resources that are read already, by kind and id.
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

    def behind(self, specs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return the gateways that jobs with these settings run: ids, or what of it can't be known.

        A pipeline or job that can't be read, and a task whose pipeline only a run knows, count as a gateway.
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
        """Return what gateways do, as one state: the worst phase, all tables."""
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
                self._faults[kind, id] = f"{kind.removesuffix('s')} {id} cannot be read ({condition_of(error)})"
        return self._remotes[kind, id]
