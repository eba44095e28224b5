"""`sluice plan`: the steps of an update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from framework.cli.call import Call, pipeline_options, refresh_of, refresh_options
from framework.cli.command import SluiceCommand
from framework.cli.output import Output

if TYPE_CHECKING:
    from framework.plan.steps import Plan


@click.command("plan", cls=SluiceCommand)
@refresh_options
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, **options: Any) -> None:
    """Print the steps of an update and their reasons; write nothing.

    Takes the options of `run`. Exit code 1: the update would refuse a table, because the pipeline does not own
    it, or its source or a folder of it can't be read or written, or a flow would fail because its checkpoint does
    not fit its query. So does a storage that the user can't write.
    """
    from framework.operations.planning import plan_update
    from framework.plan.explainer import plan_json

    report = plan_update(call.pipeline(), **refresh_of(options))
    if call.output.as_json:
        call.output.json(plan_json(report.plan))
    else:
        _print_plan(call.output, report.plan)
    call.warn(report.warnings)
    call.refuse(report.refusals)


def _print_plan(output: Output, plan: Plan) -> None:
    from framework.plan.explainer import plan_summary, plan_title
    from framework.views.plan import plan_table

    output.text(f"{click.style(plan_title(plan), bold=True)}\n")
    if plan.steps:
        output.text(output.formatted(plan_table(plan), heads=False, indent=2) + "\n")
    output.text(plan_summary(plan))
