"""The demo on the command line: the fed data, live progress, a result, the paths of its output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from framework.cli.output import Output
from framework.cli.progress import open_progress
from framework.cli.stopping import run_stoppable
from framework.cli.summary import Places, near_path, print_summary, result_json
from framework.cli.updating import print_errors
from framework.demo.demo import DEFAULT_FOLDER, DemoResult, run_demo
from framework.diagrams.text_table import text_table
from framework.diagrams.values import json_value
from framework.foundation.clock import Clock
from framework.foundation.wording import counted
from framework.pipeline import Pipeline
from framework.run.update.results import UpdateState
from framework.session.query_log import silence_query_log

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
                progress,
            )
        self._show(demo)
        print_errors(demo.update)
        if demo.update.state is not UpdateState.COMPLETED:
            raise click.exceptions.Exit(1)

    def _show(self, demo: DemoResult) -> None:
        places = Places(graph=str(demo.graph_html), tables=str(demo.tables), events=str(demo.events))
        if self.output.as_json:
            rows = [dict(zip(demo.result_columns, map(json_value, row), strict=True)) for row in demo.result_rows]
            result: dict[str, Any] = {**result_json(_PIPELINE, demo.update, places), demo.result_name: rows}
            self.output.json(result)
            return
        feed = demo.feed
        fed = f"{counted(feed.flights, 'flight')} of 2013, {counted(feed.months, 'month')}: {feed.planned:,} planned, "
        self.output.text(f"{fed}{counted(feed.messages, 'message')} about {feed.events:,} changes\n")
        print_summary(self.output, _PIPELINE, demo.update, places)
        self.output.text(f"\n{click.style(demo.result_name, bold=True)}")
        self.output.text(text_table(demo.result_columns, [list(row) for row in demo.result_rows]))
        spec = near_path(str(demo.spec))
        again = "" if demo.update.is_idle else "\n  sluice demo                  again: there is nothing to do"
        self.output.text(
            f"\nTry:\n  sluice sql --spec {spec} 'SELECT * FROM worst_tails'\n  sluice plan --spec {spec}{again}"
        )


def _each(pipelines: list[Pipeline], action: Callable[[Pipeline], None]) -> None:
    """Apply an action to the demo's pipeline, if it is open."""
    for pipeline in pipelines:
        action(pipeline)
