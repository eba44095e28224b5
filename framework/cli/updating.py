"""Update on the command line: progress, signals, summary, exit code."""

from __future__ import annotations

import sys
import threading

import click

from framework.cli.call import Call
from framework.cli.command import styled
from framework.cli.facade import PipelineFace
from framework.cli.output import colours_wanted
from framework.cli.progress import open_progress
from framework.cli.stopping import run_stoppable
from framework.cli.summary import Places, flow_title, print_summary
from framework.diagrams.page import graph_page
from framework.foundation.names import ShortNames
from framework.plan.request import RequestOptions
from framework.run.update.results import UpdateResult, UpdateState

GRAPH_FILE = "graph.html"


def run_and_report(call: Call, pipeline: PipelineFace, refresh: RequestOptions) -> None:
    """Run an update with progress on standard error and its summary as the result.

    Raises:
        click.exceptions.Exit: 1, if the update did not complete.
        SluiceError: the update could not start.
    """
    with open_progress(sys.stderr, title=pipeline.name, clock=call.surroundings.clock) as progress:
        begun = threading.Event()
        result = run_stoppable(
            lambda: pipeline.run(**refresh, observers=(lambda _: begun.set(), progress)),
            pipeline.stop,
            progress,
            has_begun=begun.is_set,
        )
    places = Places(
        graph=keep_graph(pipeline), tables=pipeline.storage.path("tables"), events=pipeline.storage.path("events")
    )
    print_summary(call.output, pipeline.name, result, places)
    print_errors(result)
    if result.state is not UpdateState.COMPLETED:
        raise click.exceptions.Exit(1)


def print_errors(result: UpdateResult) -> None:
    """Print the errors of failed flows on standard error, a paragraph each."""
    short = ShortNames.of(name for flow in result.flows for name in (flow.flow, flow.dataset))
    for flow in result.flows:
        if flow.error is not None:
            text = f"\nFlow {flow_title(flow, short)} failed:\n{styled(flow.error.render())}"
            click.echo(text, err=True, color=colours_wanted(sys.stderr))


def keep_graph(pipeline: PipelineFace) -> str:
    """Write the page of the dataflow graph to the storage if it changed, and return its path."""
    storage = pipeline.storage
    path, page = storage.path(GRAPH_FILE), graph_page(pipeline.graph)
    if storage.read_text(path) != page:
        storage.write_text(path, page)
    return path
