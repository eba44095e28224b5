"""`sluice plan`: what an update would do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand, styled
from framework.cli.output import colours_wanted
from framework.cli.refresh import refresh_of, refresh_options

if TYPE_CHECKING:
    from framework.plan.steps import Plan


@click.command("plan", cls=SluiceCommand)
@refresh_options
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, **options: Any) -> None:
    """Print the steps that `run` would do, and why.

    Takes the same options as `run`, and writes nothing. Ends with 1 if it has a table of somebody else's to refuse.
    """
    from framework.plan.explainer import plan_json
    from framework.plan.steps import refusals

    refresh = refresh_of(options)
    pipeline = call.pipeline()
    plan = pipeline.plan(**refresh)
    if call.output.as_json:
        call.output.json(plan_json(plan))
    else:
        call.output.text(_text(plan))
    refused = refusals(pipeline.graph, plan)
    for error in refused:
        click.echo("\n" + styled(error.render()), err=True, color=colours_wanted(sys.stderr))
    if refused:
        raise click.exceptions.Exit(1)


def _text(plan: Plan) -> str:
    from framework.plan.explainer import plan_summary, plan_title, step_lines

    lines = [click.style(line, dim=True) if step.skipped else line for step, line in step_lines(plan)]
    return "\n".join(
        [click.style(plan_title(plan), bold=True), "", *lines, *([""] if lines else []), plan_summary(plan)]
    )
