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
    from framework.cli.checkpoint_tables import COLUMNS, checkpoint_json, checkpoint_rows

    pipeline = call.pipeline()
    found = list_checkpoints(pipeline.storage)
    if call.output.as_json:
        call.output.json([checkpoint_json(each) for each in found])
    else:
        call.output.table(COLUMNS, checkpoint_rows(found))


@command.command("reset", cls=SluiceCommand)
@click.argument("flow")
@pipeline_options()
def reset(call: Call, flow: str) -> None:
    """Begin FLOW again at the next update.

    Its target keeps its rows; its former generation is kept for a roll-back.
    """
    from framework.run.update.checkpoint_actions import reset_checkpoint

    pipeline = call.pipeline()
    manifest, generation = reset_checkpoint(pipeline.storage, pipeline.name, flow)
    call.output.text(f"{manifest.flow} begins generation {generation.number} at the next update.")


@command.command("rollback", cls=SluiceCommand)
@click.argument("flow")
@click.option("--to", type=int, metavar="N", help="Which generation.  [default: the one that was current last]")
@pipeline_options()
def rollback(call: Call, flow: str, to: int | None) -> None:
    """Let FLOW go on from a generation that was kept.

    What was written since stays in the target.
    """
    from framework.run.update.checkpoint_actions import roll_back_checkpoint

    pipeline = call.pipeline()
    manifest, generation = roll_back_checkpoint(pipeline.storage, pipeline.name, flow, to)
    call.output.text(f"{manifest.flow} goes on from generation {generation.number} at the next update.")
