"""Calls of user functions: runs query functions under guards, and converts their exceptions to errors."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import AnalysisException, ParseException, PySparkAttributeError, PySparkException
from pyspark.sql import DataFrame

from framework.declare.modules.databricks_only import advice_for
from framework.declare.modules.shims import shimmed
from framework.declare.registry import Registry
from framework.declare.session.mutations import guarded_query
from framework.declare.session.query_views import own_views
from framework.declare.sql.source import SUFFIX as SQL_SUFFIX
from framework.engine.jvm.java_causes import session_fault, with_last_cause
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.plans.relations import catalog_names
from framework.foundation.errors import SluiceError, SourceError, UserError, remote_error
from framework.foundation.locations import SourceLocation, innermost_user_line
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import plain_path
from framework.foundation.wording import exception_text, one_line, without_internal_names
from framework.graph.graph import GraphFlow, Read
from framework.sources.faults import is_source_fault

_DEEP_CHAIN = 20_000
_LINE_OF_QUERY = re.compile(r"\bline (\d+),? pos \d+")
SPARK_ERRORS = (PySparkException, Py4JError)
"""Exceptions of PySpark calls: Spark's own conditions, and Java exceptions without a PySpark class."""


_OF_QUERY = "Correct the query."
_OF_SOURCE = "Repair, replace or remove what can't be read, or restore the access to it."
_OF_CAUSE = "Correct the cause that the message names: the query, its source, or a setting of the session."

_UNKNOWN_TABLE = ("TABLE_OR_VIEW_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")
_ERRORS_OF_COLUMNS = (AnalysisException, Py4JError, PySparkAttributeError, LookupError)


class UpstreamInvalidError(Exception):
    """A read dataset has a fault, which is gathered already; not reported to the user."""


class UpstreamUnreadError(UpstreamInvalidError):
    """A read dataset has no known columns, because a source is unreadable: the query waits for it.

    Args:
        names: the datasets with the fault.
    """

    def __init__(self, *names: QualifiedName) -> None:
        self.names = names
        super().__init__(", ".join(map(str, names)))


def call_query(query: Callable[[], DataFrame], flow: QualifiedName, location: SourceLocation | None) -> DataFrame:
    """Call a query function and return its DataFrame.

    Raises:
        SourceError: FLOW_SOURCE_UNREADABLE, a source of the query can't be read.
        UserError: the function raised (FLOW_QUERY_FAILED, at the innermost line of the user's own code),
            called a method that query functions must not call, or did not return a DataFrame
            (FLOW_QUERY_NOT_A_DATAFRAME).
    """

    def guarded() -> object:
        with guarded_query(), own_views():
            return query()

    frame = call_user_code(guarded, flow, location)
    if not isinstance(frame, DataFrame):
        raise UserError("FLOW_QUERY_NOT_A_DATAFRAME", location=location, flow=flow, found=type(frame).__name__)
    return frame


def call_user_code(function: Callable[[], object], flow: QualifiedName, location: SourceLocation | None) -> object:
    """Call a user function and return its result.

    Raises:
        UserError: the function raised (FLOW_QUERY_FAILED, at the innermost line of the user's own code).
    """
    try:
        with shimmed():
            return function()
    except (SluiceError, UpstreamInvalidError, KeyboardInterrupt):
        raise
    except BaseException as error:  # includes `sys.exit()` and custom exceptions: user code must not end this process
        raise query_failed(error, flow, location) from error


def _in_statement(found: SourceLocation | None, error: BaseException) -> SourceLocation | None:
    """Return the line of a SQL file for Spark's error, which counts lines from the start of the statement."""
    counted = _LINE_OF_QUERY.search(str(error)) if isinstance(error, PySparkException) else None
    if found is None or counted is None or not found.file.endswith(SQL_SUFFIX):
        return found
    return replace(found, line=found.line + int(counted[1]) - 1)


