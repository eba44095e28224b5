"""Errors of a query on the command line."""

from __future__ import annotations

import logging
from io import StringIO

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger

from framework.foundation.errors import GraphErrors, OperationError, SluiceError, UserError
from framework.foundation.locations import SourceLocation
from framework.operations.querying import query_errors
from framework.session import query_log

HERE = SourceLocation(file="click/decorators.py", line=34)


@pytest.mark.parametrize(
    ("raised", "condition", "kind"),
    [
        (AnalysisException("no such column"), "QUERY_INVALID", UserError),
        (PySparkException("division by zero"), "QUERY_FAILED", OperationError),
    ],
)
def test_errors_of_spark_become_errors_of_sluice(raised: Exception, condition: str, kind: type[SluiceError]) -> None:
    """A query that Spark rejects is invalid usage; one that fails while it runs is a failed operation."""
    with pytest.raises(kind) as caught, query_errors():
        raise raised
    assert (caught.value.condition, caught.value.fields) == (condition, {"cause": str(raised)})


def test_a_query_has_no_source_location() -> None:
    """The line of the program that passes the query is not the user's."""
    with pytest.raises(UserError) as caught, query_errors():
        raise UserError("UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND", location=HERE, command="DROP")
    assert (caught.value.location, caught.value.fields) == (None, {"command": "DROP"})


def test_errors_of_the_pipeline_keep_their_locations() -> None:
    """A query over an invalid pipeline raises the errors of the pipeline, with file and line."""
    fault = UserError("INVALID_NAME", location=HERE, name="a b")
    with pytest.raises(GraphErrors) as caught, query_errors():
        raise GraphErrors([fault])
    assert caught.value.errors == (fault,)


@pytest.mark.parametrize("name", ["DataFrameQueryContextLogger", "SQLQueryContextLogger"])
def test_pyspark_does_not_log_what_sluice_reports_itself(name: str, swap: pytest.MonkeyPatch) -> None:
    """Both loggers that print a Java stack for each failed query are silent inside the block, and only there."""
    logger = PySparkLogger.getLogger(name)
    written = StringIO()
    # A command that another test ran in this process has silenced both loggers for good.
    swap.setattr(query_log, "_silence", query_log._Silence())
    swap.setattr(logger, "filters", [])
    swap.setattr(logger, "handlers", [logging.StreamHandler(written)])
    swap.setattr(logger, "propagate", False)
    with query_log.quiet_query_log():
        logger.error("a stack", file="x.py")
    assert written.getvalue() == ""
    logger.warning("a warning")
    assert "a warning" in written.getvalue()


def test_py4j_does_not_log_that_the_jvm_has_ended(swap: pytest.MonkeyPatch) -> None:
    """It logs to the root logger, which then prints what its own loggers say: all of it is dropped inside the block."""
    root, own, written = logging.getLogger(), logging.getLogger("py4j.clientserver"), StringIO()
    swap.setattr(own, "filters", [])
    swap.setattr(query_log, "_silence", query_log._Silence())
    swap.setattr(root, "filters", [])
    swap.setattr(root, "handlers", [logging.StreamHandler(written)])
    lost = logging.LogRecord("root", logging.ERROR, "py4j/java_gateway.py", 1059, "lost", None, None)
    with query_log.quiet_query_log():
        root.handle(lost)
        own.error("a batch that it interrupted")
        root.error("of the user")
    assert written.getvalue() == "of the user\n"
    root.handle(lost)
    own.error("later")
    assert written.getvalue() == "of the user\nlost\nlater\n"
