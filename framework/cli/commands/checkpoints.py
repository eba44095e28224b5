"""`sluice checkpoints`: the generations of each flow's checkpoint."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.group("checkpoints")
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
@pipeline_options()
def reset(call: Call, flow: str) -> None:
    """Restart FLOW from the start of its sources at the next update.

    The target keeps its rows. The current generation is kept, so that `rollback` can restore it.
    """
    from framework.run.update.checkpoint_actions import reset_checkpoint

    pipeline = call.pipeline()
    manifest, generation = reset_checkpoint(pipeline.storage, pipeline.name, flow)
    call.output.text(f"{manifest.flow} starts generation {generation.number} at the next update.")


@command.command("rollback", cls=SluiceCommand)
@click.argument("flow")
@click.option("--to", type=int, metavar="N", help="Number of the generation.  [default: the previous one]")
@pipeline_options()
def rollback(call: Call, flow: str, to: int | None) -> None:
    """Continue FLOW from a kept generation at the next update.

    Rows that were written since then stay in the target.
    """
    from framework.run.update.checkpoint_actions import roll_back_checkpoint

    pipeline = call.pipeline()
    manifest, generation = roll_back_checkpoint(pipeline.storage, pipeline.name, flow, to)
    call.output.text(f"{manifest.flow} continues from generation {generation.number} at the next update.")
