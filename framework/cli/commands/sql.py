"""`sluice sql`: the result of a query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from framework.cli.call import Call, pipeline_options
from framework.cli.command import SluiceCommand
from framework.foundation.errors import OperationError, UserError, UserErrors
from framework.foundation.java_causes import session_fault
from framework.graph.queries.calls import first_words


@click.command("sql", cls=SluiceCommand)
@click.argument("query")
@pipeline_options(result=True, parameters=True)
def command(call: Call, query: str) -> None:
    """Print the result of a query.

    QUERY is a SELECT over the datasets of the pipeline, by name, and over event_log.
    """
    from framework.views.rows import RowsView

    pipeline = call.pipeline()
    with query_errors():
        found = pipeline.sql(query)
        call.output.rows(RowsView.of(found.columns, found.collect()))


@contextmanager
def query_errors() -> Iterator[None]:
    """Convert exceptions of the block to errors about the query.

    Raises:
        UserError: QUERY_INVALID if Spark rejects the query; or the error that the block raised, without its
            location, which would be a line of the program that passed the query.
        OperationError: QUERY_FAILED if the query fails while it runs.
    """
    try:
        yield
    except UserErrors:
        raise
    except UserError as error:
        raise UserError(error.condition, location=None, **error.fields) from error
    except AnalysisException as error:
        raise UserError("QUERY_INVALID", cause=first_words(error)) from error
    except (PySparkException, Py4JError) as error:
        fault = session_fault(error)
        if fault is not None:
            raise OperationError(fault.condition, subject="The query", **fault.fields) from error
        raise OperationError("QUERY_FAILED", cause=first_words(error)) from error
