"""`sluice quarantine`: the rows that flows could not write."""

from __future__ import annotations

import sys

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.verbosity import verbose_option
from framework.foundation.errors import UserError
from framework.foundation.wording import printable

_MOST_ROWS = 2**31 - 1  # the limit of Spark

_reason_option = click.option(
    "--reason", metavar="R", help="Only rows with this reason: the name of an expectation, or a condition."
)


@click.group("quarantine")
@verbose_option
def command() -> None:
    """List, show, replay and drop rows that flows could not write.

    A streaming table with the property `sluice.quarantine` keeps the rows that its flows drop.
    """


@command.command("list", cls=SluiceCommand)
@pipeline_options(result=True, parameters=True)
def list_rows(call: Call) -> None:
    """Count the rows of each flow, by reasons and state.

    Rows are open, replayed, uncommitted (the next update decides them again), or superseded by a full refresh.
    """
    from framework.views.quarantine import groups_json, groups_table

    found = call.pipeline().quarantine.list()
    if not found and not call.output.as_json:
        call.output.text("No row is quarantined.")
        return
    call.output.result(groups_table(found), groups_json(found))


@command.command("show", cls=SluiceCommand)
@click.argument("flow")
@_reason_option
@click.option(
    "-n", "--limit", type=click.IntRange(1, _MOST_ROWS), default=20, show_default=True, help="Maximum number of rows."
)
@pipeline_options(result=True, parameters=True)
def show(call: Call, /, *, flow: str, reason: str | None, limit: int) -> None:
    """Print the quarantined rows of FLOW.

    With `-o json` each row has the positions of its source too.
    """
    from framework.operations.querying import quarantined_rows
    from framework.views.quarantine import rows_json, rows_table

    rows = quarantined_rows(call.pipeline(), flow, reason=reason, limit=limit)
    call.output.result(rows_table(rows), rows_json(rows))


@command.command("replay", cls=SluiceCommand)
@click.argument("flow")
@_reason_option
@click.option("--dry-run", is_flag=True, help="Check the rows, and write nothing.")
@pipeline_options(result=True, parameters=True)
def replay(call: Call, /, *, flow: str, reason: str | None, dry_run: bool) -> None:
    """Check the open rows of FLOW again, and write those that pass.

    Rows are checked by the expectations as they are now, for AUTO CDC also by keys and sequence. Rows that fail again
    stay, with their new reasons.
    """
    from framework.views.quarantine import replay_json, replay_text

    done = call.pipeline().quarantine.replay(flow, reason=reason, dry_run=dry_run)
    if call.output.as_json:
        call.output.json(replay_json(done))
    else:
        call.output.text(replay_text(done))


@command.command("drop", cls=SluiceCommand)
@click.argument("flow")
@_reason_option
@click.option("--replayed", is_flag=True, help="Delete the rows that are replayed, in place of the others.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pipeline_options(parameters=True)
def drop(call: Call, /, *, flow: str, reason: str | None, replayed: bool, yes: bool) -> None:
    """Delete quarantined rows of FLOW that are not replayed, for good."""
    pipeline = call.pipeline()
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("QUARANTINE_NOT_CONFIRMED")
        kind = "replayed" if replayed else "unreplayed"
        if not click.confirm(f"Delete the {kind} rows of {printable(flow)} from the quarantine?", err=True):
            raise click.exceptions.Exit(1)
    count = pipeline.quarantine.drop(flow, reason=reason, replayed=replayed)
    call.output.text(f"{count:,} rows dropped.")
