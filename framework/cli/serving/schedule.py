"""`sluice schedule`: when a server runs the pipeline."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.verbosity import verbose_option


@click.group("schedule")
@verbose_option
def command() -> None:
    """List, explain, pause and resume the schedules of the pipeline.

    A schedule is the `trigger` of the spec, or one of the `schedules.yml` beside it. `sluice serve` starts its runs.
    """


@command.command("list", cls=SluiceCommand)
@pipeline_options(result=True)
def list_all(call: Call) -> None:
    """List the schedules, with the next run of each and the last one."""
    from framework.operations.scheduling.listing import list_schedules, schedules_json, schedules_table

    pipeline = call.pipeline()
    rows = list_schedules(pipeline.spec, pipeline.storage, call.surroundings.clock)
    if not rows and not call.output.as_json:
        call.output.text(f"{pipeline.name} has no schedule.")
        return
    call.output.result(schedules_table(rows), schedules_json(rows))


@command.command("explain", cls=SluiceCommand)
@click.argument("schedule", required=False)
@pipeline_options(result=True)
def explain(call: Call, /, *, schedule: str | None) -> None:
    """Print the next five runs of SCHEDULE, and what happens when one is missed, late or fails."""
    from framework.operations.scheduling.listing import (
        explanation,
        find_schedule,
        list_schedules,
        schedule_json,
        unseen_sources,
    )

    pipeline = call.pipeline()
    rows = list_schedules(pipeline.spec, pipeline.storage, call.surroundings.clock)
    row = find_schedule(rows, schedule, pipeline.name)
    unseen = unseen_sources(row, pipeline.name, pipeline.storage)
    if call.output.as_json:
        call.output.json({**schedule_json(row), "unseen": list(unseen)})
    else:
        call.output.text("\n".join(explanation(row, unseen)))


@command.command("pause", cls=SluiceCommand)
@click.argument("schedule")
@click.option("--reason", metavar="TEXT", default="", help="Why, for those who look at the schedule.")
@pipeline_options(result=True)
def pause(call: Call, /, *, schedule: str, reason: str) -> None:
    """Start no run of SCHEDULE until it is resumed; a run in progress goes on."""
    from framework.operations.scheduling.listing import pause_schedule, schedule_json

    pipeline = call.pipeline()
    row = pause_schedule(pipeline.spec, pipeline.storage, call.surroundings.clock, schedule, reason)
    if call.output.as_json:
        call.output.json(schedule_json(row))
    else:
        call.output.text(f"Schedule {schedule} of {pipeline.name} is paused.")


@command.command("resume", cls=SluiceCommand)
@click.argument("schedule")
@pipeline_options(result=True)
def resume(call: Call, /, *, schedule: str) -> None:
    """Start the runs of SCHEDULE again, from the next time on; the times of the pause are not made up for."""
    from framework.operations.scheduling.listing import resume_schedule, schedule_json

    pipeline = call.pipeline()
    row = resume_schedule(pipeline.spec, pipeline.storage, call.surroundings.clock, schedule)
    if call.output.as_json:
        call.output.json(schedule_json(row))
    else:
        call.output.text(f"Schedule {schedule} of {pipeline.name} runs again.")
