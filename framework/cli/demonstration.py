"""The demo on the command line: live progress, a result and the output paths of each example."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from framework.cli.output import Output, say
from framework.cli.progress import open_progress
from framework.cli.signals import run_stoppable
from framework.cli.updating import print_errors, print_summary, relative_path
from framework.demo.database import BankResult, missing_packages, run_bank
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
        months: the number of months of 2013; None for the whole year.
        with_database: whether to also run the example with a database.
    """

    output: Output
    clock: Clock
    folder: Path | None
    months: int | None
    master: str | None
    verbose: bool
    with_database: bool

    def run(self) -> None:
        """Run the examples and print their results.

        Raises:
            click.exceptions.Exit: 1 if an update did not complete, or if a copy differs from its source.
        """
        if not self.verbose:
            silence_query_log()
        opened: list[Pipeline] = []
        click.get_current_context().call_on_close(lambda: _each(opened, Pipeline.close))
        flights = self._flights(opened)
        bank = self._bank(opened) if flights.update.state is UpdateState.COMPLETED else None
        if self.output.as_json:
            self.output.json({**_flights_json(flights), **({"bank": _bank_json(bank)} if bank is not None else {})})
        updates = [flights.update, *([bank.update] if bank is not None else [])]
        for update in updates:
            print_errors(update)
        is_equal = bank is None or all(each.is_equal for each in bank.comparisons)
        if not is_equal or any(update.state is not UpdateState.COMPLETED for update in updates):
            raise click.exceptions.Exit(1)

    def _flights(self, opened: list[Pipeline]) -> DemoResult:
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
        if not self.output.as_json:
            self._print(demo)
        return demo

    def _bank(self, opened: list[Pipeline]) -> BankResult | None:
        """Run the example with a database; return None if it is skipped."""
        missing = missing_packages()
        if not self.with_database or missing:
            install = f"not installed: {', '.join(missing)} (pip install 'sluice-spark[demo]')"
            why = install if missing else "--no-database"
            say(f"\nThe example with a database is left out: {why}.")
            return None
        say("")
        with open_progress(sys.stderr, title="bank demo", clock=self.clock) as progress:
            bank = run_stoppable(
                lambda: run_bank(
                    folder=(self.folder or DEFAULT_FOLDER) / "bank",
                    master=self.master,
                    say=progress.say,
                    progress=progress,
                    opened=opened.append,
                    clock=self.clock,
                    verbose=self.verbose,
                ),
                lambda: _each(opened, Pipeline.stop),
                progress.say,
            )
        if not self.output.as_json:
            self._print_bank(bank)
        return bank

    def _print_bank(self, bank: BankResult) -> None:
        head = click.style("bank", bold=True)
        accounts = bank.comparisons[0].copied_rows
        self.output.text(
            f"\n{head}  killed at chunk {bank.chunks_at_kill} of {bank.chunks}; the next update read "
            f"{bank.rows_after_kill:,} of {accounts:,} accounts, from chunk {bank.chunks_at_kill + 1} on\n"
        )
        columns = ("table", "rows at the source", "rows of the copy", "sum at the source", "sum of the copy", "equal")
        rows = [
            (each.table, each.source_rows, each.copied_rows, each.source_sum, each.copied_sum, each.is_equal)
            for each in bank.comparisons
        ]
        self.output.rows(RowsView.of(columns, rows))
        self.output.text(f"\nIts pipeline:\n  {relative_path(str(bank.spec.parent / 'transformations'))}")

    def _print(self, demo: DemoResult) -> None:
        summary, rows = _summary(demo), RowsView.of(demo.result_columns, demo.result_rows)
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


def _summary(demo: DemoResult) -> UpdateSummary:
    paths = OutputPaths(graph=str(demo.graph_html), tables=str(demo.tables), events=str(demo.events))
    return UpdateSummary(pipeline=_PIPELINE, result=demo.update, paths=paths)


def _flights_json(demo: DemoResult) -> dict[str, Any]:
    return {
        **_summary(demo).to_json(),
        demo.result_name: RowsView.of(demo.result_columns, demo.result_rows).to_json(),
    }


def _bank_json(bank: BankResult) -> dict[str, Any]:
    return {
        "chunks": bank.chunks,
        "chunks_at_kill": bank.chunks_at_kill,
        "rows_after_kill": bank.rows_after_kill,
        "state": bank.update.state.value,
        "tables": [{**asdict(each), "equal": each.is_equal} for each in bank.comparisons],
    }


def _each(pipelines: list[Pipeline], action: Callable[[Pipeline], None]) -> None:
    """Apply an action to each open pipeline of the demo."""
    for pipeline in pipelines:
        action(pipeline)
