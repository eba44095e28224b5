"""`sluice events`: the event log."""

from __future__ import annotations

from typing import Any

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.record.events import EventLevel, EventType


@click.command("events", cls=SluiceCommand)
@click.option(
    "--type",
    type=click.Choice([each.value for each in EventType]),
    metavar="TYPE",
    help=f"Only events of this type: {', '.join(EventType)}.",
)
@click.option(
    "--level",
    type=click.Choice([each.value for each in EventLevel], case_sensitive=False),
    help="Only events of this level or a higher one.",
)
@click.option("--dataset", metavar="D", help="Only events about this dataset.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N events.")
@click.option("--before", metavar="ID", help="Only events before the one with this id: with --last, the page before.")
@click.option("--follow", is_flag=True, help="Print new events until Ctrl-C; with -o json, one per line.")
@pipeline_options(result=True)
def command(call: Call, /, *, follow: bool, **filters: Any) -> None:
    """Print the event log.

    Lists the events of updates and flows, oldest first. Does not start Spark if the storage is local. The ids of events
    are in the result of -o json.
    """
    from framework.views.events import EventQuery, event_line, events_json, events_table

    if follow and filters["before"] is not None:
        msg = "--before is for events that are there; --follow waits for new ones."
        raise click.UsageError(msg)
    query, output = EventQuery(**filters), call.output
    storage = call.pipeline().storage
    if not follow:
        events = query.read(storage, call.surroundings.cache())
        output.result(events_table(events), events_json(events))
        return
    try:
        for event in query.follow(storage, call.surroundings.clock):
            if output.as_json:
                output.json_line(event.to_row())
            else:
                output.line(event_line(event))
    except KeyboardInterrupt:
        return
