"""`sluice show`: rows of a dataset."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand

_MOST_ROWS = 2**31 - 1  # the limit of Spark


@click.command("show", cls=SluiceCommand)
@click.argument("dataset")
@click.option(
    "-n", "--rows", type=click.IntRange(1, _MOST_ROWS), default=10, show_default=True, help="Maximum number of rows."
)
@pipeline_options(result=True, parameters=True)
def command(call: Call, dataset: str, rows: int) -> None:
    """Print rows of a dataset.

    DATASET is a table of the pipeline. The order of its rows is not defined.
    """
    from framework.views.rows import RowsView

    found = call.pipeline().preview(dataset, rows)
    call.output.rows(RowsView.of(found.columns, found.collect()))
    for key in () if call.output.as_json else found.declared_keys:
        call.output.text(f"Declared, and not checked: {key}")