def query_failed(error: BaseException, flow: QualifiedName, location: SourceLocation | None) -> SluiceError:
    """Return the error for an exception of a query function or its analysis, located in the user's code.

    It is FLOW_SOURCE_UNREADABLE if a source of the query failed, otherwise FLOW_QUERY_FAILED. An error of one of our
    data sources, which Spark runs in another process, keeps its condition. A fault of the session, such as a missing
    library, has a condition of its own, because changing the query would not help.
    """
    found = _in_statement(innermost_user_line(error.__traceback__) or location, error)
    remote = remote_error(str(error)) if isinstance(error, PySparkException) else None
    if remote is not None:
        return remote.at(found)
    advice = advice_for(error)
    fault = session_fault(error) if advice is None else None
    if fault is not None:
        where = found if fault.is_of_read else None
        return UserError(fault.condition, location=where, subject=f"The query of {flow}", **fault.fields)
    if is_source_fault(error):
        advice = advice or _OF_SOURCE
        return SourceError("FLOW_SOURCE_UNREADABLE", location=found, flow=flow, cause=first_words(error), advice=advice)
    # A Java exception without a PySpark class does not mean that Spark rejects the query.
    advice = advice or (_OF_CAUSE if isinstance(error, Py4JError) else _OF_QUERY)
    return UserError("FLOW_QUERY_FAILED", location=found, flow=flow, cause=first_words(error), advice=advice)


def unfollowed_read(error: Exception, flow: QualifiedName, registry: Registry) -> UserError | None:
    """Return the error of a read that Spark looked up in its catalog instead of the pipeline; None for other errors.

    Such a read is not intercepted: it is in a SQL expression, in a table function, or in a thread of the query
    function.
    """
    cause = error.__cause__ if isinstance(error, SluiceError) else error
    if not isinstance(cause, AnalysisException) or cause.getCondition() not in _UNKNOWN_TABLE:
        return None
    parameters = cause.getMessageParameters() or {}
    try:
        dataset = registry.name(parameters.get("relationName") or parameters.get("identifier") or "")
    except UserError:  # not the name of a dataset
        return None
    if all(dataset != spec.name for spec in registry.datasets):
        return None
    location = error.location if isinstance(error, SluiceError) else innermost_user_line(error.__traceback__)
    return UserError("PIPELINE_READ_NOT_FOLLOWED", location=location, flow=flow, dataset=dataset)


def check_catalog_reads(
    frame: DataFrame, flow: GraphFlow, reads: Iterable[Read], tables: Mapping[str, QualifiedName]
) -> None:
    """Check that a query reads no table of the pipeline by a name that Spark looks up in its catalog.

    Such a read creates no edge, so the query would run before the table has its new rows. Reads by path, and reads by a
    catalog name in the query function, are the user's decision.

    Args:
        frame: the analysed query.
        flow: its flow.
        reads: the reads that were intercepted.
        tables: the pipeline's tables by folder, in the spelling of `plain_path`.

    Raises:
        UserError: PIPELINE_READ_NOT_FOLLOWED.
    """
    if all(plain_path(path) not in tables for path in flow.batch_paths):
        return
    intercepted = {read.text.replace("`", "").rpartition(".")[2].lower() for read in reads}
    for path, name in catalog_names(frame):
        dataset = tables.get(plain_path(path))
        if dataset is not None and name.rpartition(".")[2].lower() not in intercepted:
            spec = flow.spec
            raise UserError("PIPELINE_READ_NOT_FOLLOWED", location=spec.location, flow=spec.name, dataset=dataset)


def is_of_columns(error: BaseException) -> bool:
    """Whether a query's error depends on its inputs' columns: a failed analysis, or a failed look-up in Python.

    Errors of names, types, rules or syntax are the same for all columns.
    """
    if isinstance(error, SluiceError):
        if error.condition != "FLOW_QUERY_FAILED" or error.__cause__ is None:
            return False
        error = error.__cause__
    return isinstance(error, _ERRORS_OF_COLUMNS) and not isinstance(error, ParseException)


def first_words(error: BaseException) -> str:
    """Return an exception's message without the query plan or the Java stack that Spark appends."""
    if isinstance(error, PySparkException):
        return without_internal_names(str(error).split("\n\nJVM stacktrace")[0].split(";\n")[0].strip())
    if isinstance(error, Py4JError):
        java = getattr(error, "java_exception", None)
        words = one_line(str(java.toString()) if java is not None else str(error).split("\n", maxsplit=1)[0])
        return with_last_cause(words, error)
    return exception_text(error)


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the recursion limit for a long chain of datasets declared last to first; Python frames need no C stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEP_CHAIN))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
