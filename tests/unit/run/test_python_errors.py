"""The texts in which Spark passes on an exception of a Python function, and how they are parsed."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from framework.foundation.errors import SourceError, remote_error
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.run.update.fault_classification import can_heal, flow_fault, python_error

HERE = SourceLocation(file="/p/shop.py", line=6)
WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/x/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 3000, in main
    process()
  File "/p/shop.py", line 6, in half
    return 1 // (x - 1)
           ~~^^~~~~~~~~
{raised} SQLSTATE: 38000"""

CASES = [
    ("ZeroDivisionError: integer division or modulo by zero", "ZeroDivisionError: integer division or modulo by zero"),
    ("KeyError: 'k'", "KeyError: 'k'"),
    ("shop.errors.NoPriceError: none\n  for 7", "NoPriceError: none for 7"),
    ("AssertionError", "AssertionError"),
]


@pytest.mark.parametrize(("raised", "text"), CASES)
def test_type_message_and_line_are_read_from_the_workers_text(raised: str, text: str) -> None:
    """The message may have lines, the type a module, and there may be no message."""
    found = python_error(WORKER.format(raised=raised + "\n"))
    assert found is not None
    assert (found.text, found.location) == (text, HERE)


def test_an_error_of_ours_keeps_what_to_do_next() -> None:
    """Also if its text has an SQLSTATE, as the text of Spark has."""
    error = SourceError("DATABASE_QUERY_FAILED", address="postgresql://host/bank", cause="too bad", state="25006")
    found = remote_error(WORKER.format(raised=f"framework.foundation.errors.SourceError: {error.render()}\n\n"))
    assert found is not None
    assert (found.condition, found.what, found.remedy) == (error.condition, error.what, error.remedy)


def test_the_line_is_the_users_even_where_a_library_raised() -> None:
    """The innermost frame is in a package; the reported line is the user's line that called it."""
    stack = """Traceback (most recent call last):
  File "/p/shop.py", line 6, in parse
    return requests.get(x)
  File "/venv/lib/python3.11/site-packages/requests/api.py", line 73, in get
    return request("get", url)
requests.exceptions.MissingSchema: Invalid URL"""
    found = python_error(stack)
    assert found is not None
    assert (found.text, found.location) == ("MissingSchema: Invalid URL", HERE)


def test_of_several_exceptions_the_last_left_the_function() -> None:
    """`raise … from …` prints the cause first."""
    stack = """Traceback (most recent call last):
  File "/p/shop.py", line 2, in f
KeyError: 1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/p/shop.py", line 6, in f
ValueError: no price
	at org.apache.spark.api.python.BasePythonRunner"""
    found = python_error(stack)
    assert found is not None
    assert (found.text, found.location) == ("ValueError: no price", HERE)


def test_a_text_without_a_traceback_is_no_python_error() -> None:
    """All other texts are Spark's own."""
    assert python_error("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012") is None


@pytest.mark.parametrize(
    ("cause", "heals"),
    [
        ("java.io.EOFException: null", True),  # the process of a source's reader was killed
        ("java.io.EOFException", True),
        ("java.io.IOException: Broken pipe", True),
        ("[DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS] The schema of your Delta table has changed", True),  # during a MERGE
        ("java.io.EOFException: Reached the end of stream with 4 bytes left to read", False),  # a damaged file
    ],
)
def test_a_reader_that_was_killed_is_started_again(cause: str, heals: bool) -> None:  # noqa: FBT001 - a parameter
    """The JVM only sees the end of the connection to it; a damaged file is not taken for that. So is a conflict."""
    error = PySparkException(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {cause}")
    assert can_heal(error) is heals


def test_a_source_that_waits_for_its_standby_is_read_again() -> None:
    """A commit that is not visible yet will be, without a change of anybody; a lost position stays lost."""
    waiting = SourceError("DATABASE_COMMIT_NOT_VISIBLE", seconds=60)
    assert (can_heal(waiting), can_heal(SourceError("DATABASE_POSITION_LOST.SLOT_MISSING", slot="s", lsn="0/1"))) == (
        True, False
    )  # fmt: skip


def test_of_a_text_that_cannot_be_parsed_no_expression_is_named() -> None:
    """Spark marks the position where it stopped, and no expression."""
    cause = "[PARSE_SYNTAX_ERROR] Syntax error at end of input. (line 1, pos 4)"
    error = PySparkException(f"{cause}\n\n== SQL ==\nid >\n----^^^\n")
    fault = flow_fault(error, QualifiedName(catalog="main", schema="s", table="t"), None)
    assert fault.fields["cause"] == cause


FLOW = QualifiedName(catalog="main", schema="s", table="f")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (WORKER.format(raised="MemoryError\n"), "PYTHON_OUT_OF_MEMORY"),
        (WORKER.format(raised="numpy._core._exceptions._ArrayMemoryError: Unable\n"), "PYTHON_OUT_OF_MEMORY"),
        (WORKER.format(raised="pyarrow.lib.ArrowMemoryError: malloc of size 64\n"), "PYTHON_OUT_OF_MEMORY"),
        (WORKER.format(raised="shop.MemoryErrors: none\n"), "PYTHON_EXCEPTION"),
        ("Lost task 1.0: org.apache.spark.SparkException: Python worker exited unexpectedly", "PYTHON_PROCESS_ENDED"),
        ("Job aborted: java.io.FileNotFoundException: /t/part-0.parquet (Permission denied)", "FILE_ACCESS_DENIED"),
        ("java.nio.file.AccessDeniedException: /t/_delta_log/1.json", "FILE_ACCESS_DENIED"),
        ('java.io.IOException: Cannot run program "py": error=13, Permission denied', "FLOW_FAILED"),
        ("Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:", "SPARK_LOST"),
        ("org.apache.spark.SparkException: Job 7 cancelled because SparkContext was shut down", "SPARK_LOST"),
        ("A row says: Cannot call methods on a stopped SparkContext", "FLOW_FAILED"),
    ],
)
def test_memory_permissions_and_the_end_of_spark_are_no_fault_of_rows(text: str, condition: str) -> None:
    """Their conditions name the cause and the setting, not the user's function or "Correct the cause"."""
    assert flow_fault(PySparkException(text), FLOW, None).condition == condition


def test_a_function_of_this_process_that_has_no_memory_left_is_named_too() -> None:
    """A sink runs in the driver."""
    space = {"__name__": "shop"}
    exec(compile("def write():\n    raise MemoryError", "/p/shop.py", "exec"), space)  # noqa: S102 - the user's line
    with pytest.raises(MemoryError) as caught:
        space["write"]()  # type: ignore[operator]
    found = flow_fault(caught.value, FLOW, None)
    assert (found.condition, found.location) == ("PYTHON_OUT_OF_MEMORY", SourceLocation(file="/p/shop.py", line=2))
