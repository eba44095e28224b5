"""Updates of a deployed pipeline, displayed like local ones."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

import click

from framework.cli.call import Call
from framework.cli.progress import open_progress
from framework.cli.signals import run_stoppable
from framework.deploy.api.lookups import workspace_lookup
from framework.deploy.api.pipeline_run import RemoteUpdate, run_remotely
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.documents.bundle import Bundle, Resource
from framework.deploy.state.state import read_state
from framework.foundation.errors import OperationError, UserError
from framework.plan.request import RequestOptions
from framework.record.events import Event
from framework.views.flow_board import FlowBoard, FlowBoardTracker

_COLUMNS = ("flow", "state", "rows")


def run_target(call: Call, *, target: str, resource: str | None, profile: str | None, refresh: RequestOptions) -> None:
    """Start an update of a deployed pipeline, follow it, and print its result; Ctrl-C cancels it.

    Raises:
        click.exceptions.Exit: 1, if the update did not complete.
    """
    dependencies = call.surroundings.bundles
    workspace = Workspace(dependencies.configure(profile), clock=dependencies.clock)
    user = str(workspace.read("/api/2.0/preview/scim/v2/Me")["userName"])
    bundle = dependencies.load(
        target=target, variables=dict(call.parameters), user=user, look_up=workspace_lookup(workspace)
    )
    pipeline = _chosen(bundle, resource)
    state = read_state(workspace, bundle.state_path)
    deployed = None if state is None else state.get(pipeline.key)
    if deployed is None or deployed.id is None:
        raise OperationError("REMOTE_PIPELINE_MISSING", key=pipeline.key, target=target)
    tracker = FlowBoardTracker()
    with open_progress(sys.stderr, title=pipeline.name, clock=dependencies.clock, each_idle=call.verbose) as progress:

        def observe(event: Event) -> None:
            tracker(event)
            progress(event)

        requested = threading.Event()
        follow = partial(run_remotely, workspace, deployed.id, _selection(refresh))
        # The thread that follows the update makes the stop call, because a signal handler must not wait for a network.
        update = run_stoppable(
            lambda: follow(observer=observe, is_stopping=requested.is_set), requested.set, progress.say
        )
    _print_result(call, pipeline.name, update, tracker.board)
    if update.state != "COMPLETED":
        raise click.exceptions.Exit(1)


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


def _print_result(call: Call, name: str, update: RemoteUpdate, board: FlowBoard) -> None:
    if call.output.as_json:
        flows = [{"flow": flow.flow, "state": flow.state, "rows": flow.rows} for flow in board.flows]
        call.output.json({"pipeline": name, "update_id": update.update_id, "state": update.state, "flows": flows})
        return
    call.output.text(f"{name}  {update.state}  update {update.update_id}")
    if board.flows:
        call.output.text(call.output.formatted(board.table(call.surroundings.clock.now()).select(_COLUMNS)))
