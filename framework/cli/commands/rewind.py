"""`sluice rewind`: tables and their flows as they were at an earlier time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.output import say
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.cli.output import Output
    from framework.operations.pipeline_port import RewindPort
    from framework.recovery.rewind.plan import RewindPlan


@click.command("rewind", cls=SluiceCommand)
@click.argument("datasets", metavar="[DATASET]...", nargs=-1)
@click.option("--to", metavar="TIME|UPDATE", help="A time with its zone, or an update, whose end is meant.")
@click.option("--abandon", is_flag=True, help="Give up an interrupted rewind that cannot be finished.")
@click.option("--dry-run", is_flag=True, help="Print what it would do, and do nothing.")
@click.option("--reason", metavar="TEXT", default="", help="Why, for the event log.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pipeline_options(result=True, parameters=True)
def command(
    call: Call, /, *, datasets: tuple[str, ...], to: str | None, abandon: bool, dry_run: bool, reason: str, yes: bool
) -> None:
    """Take tables and their flows back to an earlier time.

    Restores each DATASET, a streaming table, and the tables that read it to the version of that time, and lets their
    flows continue from there: the next update reads again, with the present code, what they have read since. Without
    DATASET, all streaming tables go back. Prints what it changes, and asks before it does it.
    """
    if abandon == (to is not None):
        msg = "Name either --to or --abandon."
        raise click.UsageError(msg)
    if abandon and (datasets or reason):
        msg = "--abandon goes with no DATASET and no --reason: it gives up the rewind that was interrupted."
        raise click.UsageError(msg)
    from framework.operations.rewinding import prepare_rewind

    pipeline = call.pipeline(short=False)
    rewinds = pipeline.rewinds
    if to is None:
        _abandon(call.output, pipeline.name, rewinds, dry_run=dry_run, yes=yes)
        return
    prepared = prepare_rewind(rewinds, to, datasets, dry_run=dry_run)
    if prepared.finished is not None:
        say(f"Finished the rewind to {prepared.finished.to} that was begun at {prepared.finished.begun_at}.")
    plan = prepared.plan
    if plan is None:
        return
    if dry_run or plan.is_empty:
        _print(call.output, pipeline.name, plan, done=False)
        return
    if not yes:
        _confirm(rewind_text(call.output, pipeline.name, plan))
    rewinds.rewind(plan, reason)
    _print(call.output, pipeline.name, plan, done=True)


def _print(output: Output, pipeline: str, plan: RewindPlan, *, done: bool) -> None:
    from framework.views.rewind import rewind_json

    if output.as_json:
        output.json(rewind_json(pipeline, plan, done=done))
        return
    output.text(rewind_text(output, pipeline, plan))
    if done:
        output.text("\nDone. The next update continues from there.")


def rewind_text(output: Output, pipeline: str, plan: RewindPlan) -> str:
    """Return the effects of a rewind, as text.

    Args:
        output: the output, which determines the width of the text.
        pipeline: the pipeline's name.
        plan: the rewind.
    """
    from framework.views.rewind import flows_table, notes, rewind_title, tables_table

    title = rewind_title(pipeline, plan)
    if plan.is_empty:
        return f"{title}\n\nNothing to do: nothing has happened since."
    tables = [output.formatted(table) for table in (tables_table(plan), flows_table(plan)) if table.rows]
    return "\n\n".join([title, *tables, *(["\n".join(lines)] if (lines := notes(plan)) else [])])


def _abandon(output: Output, pipeline: str, rewinds: RewindPort, *, dry_run: bool, yes: bool) -> None:
    from framework.views.rewind import abandonment_json, abandonment_text

    found = rewinds.plan_abandonment()
    text = "No rewind is in progress." if found is None else abandonment_text(pipeline, found)
    done = found is not None and not dry_run
    if found is not None and not dry_run:
        if not yes:
            _confirm(text)
        rewinds.abandon(found)
    if output.as_json:
        output.json(abandonment_json(pipeline, found, done=done))
        return
    output.text(f"{text}\n\nDone." if done else text)


def _confirm(text: str) -> None:
    """Print the planned changes, and ask for confirmation.

    Raises:
        UserError: REWIND_NOT_CONFIRMED if standard input is not a terminal.
        click.exceptions.Exit: 1 if the answer is no.
    """
    say(text)
    if not sys.stdin.isatty():
        raise UserError("REWIND_NOT_CONFIRMED")
    if not click.confirm("\nDo it?", err=True):
        raise click.exceptions.Exit(1)
