"""Errors of a query that was typed on the command line."""

from __future__ import annotations

import logging
from io import StringIO

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger

from framework.cli.commands.sql import query_errors
from framework.foundation.errors import GraphErrors, OperationError, SluiceError, UserError
from framework.foundation.locations import SourceLocation
from framework.session.query_log import quiet_query_log

HERE = SourceLocation(file="click/decorators.py", line=34)


@pytest.mark.parametrize(
    ("raised", "condition", "kind"),
    [
        (AnalysisException("no such column"), "QUERY_INVALID", UserError),
        (PySparkException("division by zero"), "QUERY_FAILED", OperationError),
    ],
)
def test_sparks_words_become_an_error_of_ours(raised: Exception, condition: str, kind: type[SluiceError]) -> None:
    """A query that Spark can't parse is wrong usage; a failure during the run is a failed operation."""
    with pytest.raises(kind) as caught, query_errors():
        raise raised
    assert (caught.value.condition, caught.value.fields) == (condition, {"cause": str(raised)})


def test_a_typed_query_has_no_line_in_a_file() -> None:
    """The error does not show the line of the program that passed the text on."""
    with pytest.raises(UserError) as caught, query_errors():
        raise UserError("UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND", location=HERE, command="DROP")
    assert (caught.value.location, caught.value.fields) == (None, {"command": "DROP"})


def test_faults_of_the_pipeline_keep_their_places() -> None:
    """A query over a faulty pipeline reports the pipeline's faults, with file and line."""
    fault = UserError("INVALID_NAME", location=HERE, name="a b")
    with pytest.raises(GraphErrors) as caught, query_errors():
        raise GraphErrors([fault])
    assert caught.value.errors == (fault,)


@pytest.mark.parametrize("name", ["DataFrameQueryContextLogger", "SQLQueryContextLogger"])
def test_pyspark_does_not_log_what_sluice_reports_itself(name: str, swap: pytest.MonkeyPatch) -> None:
    """Both loggers that print a Java stack for each failed query are silent inside the block, and only there."""
    logger = PySparkLogger.getLogger(name)
    written = StringIO()
    swap.setattr(logger, "handlers", [logging.StreamHandler(written)])
    swap.setattr(logger, "propagate", False)
    with quiet_query_log():
        logger.error("a stack", file="x.py")
    assert written.getvalue() == ""
    logger.warning("a warning")
    assert "a warning" in written.getvalue()
