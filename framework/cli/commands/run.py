"""`sluice run`: an update."""

from __future__ import annotations

from typing import Any

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.refresh import refresh_of, refresh_options


@click.command("run", cls=SluiceCommand)
@click.option("--target", metavar="T", help="Update what is deployed to this target of the bundle, not what is here.")
@click.option("--resource", metavar="KEY", help="Which pipeline of the target.  [default: its only one]")
@click.option("--profile", metavar="P", help="The profile of the target's workspace.")
@refresh_options
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, target: str | None, resource: str | None, profile: str | None, **options: Any) -> None:
    """Bring the pipeline's datasets up to date.

    Reads what is new, computes what changed, and stops; with --continuous, or `continuous: true` in the
    spec, it goes on until Ctrl-C. Ctrl-C ends the queries and leaves every checkpoint sound; the next
    update continues from there.
    """
    refresh = refresh_of(options)
    if target is not None and "continuous" in refresh:
        msg = "--continuous does not go with --target: the deployed pipeline's own setting decides."
        raise click.UsageError(msg)
    if target is not None:
        from framework.cli.remote_updating import run_target

        run_target(call, target=target, resource=resource, profile=profile, refresh=refresh)
        return
    for option, value in (("--resource", resource), ("--profile", profile)):
        if value is not None:
            msg = f"{option} belongs to --target, which is missing."
            raise click.UsageError(msg)
    from framework.cli.updating import run_and_report

    pipeline = call.pipeline(short=False)
    run_and_report(call, pipeline, refresh)
