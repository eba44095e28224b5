"""Updates of a deployed pipeline, displayed like local ones."""

from __future__ import annotations

import sys
import threading

import click

from framework.cli.call import Call
from framework.cli.progress import open_progress
from framework.cli.signals import run_stoppable
from framework.deploy.api.pipeline_run import RemoteUpdate
from framework.operations.deployed_update import find_deployed
from framework.operations.deploying import BundleTarget
from framework.plan.request import RequestOptions
from framework.record.events import Event
from framework.views.flow_board import FlowBoard, FlowBoardTracker

_COLUMNS = ("flow", "state", "rows")


def run_target(call: Call, *, target: str, resource: str | None, profile: str | None, refresh: RequestOptions) -> None:
    """Start an update of a deployed pipeline, follow it, and print its result; Ctrl-C cancels it.

    Raises:
        click.exceptions.Exit: 1 if the update did not complete.
    """
    dependencies = call.surroundings.bundles
    named = BundleTarget(target=target, profile=profile, variables=call.parameters, surroundings=dependencies)
    pipeline = find_deployed(named, resource)
    tracker = FlowBoardTracker()
    with open_progress(sys.stderr, title=pipeline.name, clock=dependencies.clock, each_idle=call.verbose) as progress:

        def observe(event: Event) -> None:
            tracker(event)
            progress(event)

        requested = threading.Event()
        # The thread that follows the update makes the stop call, because a signal handler must not wait for a network.
        update = run_stoppable(
            lambda: pipeline.run(refresh, observer=observe, is_stopping=requested.is_set), requested.set, progress.say
        )
    _print_result(call, pipeline.name, update, tracker.board)
    if update.state != "COMPLETED":
        raise click.exceptions.Exit(1)


def _print_result(call: Call, name: str, update: RemoteUpdate, board: FlowBoard) -> None:
    if call.output.as_json:
        flows = [{"flow": flow.flow, "state": flow.state, "rows": flow.rows} for flow in board.flows]
        call.output.json({"pipeline": name, "update_id": update.update_id, "state": update.state, "flows": flows})
        return
    call.output.text(f"{name}  {update.state}  update {update.update_id}")
    if board.flows:
        call.output.text(call.output.formatted(board.table(call.surroundings.clock.now()).select(_COLUMNS)))
