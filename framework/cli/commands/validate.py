"""`sluice validate`: check the pipeline."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("validate", cls=SluiceCommand)
@click.option("--databricks", is_flag=True, help="First check for declarations that Databricks does not support.")
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, databricks: bool) -> None:
    """Check definitions, graph and schemas; change no data.

    Loads the pipeline's modules, resolves all names and schemas, and reports all errors at once. For
    `ingest_database` it reads the catalog of the database. Exit code 1: the pipeline is valid, but a source
    can't be read, or a flow would fail because its checkpoint does not fit its query; an update runs the rest. The
    graph is stored for `sluice graph --stored`.
    """
    from framework.operations.planning import check_runs_natively, validate
    from framework.views.graph import MAIN_COLUMNS, datasets_table, graph_json, graph_summary, unresolved_text

    if databricks:
        check_runs_natively(call.spec_file())
    pipeline = call.pipeline()
    report = validate(pipeline)
    graph = report.graph
    call.output.result(datasets_table(graph).select(MAIN_COLUMNS), graph_json(graph))
    if not call.output.as_json:
        call.output.text(f"\n{click.style(pipeline.name, bold=True)} is valid: {graph_summary(graph)}")
        if graph.faults:
            call.output.text(unresolved_text(graph))
    call.warn(graph.warnings)
    call.refuse(report.refusals)
