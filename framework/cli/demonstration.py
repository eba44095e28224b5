"""The demo on the command line: the fed data, live progress, a result, the paths of its output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from framework.cli.output import Output
from framework.cli.progress import open_progress
from framework.cli.signals import run_stoppable
from framework.cli.updating import print_errors, print_summary, relative_path
from framework.demo.demo import DEFAULT_FOLDER, DemoResult, run_demo
from framework.foundation.clock import Clock
from framework.foundation.wording import counted
from framework.pipeline import Pipeline
from framework.run.update.results import UpdateState
from framework.session.query_log import silence_query_log
from framework.views.rows import RowsView
from framework.views.summary import OutputPaths, UpdateSummary

_PIPELINE = "flights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """One call of the demo.

    Args:
        folder: folder of the demo; None for the default one.
        months: number of months of 2013; None for the whole year.
    """

    output: Output
    clock: Clock
    folder: Path | None
    months: int | None
    master: str | None
    verbose: bool

    def run(self) -> None:
        """Feed the data, run the update and print the result.

        Raises:
            click.exceptions.Exit: 1, if the update did not complete.
        """
        if not self.verbose:
            silence_query_log()
        opened: list[Pipeline] = []
        click.get_current_context().call_on_close(lambda: _each(opened, Pipeline.close))
        with open_progress(sys.stderr, title="flights demo", clock=self.clock) as progress:
            demo = run_stoppable(
                lambda: run_demo(
                    folder=self.folder or DEFAULT_FOLDER,
                    months=self.months,
                    master=self.master,
                    progress=progress,
                    opened=opened.append,
                    verbose=self.verbose,
                ),
                lambda: _each(opened, Pipeline.stop),
                progress.say,
            )
        self._print(demo)
        print_errors(demo.update)
        if demo.update.state is not UpdateState.COMPLETED:
            raise click.exceptions.Exit(1)

    def _print(self, demo: DemoResult) -> None:
        paths = OutputPaths(graph=str(demo.graph_html), tables=str(demo.tables), events=str(demo.events))
        summary = UpdateSummary(pipeline=_PIPELINE, result=demo.update, paths=paths)
        rows = RowsView.of(demo.result_columns, demo.result_rows)
        if self.output.as_json:
            self.output.json({**summary.to_json(), demo.result_name: rows.to_json()})
            return
        feed = demo.feed
        data = f"{counted(feed.flights, 'flight')} of 2013, {counted(feed.months, 'month')}: {feed.planned:,} planned, "
        self.output.text(f"{data}{counted(feed.messages, 'message')} about {feed.events:,} changes\n")
        print_summary(self.output, summary)
        self.output.text(f"\n{click.style(demo.result_name, bold=True)}")
        self.output.rows(rows)
        spec = relative_path(str(demo.spec))
        again = "" if demo.update.is_idle else "\n  sluice demo                  again: there is nothing to do"
        self.output.text(
            f"\nTry:\n  sluice sql --spec {spec} 'SELECT * FROM worst_tails'\n  sluice plan --spec {spec}{again}"
        )


def _each(pipelines: list[Pipeline], action: Callable[[Pipeline], None]) -> None:
    """Apply an action to the demo's pipeline, if it is open."""
    for pipeline in pipelines:
        action(pipeline)
