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
    from framework.graph.resolving.streamed_views import STREAMED_VIEW
    from framework.plan.explainer import plan_json
    from framework.plan.steps import breakages, refusals

    refresh = refresh_of(options)
    pipeline = call.pipeline()
    plan = pipeline.plan(**refresh)
    if call.output.as_json:
        call.output.json(plan_json(plan))
    else:
        _print_plan(call.output, plan)
    graph = pipeline.graph
    call.warn([each for each in graph.warnings if each.condition == STREAMED_VIEW])
    call.warn([each.error() for each in plan.warnings])
    call.refuse((*refusals(graph, plan), *breakages(graph, plan)))


def _print_plan(output: Output, plan: Plan) -> None:
    from framework.plan.explainer import plan_summary, plan_title
    from framework.views.plan import plan_table

    output.text(f"{click.style(plan_title(plan), bold=True)}\n")
    if plan.steps:
        output.text(output.formatted(plan_table(plan), heads=False, indent=2) + "\n")
    output.text(plan_summary(plan))
