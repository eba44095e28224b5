"""Runs updates of a pipeline that is deployed to a workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framework.deploy.api.pipeline_run import RemoteUpdate, run_remotely
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.documents.bundle import Bundle, Resource
from framework.deploy.state.state import read_state
from framework.foundation.errors import OperationError, UserError
from framework.operations.deploying import BundleTarget
from framework.plan.request import RequestOptions
from framework.record.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPipeline:
    """A pipeline of a bundle in its workspace."""

    name: str
    id: str
    workspace: Workspace

    def run(
        self,
        request: RequestOptions,
        *,
        observer: Callable[[Event], None],
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> RemoteUpdate:
        """Start an update, pass its events to the observer, and return its result.

        Args:
            request: the selection of its datasets.
            observer: called with each event.
            is_stopping: returns whether to stop the update.

        Raises:
            OperationError: as of `run_remotely`.
        """
        return run_remotely(self.workspace, self.id, _selection(request), observer=observer, is_stopping=is_stopping)


def find_deployed(target: BundleTarget, resource: str | None) -> DeployedPipeline:
    """Return a deployed pipeline of a bundle's target.

    Args:
        target: the target.
        resource: the key of the pipeline; None for the only one.

    Raises:
        UserError: the bundle is invalid; DEPLOY_RESOURCE_UNKNOWN.
        OperationError: REMOTE_PIPELINE_MISSING.
    """
    loaded = target.load()
    pipeline = _chosen(loaded.bundle, resource)
    state = read_state(loaded.workspace, loaded.bundle.state_path)
    deployed = None if state is None else state.get(pipeline.key)
    if deployed is None or deployed.id is None:
        raise OperationError("REMOTE_PIPELINE_MISSING", key=pipeline.key, target=loaded.bundle.target)
    return DeployedPipeline(name=pipeline.name, id=deployed.id, workspace=loaded.workspace)


def _selection(request: RequestOptions) -> dict[str, Any]:
    """Return the body of the request that starts the update; it has no empty selection."""
    body = {
        "refresh_selection": list(request.get("refresh", ())),
        "full_refresh_selection": list(request.get("full_refresh", ())),
        "reset_checkpoint_selection": list(request.get("reset_checkpoints", ())),
        "full_refresh": request.get("full_refresh_all", False),
    }
    return {key: value for key, value in body.items() if value}


def _chosen(bundle: Bundle, key: str | None) -> Resource:
    """Return the pipeline of a key, or the only one.

    Raises:
        UserError: DEPLOY_RESOURCE_UNKNOWN.
    """
    pipelines = [each for each in bundle.resources if each.kind == "pipelines"]
    found = [each for each in pipelines if key is None or key in (each.key, each.key.partition(".")[2])]
    if len(found) != 1:
        names = ", ".join(each.key for each in pipelines)
        raise UserError(
            "DEPLOY_RESOURCE_UNKNOWN", key=key or "pipelines.?", target=bundle.target, hint=f" Its pipelines: {names}."
        )
    return found[0]
