"""`sluice validate`: check the pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.foundation.errors import GraphErrors


@click.command("validate", cls=SluiceCommand)
@click.option("--databricks", is_flag=True, help="First check for declarations that Databricks does not support.")
@pipeline_options(result=True, parameters=True)
def command(call: Call, /, *, databricks: bool) -> None:
    """Check definitions, graph and schemas; write nothing.

    Loads the pipeline's modules, resolves all names and schemas, and reports all errors at once. For
    `ingest_database` it reads the catalog of the database. Exit code 1: the pipeline is valid, but a source
    can't be read, or a flow would fail because its checkpoint does not fit its query; an update runs the rest.
    """
    from framework.views.graph import MAIN_COLUMNS, datasets_table, graph_json, graph_summary, unresolved_text

    if databricks:
        _refuse_local_only(call.spec_file())
    pipeline = call.pipeline()
    graph = pipeline.validate()
    call.output.result(datasets_table(graph).select(MAIN_COLUMNS), graph_json(graph))
    if not call.output.as_json:
        call.output.text(f"\n{click.style(pipeline.name, bold=True)} is valid: {graph_summary(graph)}")
        if graph.faults:
            call.output.text(unresolved_text(graph))
    call.warn(graph.warnings)
    call.refuse((*graph.faults, *pipeline.foretell()))


def _refuse_local_only(spec_file: Path) -> None:
    """Check the files of the spec's libraries from their source, before Spark is started."""
    from framework.declare.modules.loader import library_files
    from framework.declare.pipeline_spec import load_spec
    from framework.native.module_check import files_faults

    spec = load_spec(spec_file)
    faults = files_faults(library_files(spec, Path(spec.root or spec_file.parent), {".py", ".ipynb"}))
    if faults:
        raise GraphErrors(faults)
