"""`sluice backups`: the copies of tables from before a full refresh."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.verbosity import verbose_option


@click.group("backups")
@verbose_option
def command() -> None:
    """List and drop copies of tables from before a full refresh.

    `sluice run --full-refresh TABLE --keep-history` makes them.
    """


@command.command("list", cls=SluiceCommand)
@pipeline_options(result=True)
def list_all(call: Call) -> None:
    """List all copies of tables, and how each differs from its refreshed table."""
    from framework.recovery.backups import list_backups
    from framework.views.backups import backups_json, backups_table

    found = list_backups(call.pipeline().storage)
    call.output.result(backups_table(found), backups_json(found))


@command.command("drop", cls=SluiceCommand)
@click.argument("table")
@click.option("--number", type=int, metavar="N", help="Number of the copy.  [default: all copies of TABLE]")
@pipeline_options()
def drop(call: Call, /, *, table: str, number: int | None) -> None:
    """Delete the copies of TABLE.

    The table and its checkpoints are not touched.
    """
    from framework.operations.checkpoints import drop_table_backups

    dropped = drop_table_backups(call.pipeline(), table, number)
    call.output.text("\n".join(f"dropped backup {each.number} of {each.dataset}" for each in dropped))
