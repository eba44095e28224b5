"""`sluice lag`: how far flows are behind."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("lag", cls=SluiceCommand)
@click.argument("flow", required=False)
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, flow: str | None) -> None:
    """Print how far each flow is behind, and whether it is stuck.

    Reads checkpoints, sources and the event log, and runs no Spark job but to count rows of a quarantine. A flow is
    idle if nothing is unread, and stuck if a continuous update runs it but it is silent. FLOW selects one flow.
    """
    from framework.views.lag import lag_json, lag_table

    found = call.pipeline().lag(flow)
    call.output.result(lag_table(found), lag_json(found))
    for waiting in (each.quarantined for each in found if each.quarantined and not call.output.as_json):
        call.output.text(str(waiting))
