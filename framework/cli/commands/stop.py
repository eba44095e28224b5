"""`sluice stop`: end an update that runs somewhere else."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("stop", cls=SluiceCommand)
@click.argument("update", required=False)
@click.option("--reason", metavar="TEXT", default="", help="Why, for the event log.")
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait this long for its end.",
)
@pipeline_options(result=True)
def command(call: Call, /, *, update: str | None, reason: str, wait_seconds: float) -> None:
    """Stop the update that runs, on any machine.

    Writes a request into the storage, which the update sees within some seconds: it stops its queries and keeps their
    checkpoints consistent, as at Ctrl-C, and the next update continues from them. UPDATE is the id of an update, or its
    first characters; one that starts later, by its whole id, stops at its start. A request stops no other update. Exit
    code 1: the update has not ended in time.
    """
    from framework.operations.stopping import stop_update
    from framework.views.stopping import stop_json, stop_sentence

    pipeline = call.pipeline()
    report = stop_update(
        pipeline.storage, call.surroundings.clock, update_id=update, reason=reason, wait_seconds=wait_seconds
    )
    if call.output.as_json:
        call.output.json(stop_json(pipeline.name, report))
    else:
        call.output.text(stop_sentence(pipeline.name, report))
    if report.holder is not None and not report.has_ended:
        raise click.exceptions.Exit(1)
