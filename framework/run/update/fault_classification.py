"""Classifies exceptions of Spark and Delta: the error condition, and whether a retry may succeed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.locations import SourceLocation, innermost_user_line
from framework.foundation.names import QualifiedName
from framework.foundation.wording import exception_text
from framework.graph.calls import first_words
from framework.run.flows.expectations import VIOLATION_MARK
from framework.run.flows.python_errors import python_error

_VIOLATION = re.compile(re.escape(VIOLATION_MARK) + r"(?P<name>.*?):(?P<row>\{.*?\})(?=\s*(?:SQLSTATE|\n|$))")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*(.*)")
_WRAPPERS = frozenset({"STREAM_FAILED", "TASK_WRITE_FAILED"})

_MOST_CAUSES = 20

# Faults that a retry may heal: the network, a busy or lost machine, concurrent writers. All other faults
# repeat: a query that can't be analysed, a broken contract, an incompatible checkpoint.
_CAN_HEAL = re.compile(
    r"Connection (?:refused|reset)|Connection(?:Refused|Reset|Aborted)Error|timed? ?out|TimeoutException"
    r"|UnknownHostException|SocketException"
    r"|ConcurrentAppendException|ConcurrentDeleteReadException|ConcurrentDeleteDeleteException"
    r"|ConcurrentTransactionException|ConcurrentWriteException|MetadataChangedException|ProtocolChangedException"
    r"|DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|ExecutorLostFailure|FetchFailedException"
    r"|No space left on device|Stale file handle|503 Service|429 Too Many|SlowDown"
)


def flow_fault(error: BaseException, flow: QualifiedName, location: SourceLocation | None) -> SluiceError:
    """Convert an exception into the error that the user reads, without a Java stack.

    A SluiceError is returned unchanged.
    A violated expectation becomes EXPECTATION_VIOLATION with the row. An exception of a Python function,
    in Spark's workers or in this process, becomes PYTHON_EXCEPTION with type, message and the user's line.
    Everything else becomes FLOW_FAILED, with the condition and message of Spark or Delta if there is one.

    Args:
        error: the exception that the flow raised.
        flow: the flow.
        location: its declaration, used if the error has no other line of the user's code.
    """
    if isinstance(error, SluiceError):
        return error
    place = innermost_user_line(error.__traceback__)
    text = "\n".join(_texts(error))
    violation = _VIOLATION.search(text)
    if violation is not None:
        return OperationError(
            "EXPECTATION_VIOLATION", location=location, flow=flow, expectation=violation["name"], row=violation["row"]
        )
    if place is not None and not isinstance(error, PySparkException | Py4JError):
        return OperationError("PYTHON_EXCEPTION", location=place, flow=flow, error=exception_text(error))
    # The query's wrapper of a batch function's exception is not parsed, because the exception itself has more detail.
    found = python_error("\n".join(_own_texts(error)))
    if found is not None:
        return OperationError(
            "PYTHON_EXCEPTION", location=found.location or place or location, flow=flow, error=found.text
        )
    return OperationError("FLOW_FAILED", location=place or location, flow=flow, cause=_cause(error, text))


def can_heal(error: BaseException) -> bool:
    """Whether a retry may succeed without any other change."""
    return not isinstance(error, SluiceError) and _CAN_HEAL.search("\n".join(_texts(error))) is not None


def _cause(error: BaseException, text: str) -> str:
    """Return the innermost condition with its first line; without one, the first line of the exception."""
    for condition, words in reversed(_CONDITION.findall(text)):
        if condition.split(".")[0] not in _WRAPPERS:
            return f"[{condition}] {words}".strip()
    return first_words(error).splitlines()[0]


def _texts(error: BaseException) -> Iterator[str]:
    """Yield the texts of an exception and its causes, Java causes included, without stacks."""
    seen: BaseException | None = error
    while seen is not None:
        yield from _own_texts(seen)
        seen = seen.__cause__ or seen.__context__


def _own_texts(error: BaseException) -> Iterator[str]:
    """Yield the text of one exception, with its Java causes if it is from the JVM."""
    if isinstance(error, Py4JJavaError):
        yield from _java_messages(error.java_exception)
    elif isinstance(error, PySparkException):
        yield str(error).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0]
        yield from _java_messages(getattr(error, "_origin", None))
    elif isinstance(error, Py4JError):
        yield str(error)
    else:
        yield exception_text(error)


def _java_messages(throwable: object) -> Iterator[str]:
    """Yield class and message of a Java throwable and of each of its causes."""
    for _ in range(_MOST_CAUSES):  # causes may be circular
        if not isinstance(throwable, JavaObject):
            return
        yield f"{throwable.getClass().getName()}: {throwable.getMessage()}".split("\n\tat ")[0]
        throwable = throwable.getCause()
