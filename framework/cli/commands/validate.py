"""`sluice validate`: whether the pipeline is sound."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("validate", cls=SluiceCommand)
@pipeline_options(result=True, parameters=True)
def command(call: Call) -> None:
    """Check definitions, graph and schemas; write nothing.

    Loads the pipeline's modules, resolves every name and schema, and reports all faults at once.
    """
    from framework.cli.graph_tables import dataset_rows, graph_json
    from framework.web.page import graph_summary

    pipeline = call.pipeline()
    graph = pipeline.validate()
    if call.output.as_json:
        call.output.json(graph_json(graph))
        return
    call.output.table(("dataset", "kind", "flows", "reads", "columns"), dataset_rows(graph))
    call.output.text(f"\n{click.style(pipeline.name, bold=True)} is valid: {graph_summary(graph)}")
