"""Classification of Spark and Delta exceptions: the error condition, and whether a retry may succeed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.errors import PySparkException

from framework.engine.jvm.java_causes import python_of_tasks, session_fault, temporary_folders, with_last_cause
from framework.engine.jvm.java_errors import (
    Py4JError,
    Py4JJavaError,
    Py4JNetworkError,
    condition_of,
    is_raised_by_py4j,
    throwables,
)
from framework.engine.jvm.process_ends import end_of_java, kills_since, memory_kills
from framework.engine.sessions.session import has_stopped
from framework.foundation.ansi_errors import hint_of_value
from framework.foundation.conditions.recovery import BREAKS, SOURCE_FILES_GONE, SOURCES_CHANGED
from framework.foundation.conditions.run import FILES_GONE
from framework.foundation.errors import OperationError, SluiceError, remote_error
from framework.foundation.files.storage_port import Storage
from framework.foundation.locations import SourceLocation, innermost_of, innermost_user_line
from framework.foundation.names import QualifiedName
from framework.foundation.resource_faults import DISK_FULL, FILE_CONDITIONS, file_condition, free_space
from framework.foundation.table_address import plain_path
from framework.foundation.wording import exception_text, one_line, without_internal_names
from framework.graph.queries.calls import first_words
from framework.run.flows.expectations import VIOLATION_MARK
from framework.run.tables.quarantine_place import QUARANTINE_FOLDER
from framework.sources.databases.dialects import is_retryable

_HEAD = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in ', re.MULTILINE)
# The exception is the first unindented line below the frames; Spark appends its own text.
_RAISED = re.compile(
    r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*?))?\s*(?=\Z|^\s+at |^\s*SQLSTATE|\n\n)", re.MULTILINE | re.DOTALL
)
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*$")

_VIOLATION = re.compile(re.escape(VIOLATION_MARK) + r"(?P<name>.*?):(?P<row>\{.*?\})(?=\s*(?:SQLSTATE|\n|$))")
_COLUMNS_CHANGED = re.compile(
    r"DELTA_SCHEMA_CHANGED_WITH_(?:VERSION|STARTING_OPTIONS)\] Detected schema change in version (\d+)"
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*(.*)")
# A Spark assertion, which has no condition.
_SOURCES_CHANGED = re.compile(
    r"There are \[(?P<was>\d+)\] sources in the checkpoint offsets and now there are \[(?P<now>\d+)\] sources"
)
_TYPE_MISMATCH = re.compile(
    r"error while reading file (?P<file>.+?)\. Data type mismatches when reading Parquet column "
    r"<?\[?(?P<column>.+?)\]?>?\. Expected Spark type (?P<wanted>.+?), actual Parquet type (?P<found>\w+)"
)
# Spark's error context: the Python line that built the expression, or SQL text with carets below it.
_BUILT_AT = re.compile(r'^== DataFrame ==\n".*" was called from\n(?P<file>.+):(?P<line>\d+)$', re.MULTILINE)
_SQL_CONTEXT = re.compile(r"^== SQL\b.*==\n(?P<lines>(?:.+\n)*.+)", re.MULTILINE)
_CARETS = re.compile(r" *(\^+)")
_WRAPPERS = frozenset({"STREAM_FAILED", "TASK_WRITE_FAILED", "DELTA_FAILED_TO_MERGE_FIELDS"})
# Exceptions of a function's own code are the user's fault; a package missing in its process is a machine fault.
_OF_PYTHONS_PACKAGES = re.compile(
    r"(?:ModuleNotFoundError|ImportError|PySparkImportError)\b|.*\[(?:PACKAGE_NOT_INSTALLED|PYTHON_VERSION_MISMATCH|"
    r"UNSUPPORTED_PACKAGE_VERSION)\]"
)

PYTHON_ENDED = "PYTHON_PROCESS_ENDED"
"""A Python worker process was killed or crashed."""

_READ_FAILED = "FAILED_READ_FILE"
_FILE_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"
_NO_STATE = "CANNOT_LOAD_STATE_STORE"
"""Its causes name the file that can't be read; `can_heal` decides whether that is temporary."""

_OF_MEMORY = re.compile(r"\w*MemoryError\b")  # also the memory errors of NumPy and Arrow
_PYTHON_ENDED = re.compile(r"^(?:.*: )?org\.apache\.spark\.SparkException: Python worker exited", re.MULTILINE)
_CONTEXT_ENDED = re.compile(
    r"^(?:[\w.]+: )?(?:Cannot call methods on a stopped SparkContext"
    r"|Job \d+ cancelled because SparkContext was shut down|SparkContext has been shutdown)",
    re.MULTILINE,
)
_CALL_FAILED = "An error occurred while calling "

