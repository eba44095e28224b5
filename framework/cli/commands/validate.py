"""`sluice validate`: whether the pipeline is sound."""

from __future__ import annotations

from pathlib import Path

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.foundation.errors import GraphErrors


@click.command("validate", cls=SluiceCommand)
@click.option("--databricks", is_flag=True, help="First look for declarations that Databricks has no form for.")
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, databricks: bool) -> None:
    """Check definitions, graph and schemas; write nothing.

    Loads the pipeline's modules, resolves every name and schema, and reports all faults at once.
    """
    from framework.cli.graph_tables import dataset_rows, graph_json
    from framework.diagrams.page import graph_summary

    if databricks:
        _refuse_local_only(call.spec_file())
    pipeline = call.pipeline()
    graph = pipeline.validate()
    if call.output.as_json:
        call.output.json(graph_json(graph))
        return
    call.output.table(("dataset", "kind", "flows", "reads", "columns"), dataset_rows(graph))
    call.output.text(f"\n{click.style(pipeline.name, bold=True)} is valid: {graph_summary(graph)}")


def _refuse_local_only(spec_file: Path) -> None:
    """Check the files of the spec's libraries from their source, before Spark is started."""
    from framework.declare.loader import library_files
    from framework.declare.pipeline_spec import load_spec
    from framework.native.module_check import files_faults

    spec = load_spec(spec_file)
    faults = files_faults(library_files(spec, Path(spec.root or spec_file.parent), {".py"}))
    if faults:
        raise GraphErrors(faults)
