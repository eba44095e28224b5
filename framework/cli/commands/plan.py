"""`sluice plan`: what an update would do."""

from __future__ import annotations

from typing import Any

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.cli.refresh import refresh_of, refresh_options


@click.command("plan", cls=SluiceCommand)
@refresh_options
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, **options: Any) -> None:
    """Print the steps that `run` would do, and why.

    Takes the same options as `run`, and writes nothing.
    """
    from framework.plan.explainer import plan_json, plan_summary, plan_title, step_lines

    refresh = refresh_of(options)
    pipeline = call.pipeline()
    plan = pipeline.plan(**refresh)
    if call.output.as_json:
        call.output.json(plan_json(plan))
        return
    lines = [click.style(line, dim=True) if step.skipped else line for step, line in step_lines(plan)]
    text = "\n".join(
        [click.style(plan_title(plan), bold=True), "", *lines, *([""] if lines else []), plan_summary(plan)]
    )
    call.output.text(text)