# Faults that a retry may heal: the network, a busy or lost machine, concurrent writers. All other faults
# repeat: a query that can't be analysed, a broken contract, an incompatible checkpoint.
_CAN_HEAL = re.compile(
    r"Connection (?:refused|reset)|Connection(?:Refused|Reset|Aborted)Error|timed? ?out|TimeoutException"
    r"|UnknownHostException|SocketException"
    r"|ConcurrentAppendException|ConcurrentDeleteReadException|ConcurrentDeleteDeleteException"
    r"|ConcurrentTransactionException|ConcurrentWriteException|MetadataChangedException|ProtocolChangedException"
    r"|DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
    r"|ExecutorLostFailure|FetchFailedException"
    r"|Python worker failed to connect back|Python worker exited unexpectedly"
    # The reader process of a source was killed: the JVM reads to the end of its socket, or can't write to it.
    r"|EOFException(?=: null|[^:]|$)|Broken pipe"
    r"|Stale file handle|503 Service|429 Too Many|SlowDown"
)


def flow_fault(
    error: BaseException,
    flow: QualifiedName,
    location: SourceLocation | None,
    places: Sequence[str] = (),
    *,
    kills: int | None = None,
) -> SluiceError:
    """Convert an exception into the error shown to the user, without a Java stack.

    A SluiceError is returned unchanged.
    A violated expectation becomes EXPECTATION_VIOLATION with the row. An exception in a Python function, in Spark's
    workers or in this process, becomes PYTHON_EXCEPTION with its type, message and the user's line. A MemoryError
    becomes PYTHON_OUT_OF_MEMORY, and a killed or crashed worker PYTHON_PROCESS_ENDED. A terminated JVM becomes
    SPARK_LOST, and a Parquet column of another type FILE_TYPE_MISMATCH. Missing or invalid parts of the session become
    a condition of `session_fault`, by the innermost cause. Everything else becomes FLOW_FAILED, with the condition and
    message of Spark or Delta if there is one. If Spark knows the failed expression, its SQL text is added, or its
    Python line becomes the location.

    Args:
        error: the exception that the flow raised.
        flow: the flow.
        location: its declaration, used if the error contains no other line of the user's code.
        places: the folders that it writes to; the error for a full disk names the one with the least space.
        kills: the number of `memory_kills` before the flow ran.
    """
    if not isinstance(error, SluiceError) and is_spark_lost(error):
        error = OperationError("SPARK_LOST", location=location, ended=end_of_java(kills))
    if isinstance(error, SluiceError):
        return error
    user_line = innermost_user_line(error.__traceback__)
    text = "\n".join(_texts(error))
    told = _violation(text, flow, location) or _resource_fault(text, flow, location, places)
    if told is not None:
        return told
    if user_line is not None and not isinstance(error, PySparkException | Py4JError):
        condition = "PYTHON_OUT_OF_MEMORY" if isinstance(error, MemoryError) else "PYTHON_EXCEPTION"
        return OperationError(condition, location=user_line, flow=flow, error=exception_text(error))
    remote = remote_error(text)
    if remote is not None:
        return remote.at(location)
    # An exception of a batch function is not parsed from the query's wrapper: the exception itself has more detail.
    found = python_error("\n".join(_own_texts(error)))
    if found is not None:
        return _python_fault(found, flow, user_line or location)
    return _spark_fault(error, flow, text, user_line or location, kills)


def _python_fault(found: PythonError, flow: QualifiedName, location: SourceLocation | None) -> SluiceError:
    """Return the error for an exception in a Python function: of its code or rows, or of its process's packages."""
    if _OF_MEMORY.match(found.text) is not None:
        return OperationError("PYTHON_OUT_OF_MEMORY", location=found.location or location, flow=flow, error=found.text)
    if _OF_PYTHONS_PACKAGES.match(found.text) is None:
        return OperationError("PYTHON_EXCEPTION", location=found.location or location, flow=flow, error=found.text)
    fields = {"subject": f"Flow {flow}", "python": python_of_tasks(), "error": found.text}
    return OperationError("PYTHON_OF_TASKS_UNFIT", location=found.location, **fields)


