"""`sluice run`: an update."""

from __future__ import annotations

from typing import Any

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.refresh import refresh_of, refresh_options


@click.command("run", cls=SluiceCommand)
@refresh_options
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, **options: Any) -> None:
    """Bring the pipeline's datasets up to date.

    Reads what is new, computes what changed, and stops. Ctrl-C ends the queries and leaves every
    checkpoint sound; the next update goes on from there.
    """
    from framework.cli.updating import run_and_report

    refresh = refresh_of(options)
    pipeline = call.pipeline(short=False)
    run_and_report(call, pipeline, refresh)
