"""An update as the command line runs it: progress, signals, summary, exit code."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import click

from framework.cli.call import Call
from framework.cli.command import styled
from framework.cli.facade import PipelineFace
from framework.cli.output import colours_wanted
from framework.cli.progress import Progress, open_progress
from framework.cli.refresh import Refresh
from framework.cli.summary import Places, flow_title, print_summary
from framework.foundation.short_names import ShortNames
from framework.run.results import UpdateResult, UpdateState
from framework.web.page import graph_page

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_SECONDS = 0.2
GRAPH_FILE = "graph.html"

_Result = TypeVar("_Result")


def run_and_report(call: Call, pipeline: PipelineFace, refresh: Refresh) -> None:
    """Run an update with progress on standard error and its summary as the result.

    Raises:
        click.exceptions.Exit: 1, when the update did not complete.
        SluiceError: the update could not begin.
    """
    with open_progress(sys.stderr, title=pipeline.name, clock=call.surroundings.clock) as progress:
        result = run_stoppable(lambda: pipeline.run(**refresh, observers=(progress,)), pipeline.stop, progress)
    places = Places(
        graph=keep_graph(pipeline), tables=pipeline.storage.path("tables"), events=pipeline.storage.path("events")
    )
    print_summary(call.output, pipeline.name, result, places)
    print_errors(result)
    if result.state is not UpdateState.COMPLETED:
        raise click.exceptions.Exit(1)


def print_errors(result: UpdateResult) -> None:
    """Print why flows failed, a paragraph each, on standard error."""
    short = ShortNames.of(name for flow in result.flows for name in (flow.flow, flow.dataset))
    for flow in result.flows:
        if flow.error is not None:
            text = f"\nFlow {flow_title(flow, short)} failed:\n{styled(flow.error.render())}"
            click.echo(text, err=True, color=colours_wanted(sys.stderr))


def keep_graph(pipeline: PipelineFace) -> str:
    """Keep the page about the dataflow beside the tables, and tell where."""
    storage = pipeline.storage
    path, page = storage.path(GRAPH_FILE), graph_page(pipeline.graph)
    if storage.read_text(path) != page:
        storage.write_text(path, page)
    return path


def run_stoppable(work: Callable[[], _Result], stop: Callable[[], None], progress: Progress) -> _Result:
    """Do `work` in a thread, so that this one is free for signals; the first asks to stop.

    PySpark takes SIGINT for itself when it starts in the main thread, and waits in Py4J can't be
    interrupted there; a thread of its own avoids both. A second signal gives up waiting.

    Raises:
        KeyboardInterrupt: at the second signal.
        Exception: what `work` raised.
    """
    outcome: list[_Result] = []
    failure: list[BaseException] = []

    def do() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            failure.append(error)

    worker = threading.Thread(target=do, name="sluice-update", daemon=True)
    with _stop_on_signal(stop, progress):
        worker.start()
        while worker.is_alive():
            worker.join(_POLL_SECONDS)
    if failure:
        raise failure[0]
    return outcome[0]


@contextmanager
def _stop_on_signal(stop: Callable[[], None], progress: Progress) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a call of `stop`, and the second into a KeyboardInterrupt."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        progress.say(f"{signal.Signals(number).name}: stopping; what is committed stays. Again: give up waiting.")
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
