"""`sluice prune`: drop tables that the code no longer declares."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.output import say
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.operations.pruning import LeftPosition


_COLUMNS = ("table", "path")


@click.command("prune", cls=SluiceCommand)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, yes: bool) -> None:
    """Drop tables that the code no longer declares.

    Lists the tables and asks for confirmation. Each table is dropped with its rows, its AUTO CDC state and
    the checkpoints of its flows; checkpoints of sinks and what databases keep for ingestions stay.
    Prints the dropped tables.
    """
    from framework.operations.pruning import prune

    pipeline = call.pipeline()
    left = pipeline.left_tables()
    rows = [{"table": str(table.name), "path": table.path} for table in left]
    if not left:
        if call.output.as_json:
            call.output.table(_COLUMNS, [])
        else:
            call.output.text(f"Nothing to prune: the code declares every table of {pipeline.name}.")
        return
    if not yes:
        _ask([f"{row['table']}  {row['path']}" for row in rows])
    report = prune(pipeline, left)
    for table in report.kept:
        say(f"kept {table.name}: it is declared again, or was written to")
    call.warn(report.warnings)
    for position in report.positions:
        say(_left_position(position))
    rows = [{"table": str(table.name), "path": table.path} for table in report.dropped]
    if call.output.as_json:
        call.output.table(_COLUMNS, rows)
    elif rows:
        call.output.text("\n".join(f"dropped {row['table']}" for row in rows))


def _left_position(left: LeftPosition) -> str:
    return (
        f"The database of the connection {left.connection} keeps its log for the {left.noun} {left.name}. "
        f"If nothing else reads it, run there: {left.statement}"
    )


def _ask(tables: list[str]) -> None:
    """List the tables and ask for confirmation.

    Raises:
        UserError: PRUNE_NOT_CONFIRMED if standard input is not a terminal.
        click.exceptions.Exit: 1 if the answer is no.
    """
    say("The code no longer declares these tables:\n")
    say("\n".join(f"  {table}" for table in tables))
    if not sys.stdin.isatty():
        raise UserError("PRUNE_NOT_CONFIRMED")
    if not click.confirm("\nDrop them, with all rows and checkpoints?", err=True):
        raise click.exceptions.Exit(1)
