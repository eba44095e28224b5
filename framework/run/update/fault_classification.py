"""What an exception of Spark or Delta means: which condition it is, and whether trying again can heal it."""

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

# What another try may heal: the network, a busy or lost machine, two writers that met. All else says
# the same again: a query that can't be analysed, a broken contract, a checkpoint that does not fit.
_CAN_HEAL = re.compile(
    r"Connection (?:refused|reset)|Connection(?:Refused|Reset|Aborted)Error|timed? ?out|TimeoutException"
    r"|UnknownHostException|SocketException"
    r"|ConcurrentAppendException|ConcurrentDeleteReadException|ConcurrentDeleteDeleteException"
    r"|ConcurrentTransactionException|ConcurrentWriteException|MetadataChangedException|ProtocolChangedException"
    r"|DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|ExecutorLostFailure|FetchFailedException"
    r"|No space left on device|Stale file handle|503 Service|429 Too Many|SlowDown"
)


def flow_fault(error: BaseException, flow: QualifiedName, location: SourceLocation | None) -> SluiceError:
    """The error as the user should read it, without a Java stack.

    A violated expectation becomes EXPECTATION_VIOLATION with the row; an exception of a Python function,
    in Spark's workers or in this process, PYTHON_EXCEPTION with type, message and the user's line; what
    carries a condition of Spark's or Delta's becomes FLOW_FAILED with that condition and its words.

    Args:
        error: what made the flow fail.
        flow: the flow.
        location: its declaration, where the error leads to no other line of the user's.
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
    # What the query made of an exception that left a batch function is not looked at: the exception says more.
    found = python_error("\n".join(_own_texts(error)))
    if found is not None:
        return OperationError(
            "PYTHON_EXCEPTION", location=found.location or place or location, flow=flow, error=found.text
        )
    return OperationError("FLOW_FAILED", location=place or location, flow=flow, cause=_cause(error, text))


def can_heal(error: BaseException) -> bool:
    """Whether trying again may succeed without anybody changing anything."""
    return not isinstance(error, SluiceError) and _CAN_HEAL.search("\n".join(_texts(error))) is not None


def _cause(error: BaseException, text: str) -> str:
    """The innermost condition with its first line; the exception's own first words when there is none."""
    for condition, words in reversed(_CONDITION.findall(text)):
        if condition.split(".")[0] not in _WRAPPERS:
            return f"[{condition}] {words}".strip()
    return first_words(error).splitlines()[0]


def _texts(error: BaseException) -> Iterator[str]:
    """What the exception and those behind it say, Java's causes included, stacks left out."""
    seen: BaseException | None = error
    while seen is not None:
        yield from _own_texts(seen)
        seen = seen.__cause__ or seen.__context__


def _own_texts(error: BaseException) -> Iterator[str]:
    """What one exception says, with Java's causes if it comes from the JVM."""
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
    """Class and message of a Java throwable and of each cause behind it."""
    for _ in range(_MOST_CAUSES):  # causes may be circular
        if not isinstance(throwable, JavaObject):
            return
        yield f"{throwable.getClass().getName()}: {throwable.getMessage()}".split("\n\tat ")[0]
        throwable = throwable.getCause()
