"""What goes wrong with a query that was typed: told in Spark's words, without a place in a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from framework.foundation.errors import OperationError, UserError, UserErrors
from framework.graph.calls import first_words


@contextmanager
def query_errors() -> Iterator[None]:
    """Turn what the block raises into errors about the query.

    Raises:
        UserError: QUERY_INVALID when Spark can't make sense of it; or what the block raised, without
            its location, which would be a line of the program that passed the text on.
        OperationError: QUERY_FAILED when it failed while it ran.
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
        raise OperationError("QUERY_FAILED", cause=first_words(error)) from error
