"""`sluice prune`: drops tables that the code no longer declares."""

from __future__ import annotations

import sys

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.foundation.errors import UserError

_COLUMNS = ("table", "path")


@click.command("prune", cls=SluiceCommand)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, yes: bool) -> None:
    """Drop tables that the code no longer declares.

    Shows the tables and asks. A table goes with its rows, the state of AUTO CDC and the checkpoints of its
    flows; checkpoints of sinks stay. The result is the list of the tables that were dropped.
    """
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
    dropped = pipeline.prune(left)
    for table in left:
        if table not in dropped:
            click.echo(f"kept {table.name}: it was declared again or written to meanwhile", err=True)
    rows = [{"table": str(table.name), "path": table.path} for table in dropped]
    if call.output.as_json:
        call.output.table(_COLUMNS, rows)
    elif dropped:
        call.output.text("\n".join(f"dropped {row['table']}" for row in rows))


def _ask(tables: list[str]) -> None:
    """Show what would be dropped, and end the command if it shall not be.

    Raises:
        UserError: PRUNE_NOT_CONFIRMED when nobody can answer.
        click.exceptions.Exit: 1, when the answer is no.
    """
    click.echo("The code no longer declares these tables:\n", err=True)
    click.echo("\n".join(f"  {table}" for table in tables), err=True)
    if not sys.stdin.isatty():
        raise UserError("PRUNE_NOT_CONFIRMED")
    if not click.confirm("\nDrop them, with all rows and checkpoints?", err=True):
        raise click.exceptions.Exit(1)
