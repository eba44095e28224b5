"""`sluice checkpoints`: the generations of each flow's checkpoint."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.verbosity import verbose_option

_TARGET = click.option(
    "--target", metavar="DATASET", help="The dataset that FLOW writes to, if flows of several datasets have its name."
)


@click.group("checkpoints")
@verbose_option
def command() -> None:
    """List, reset and roll back the checkpoints of flows."""


@command.command("list", cls=SluiceCommand)
@pipeline_options(result=True)
def list_generations(call: Call) -> None:
    """List all generations of all flows."""
    from framework.checkpoints.generations import list_checkpoints
    from framework.views.checkpoints import checkpoints_json, checkpoints_table

    checkpoints = list_checkpoints(call.pipeline().storage)
    call.output.result(checkpoints_table(checkpoints), checkpoints_json(checkpoints))


@command.command("reset", cls=SluiceCommand)
@click.argument("flow")
@click.option(
    "--from",
    "start",
    multiple=True,
    metavar="START",
    help="Where it starts, such as startingVersion=12 or earliest; one for each of its sources, as SOURCE:START.",
)
@_TARGET
@pipeline_options(parameters=True)
def reset(call: Call, /, *, flow: str, start: tuple[str, ...], target: str | None) -> None:
    """Restart FLOW at the next update: from --from, else as its code says.

    A continuous update that runs restarts it as soon as it does not run, as after a failure. The target keeps its rows.
    The current generation is kept, so that `rollback` can restore it.
    """
    from framework.operations.checkpoints import reset_flow

    manifest, generation = reset_flow(call.pipeline(), flow, start, target=target)
    if generation is None:
        call.output.text(f"The update that runs resets {manifest.flow} as soon as the flow does not run.")
    else:
        call.output.text(f"{manifest.flow} starts generation {generation.number} at the next update.")


@command.command("rollback", cls=SluiceCommand)
@click.argument("flow")
@click.option("--to", type=int, metavar="N", help="Number of the generation.  [default: the previous one]")
@click.option("--allow-repeats", is_flag=True, help="Roll back, although rows of a flow that appends will repeat.")
@_TARGET
@pipeline_options()
def rollback(call: Call, /, *, flow: str, to: int | None, allow_repeats: bool, target: str | None) -> None:
    """Continue FLOW from a kept generation at the next update.

    Rows that were written since then stay in the target. If FLOW appends, and has read rows since that it would read
    again, this is refused without --allow-repeats.
    """
    from framework.run.update.checkpoint_actions import roll_back_checkpoint

    pipeline = call.pipeline()
    manifest, generation = roll_back_checkpoint(
        pipeline.storage, pipeline.name, flow, to, target=target, allow_repeats=allow_repeats
    )
    call.output.text(f"{manifest.flow} continues from generation {generation.number} at the next update.")
