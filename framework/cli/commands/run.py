"""`sluice run`: an update."""

from __future__ import annotations

from typing import Any

import click

from framework.cli.call import Call, identity_of, identity_options, pipeline_options, refresh_of, refresh_options
from framework.cli.command import SluiceCommand


@click.command("run", cls=SluiceCommand)
@click.option("--target", metavar="T", help="Update the pipeline deployed to this bundle target, not the local one.")
@click.option("--resource", metavar="KEY", help="Key of the pipeline in the target.  [default: the only pipeline]")
@click.option("--profile", metavar="P", help="Configuration profile of the workspace.")
@refresh_options
@identity_options
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, target: str | None, resource: str | None, profile: str | None, **options: Any) -> None:
    """Update the datasets of the pipeline.

    Reads new data, recomputes what changed, and ends. With --continuous, or `continuous: true` in the
    spec, the update runs until Ctrl-C. Ctrl-C stops all queries and keeps their checkpoints consistent;
    the next update continues from them.
    """
    refresh, identity = refresh_of(options), identity_of(options)
    if target is not None and "continuous" in refresh:
        msg = "--continuous does not go with --target: the deployed pipeline's own setting decides."
        raise click.UsageError(msg)
    if target is not None and options["start"]:
        msg = "--from does not go with --target: a deployed pipeline starts where its code says."
        raise click.UsageError(msg)
    if target is not None and "keep_history" in refresh:
        msg = "--keep-history does not go with --target: a deployed pipeline clears the table before it refreshes it."
        raise click.UsageError(msg)
    if target is not None and identity is not None:
        msg = (
            "--update-id, --request-id, --attempt and --cause do not go with --target: its updates are the workspace's."
        )
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

    reads_much = any(
        refresh.get(name) for name in ("continuous", "full_refresh", "full_refresh_all", "reset_checkpoints")
    )
    pipeline = call.pipeline(short=False if reads_much else None)
    run_and_report(call, pipeline, refresh, identity)
