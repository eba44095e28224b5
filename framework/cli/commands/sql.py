"""`sluice sql`: the rows of a query."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("sql", cls=SluiceCommand)
@click.argument("query")
@pipeline_options(result=True, parameters=True)
def command(call: Call, query: str) -> None:
    """Print the rows of a query.

    QUERY is a SELECT over the pipeline's datasets by their names, and over event_log.
    """
    from framework.cli.query_errors import query_errors
    from framework.cli.row_tables import print_rows

    pipeline = call.pipeline()
    with query_errors():
        print_rows(call.output, pipeline.sql(query))
