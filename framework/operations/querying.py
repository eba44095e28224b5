"""Rows of a pipeline's datasets and of queries over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, PySparkException

from framework.engine.jvm.java_causes import session_fault
from framework.engine.jvm.java_errors import Py4JError
from framework.foundation.errors import OperationError, UserError, UserErrors
from framework.graph.queries.calls import first_words
from framework.operations.pipeline_port import PipelinePort
from framework.views.rows import RowsView


def rows_of_query(pipeline: PipelinePort, query: str) -> RowsView:
    """Return the rows of a query over the datasets of a pipeline, by name, and over its event log.

    Raises:
        UserError: QUERY_INVALID, or another fault of the query.
        OperationError: QUERY_FAILED, or a fault of the session.
    """
    with query_errors():
        found = pipeline.sql(query)
        return RowsView.of(found.columns, found.collect())


def quarantined_rows(
    pipeline: PipelinePort, flow: str, *, reason: str | None = None, limit: int = 20
) -> list[dict[str, Any]]:
    """Return quarantined rows of a flow, each with its reasons and with the row itself as JSON.

    Raises:
        UserError: the flow is not found.
    """
    found = pipeline.quarantine.rows(flow, reason=reason).limit(limit).collect()
    return [row.asDict() | {"row": None if row["row"] is None else row["row"].toJson()} for row in found]


@contextmanager
def query_errors() -> Iterator[None]:
    """Convert exceptions in the block to errors of the query.

    Raises:
        UserError: QUERY_INVALID if Spark rejects the query; an error raised by the block, without its location, which
            would be a line of the program that passed the query.
        OperationError: QUERY_FAILED if the query fails at run time.
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
