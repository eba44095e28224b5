"""`sluice sql`: the result of a query."""

from __future__ import annotations

import click

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand


@click.command("sql", cls=SluiceCommand)
@click.argument("query")
@pipeline_options(result=True, parameters=True)
def command(call: Call, query: str) -> None:
    """Print the result of a query.

    QUERY is a SELECT over the datasets of the pipeline, by name, and over event_log.
    """
    from framework.operations.querying import rows_of_query

    call.output.rows(rows_of_query(call.pipeline(), query))