def _spark_fault(
    error: BaseException, flow: QualifiedName, text: str, location: SourceLocation | None, kills: int | None
) -> SluiceError:
    """Return the error for an exception in Spark: of the session, of a file's type, or of the flow."""
    where = _expression_line(text) or location
    session = next(filter(None, map(session_fault, _chain(error))), None)
    if session is not None:
        at = where if session.is_of_read else None
        return OperationError(session.condition, location=at, subject=f"Flow {flow}", **session.fields)
    if _PYTHON_ENDED.search(text) is not None:
        return OperationError(PYTHON_ENDED, location=where, flow=flow, killed=kills_since(kills, memory_kills()))
    mismatch = _TYPE_MISMATCH.search(text)
    condition, fields = ("FLOW_FAILED", {}) if mismatch is None else ("FILE_TYPE_MISMATCH", mismatch.groupdict())
    return OperationError(condition, location=where, flow=flow, **(fields or {"cause": _cause(error, text)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakFault:
    """A failure that repeats until someone changes the flow's checkpoint: its condition, and Spark's message.

    SOURCE_FILES_GONE is such a failure only if the file in the message belongs to a streaming source.
    """

    condition: str
    words: str


def break_fault(error: BaseException) -> BreakFault | None:
    """Return the broken checkpoint that an exception reports; None if it reports something else."""
    if isinstance(error, SluiceError):
        return None
    text = "\n".join(_texts(error))
    for found, words in reversed(_CONDITION.findall(text)):
        condition = SOURCE_FILES_GONE if found == _FILE_GONE else found
        condition = _NO_STATE if condition.startswith(f"{_NO_STATE}.") else condition
        if condition in BREAKS:
            return BreakFault(condition=condition, words=one_line(_SQLSTATE.sub("", words)))
    counted = _SOURCES_CHANGED.search(text)
    if counted is None:
        return None
    return BreakFault(
        condition=SOURCES_CHANGED,
        words=f"It has the positions of {counted['was']} source(s), and the query now has {counted['now']}.",
    )


def unreadable_quarantine(error: BaseException, storage: Storage) -> OperationError | None:
    """Return the error for a quarantine with an unreadable log or rows; None if an exception has another cause."""
    path = storage.path(QUARANTINE_FOLDER)
    if isinstance(error, SluiceError) or is_spark_lost(error) or is_resource_fault(error):
        return None
    named = [line for line in "\n".join(_texts(error)).splitlines() if f"{plain_path(path)}/" in line]
    return OperationError("QUARANTINE_UNREADABLE", path=path, cause=one_line(named[-1].strip())) if named else None


def changed_columns(error: BaseException) -> int | None:
    """Return the table version whose columns a Delta stream can't read, from an exception; None for any other."""
    found = None if isinstance(error, SluiceError) else _COLUMNS_CHANGED.search("\n".join(_texts(error)))
    return None if found is None else int(found[1])


def _violation(text: str, flow: QualifiedName, location: SourceLocation | None) -> OperationError | None:
    found = _VIOLATION.search(text)
    if found is None:
        return None
    fields = {"flow": flow, "expectation": found["name"], "row": found["row"]}
    return OperationError("EXPECTATION_VIOLATION", location=location, **fields)


def _resource_fault(
    text: str, flow: QualifiedName, location: SourceLocation | None, places: Sequence[str]
) -> OperationError | None:
    condition = file_condition(text)
    if condition is None:
        return None
    # The last line has the innermost cause.
    lines = [line for line in text.splitlines() if file_condition(line) == condition]
    problem = one_line(lines[-1].strip())
    free = free_space((*places, *temporary_folders())) if condition == DISK_FULL else ""
    return OperationError(
        condition, location=location, place=f"A file of flow {flow}", problem="; ".join(filter(None, (problem, free)))
    )


def is_resource_fault(error: BaseException) -> bool:
    """Whether a file can't be opened for a reason that a retry does not fix, such as a full disk or permissions."""
    if isinstance(error, SluiceError):
        return error.condition in FILE_CONDITIONS
    return file_condition("\n".join(_texts(error))) is not None


def can_heal(error: BaseException) -> bool:
    """Whether a retry may succeed without any change."""
    if is_resource_fault(error):
        return False
    if isinstance(error, SluiceError):
        return is_retryable(error.condition) or error.condition == FILES_GONE
    if is_spark_lost(error):
        return False
    text = "\n".join(_texts(error))
    remote = remote_error(text)
    return _CAN_HEAL.search(text) is not None if remote is None else is_retryable(remote.condition)


def is_spark_lost(error: BaseException) -> bool:
    """Whether Spark has terminated: its JVM can't be reached or does not respond, or its context was shut down.

    A JVM that is out of memory shuts its Spark context down before it ends.
    """
    return any(
        isinstance(each, Py4JNetworkError)
        or (isinstance(each, OSError) and is_raised_by_py4j(each))
        # A response without a Java exception is an empty one.
        or (type(each) is Py4JError and str(each).startswith(_CALL_FAILED) and "Trace:" not in str(each))
        or _is_of_ended_context(each)
        for each in _chain(error)
    )


def _is_of_ended_context(error: BaseException) -> bool:
    if not isinstance(error, Py4JJavaError | PySparkException):
        return False
    try:
        return any(_CONTEXT_ENDED.search(text) for text in _own_texts(error)) or has_stopped()
    except Py4JNetworkError:  # the JVM, which has the texts, has terminated since
        return True


def innermost_condition(text: str) -> tuple[str, str] | None:
    """Return the innermost condition in a text of causes, which are outermost first, and the rest of its line.

    None if the text has no condition, or only wrapper conditions.
    """
    for condition, words in reversed(_CONDITION.findall(text)):
        if condition.split(".")[0] not in _WRAPPERS:
            return condition, words.strip()
    return None


def _cause(error: BaseException, text: str) -> str:
    """Return the innermost condition with its first line; without a condition, the first line of the query's error."""
    text = without_internal_names(text)
    found = innermost_condition(text)
    if found is not None:
        words = _with_expression(f"[{found[0]}] {found[1]}".strip(), text)
        # Spark names the unreadable value or setting only below its own condition.
        return with_last_cause(words, error) if found[0].startswith(_READ_FAILED) else words + hint_of_value(found[0])
    # A query's wrapper repeats its cause's message, but has none if the cause is only a class, such as EOFException.
    ended_by = (each for each in _own_texts(error) if "[STREAM_FAILED]" not in each)
    return with_last_cause(next(ended_by, first_words(error)).splitlines()[0], error)  # clients wrap exceptions


def _expression_line(text: str) -> SourceLocation | None:
    """Return the user's line that built the failed expression; None if Spark does not know it."""
    lines = [(found["file"], int(found["line"])) for found in _BUILT_AT.finditer(text)]
    return innermost_of(lines[-1:])


def _with_expression(cause: str, text: str) -> str:
    """Add the SQL of the failed expression, which Spark marks with carets, if the text has it."""
    lines = [found["lines"].splitlines() for found in _SQL_CONTEXT.finditer(text)]
    marked = ((line, _CARETS.fullmatch(below)) for line, below in pairwise(lines[-1] if lines else ()))
    expression = " ".join(line[carets.start(1) : carets.end(1)].strip() for line, carets in marked if carets)
    if not expression:  # for unparsable text, Spark marks only a position
        return cause
    state = _SQLSTATE.search(cause)
    end = len(cause) if state is None else state.start()
    return f"{cause[:end]} In `{expression}`.{cause[end:]}"


def _texts(error: BaseException) -> Iterator[str]:
    """Yield the texts of an exception and its causes, Java causes included, without stacks."""
    for each in _chain(error):
        yield from _own_texts(each)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _own_texts(error: BaseException) -> Iterator[str]:
    """Yield the text of one exception, including its Java causes if it comes from the JVM."""
    if isinstance(error, Py4JJavaError):
        yield from _java_messages(error)
    elif isinstance(error, PySparkException):
        yield _without_plan(str(error).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0])
        yield from _java_messages(error)
    elif isinstance(error, Py4JError):
        yield str(error)
    else:
        yield exception_text(error)


def _java_messages(error: BaseException) -> Iterator[str]:
    """Yield class and message of an exception's Java throwable and of each of its causes."""
    for throwable in throwables(error):
        message = _without_plan(str(throwable.toString()).split("\n\tat ")[0])
        condition = condition_of(throwable)  # Kafka's connector omits it from its messages
        yield message if condition is None or f"[{condition}]" in message else f"[{condition}] {one_line(message)}"


def _without_plan(text: str) -> str:
    """Return a query exception's text without the plan, whose literals contain the texts of our own errors."""
    return text.split("\n=== Streaming Query ===", maxsplit=1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonError:
    """One exception: `text` is its type and message, `location` the innermost line of the user's code."""

    text: str
    location: SourceLocation | None


def python_error(text: str) -> PythonError | None:
    """Return the exception at the end of a text's last traceback; None if there is no traceback.

    With several tracebacks (`raise … from …`), the last one belongs to the exception that left the function.
    """
    _, head, stack = text.rpartition(_HEAD)
    frames = list(_FRAME.finditer(stack))
    raised = _RAISED.search(stack, frames[-1].end() if frames else 0)
    if not head or raised is None:
        return None
    message = _SQLSTATE.sub("", raised["message"] or "")
    kind = raised["kind"].rpartition(".")[2]
    return PythonError(
        text=one_line(f"{kind}: {message}" if message else kind),
        location=innermost_of((frame["file"], int(frame["line"])) for frame in frames),
    )


def fault_of(work: Callable[[], object], dataset: QualifiedName, location: SourceLocation | None) -> SluiceError | None:
    """Do some work on a dataset's table; return None, or the error with which the flows of the dataset then fail."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the outermost frame of this work
        return flow_fault(error, dataset, location)
    return None
