"""An update on the command line: progress, signals, summary, exit code."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import click

from framework.checkpoints.backups import Backup
from framework.cli.call import Call
from framework.cli.command import styled
from framework.cli.output import Output, say
from framework.cli.progress import open_progress
from framework.cli.signals import Terminated, exit_code, run_stoppable
from framework.foundation.wording import seconds_text
from framework.operations.pipeline_port import PipelinePort
from framework.operations.updating import finish_update
from framework.plan.request import RequestOptions
from framework.record.events import Event
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.control.stop_requests import is_stop_event
from framework.run.update.results import UpdateResult, UpdateState
from framework.views.backups import backup_text
from framework.views.summary import UPDATE_TONES, UpdateSummary, result_errors
from framework.views.table import Tone

_COLOURS = {Tone.GOOD: "green", Tone.BAD: "red", Tone.WARNING: "yellow"}


def run_and_report(
    call: Call, pipeline: PipelinePort, refresh: RequestOptions, identity: UpdateIdentity | None = None
) -> None:
    """Run an update with progress on standard error and its summary as the result.

    Raises:
        click.exceptions.Exit: 1 if the update did not complete; the code of SIGTERM if a request stopped it.
        SluiceError: the update could not start.
    """
    if not gc.isenabled():
        gc.freeze()  # modules are never garbage
        gc.enable()
    with open_progress(
        sys.stderr, title=pipeline.name, clock=call.surroundings.clock, each_idle=call.verbose
    ) as progress:
        started, asked = threading.Event(), threading.Event()

        def observe(event: Event) -> None:
            started.set()
            if is_stop_event(event):
                asked.set()
            progress(event)

        result = run_stoppable(
            lambda: pipeline.run(**refresh, identity=identity, observers=(observe,)),
            pipeline.stop,
            progress.say,
            has_started=started.is_set,
        )
    finished = finish_update(pipeline, result, keeps_history=refresh.get("keep_history", False))
    print_summary(call.output, finished.summary)
    if not call.output.as_json:
        print_backups(call.output, finished.histories)
    print_errors(result)
    if result.state is UpdateState.FAILED:
        say("\nNext: `sluice doctor` explains what failed, and what each way out costs.")
    if result.state is UpdateState.CANCELED and asked.is_set():
        raise click.exceptions.Exit(exit_code(Terminated()))  # a supervisor must not restart the update as failed
    if result.state is not UpdateState.COMPLETED:
        raise click.exceptions.Exit(1)


def print_summary(output: Output, summary: UpdateSummary) -> None:
    """Print the summary of an update as JSON or as text."""
    if output.as_json:
        output.json(summary.to_json())
        return
    result, flows, quality, notes = (
        summary.result,
        summary.flows_table(),
        summary.quality_table(),
        summary.idle_notes(),
    )
    tone = UPDATE_TONES.get(result.state)
    state = click.style(result.state.value, fg=_COLOURS[tone] if tone else None, bold=True)
    head = f"{click.style(summary.pipeline, bold=True)}  {state} in {seconds_text(result.duration_seconds)}"
    output.text(f"{head}  {click.style(f'update {result.update_id}', dim=True)}")
    if flows.rows:
        output.text("\n" + output.formatted(flows))
    output.text("\n".join(["", *(click.style(note, dim=not result.is_idle) for note in notes), ""]) if notes else "")
    if quality.rows:
        output.text(f"{click.style('Data quality', bold=True)}\n{output.formatted(quality)}\n")
    paths = summary.paths
    for label, path in (("graph", paths.graph), ("tables", paths.tables), ("events", paths.events)):
        output.text(f"{click.style(f'{label:<8}', dim=True)}{relative_path(path)}")


def print_backups(output: Output, backups: Iterable[Backup]) -> None:
    """Print the result of keeping the history of each refreshed table, from its newest backup."""
    lines = [backup_text(backup) for backup in backups]
    if lines:
        output.text("\n".join(["", click.style("History", bold=True), *lines]))
        output.text("The copies are kept until `sluice backups drop TABLE`.")


def relative_path(path: str) -> str:
    """Return a path relative to the working directory if it is below it, otherwise unchanged."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # deleted during the update, which is not the update's fault
        return path
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def print_errors(result: UpdateResult) -> None:
    """Print the errors of failed flows to standard error, one paragraph each, and why tables were not read."""
    for error in result.refused:
        text = styled(error.render(), colour="yellow")
        say(f"\nA table waits for the next update:\n{text}")
    for title, error in result_errors(result):
        say(f"\n{title} failed:\n{styled(error.render())}")
