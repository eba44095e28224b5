"""What a user reads about a query that ended, and whether it is tried again."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors.exceptions.captured import ArithmeticException, StreamingQueryException
from pyspark.sql import functions as F

from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.run.update.fault_classification import can_heal, flow_fault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DECLARED = SourceLocation(file="/p/shop.py", line=6)
OF_RUNTIMES = (
    'Runtimes of Databricks before 17 have NULL here: set `runtime: "16.4"` in the pipeline spec, or '
    "`spark.sql.ansi.enabled` = `false` in its `spark_conf`."
)
FLOW = QualifiedName(catalog="main", schema="default", table="changes")


@pytest.mark.parametrize(
    ("kind", "message", "heals"),
    [
        ("java.io.EOFException", None, True),  # the process of a source's reader was killed
        ("java.io.EOFException", "Reached the end of stream with 4 bytes left to read", False),  # a damaged file
        ("java.net.SocketException", "Connection reset", True),
        ("java.lang.IllegalStateException", None, False),
    ],
)
def test_the_cause_of_a_query_that_ended_is_named_even_without_a_message(
    spark: SparkSession, kind: str, message: str | None, *, heals: bool
) -> None:
    """Spark's own words have an empty place where a cause is only a class."""
    jvm: Any = spark._jvm
    raised = getattr(jvm, kind)
    cause = raised() if message is None else raised(message)
    words = f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {message or ''} SQLSTATE: XXKST"
    error = StreamingQueryException(origin=jvm.java.lang.RuntimeException(words, cause))
    assert can_heal(error) is heals
    fault = flow_fault(error, FLOW, None)
    named = kind if message is None else f"{kind}: {message}"
    assert (fault.condition, fault.fields["cause"]) == ("FLOW_FAILED", named)


@pytest.mark.parametrize("has_ipython", [False, True])
def test_the_line_that_built_the_expression_that_failed_is_named(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    has_ipython: bool,  # noqa: FBT001 - a parameter
) -> None:
    """In place of the declaration; also in a process that has imported what notebooks are made of."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    if has_ipython:
        import_module("IPython")
    built = spark.range(1).select(F.lit(6) / F.col("id"))
    line = test_the_line_that_built_the_expression_that_failed_is_named.__code__.co_firstlineno + 10
    assert _fault_of(built) == (f"SQLSTATE: 22012 {OF_RUNTIMES}", SourceLocation(file=__file__, line=line))


def test_the_sql_of_the_expression_that_failed_is_named(spark: SparkSession) -> None:
    """The part that failed, also if it has several lines."""
    row, told = spark.range(1), (f"In `6 / id`. SQLSTATE: 22012 {OF_RUNTIMES}", DECLARED)
    assert _fault_of(row.selectExpr("id", "6 / id AS half")) == told
    assert _fault_of(row.where("id = 0\n  AND 6 /\n  id > 7")) == told


def _fault_of(frame: DataFrame) -> tuple[str, SourceLocation | None]:
    """The end of the cause that is told, and the location."""
    with pytest.raises(ArithmeticException) as raised:
        frame.collect()
    fault = flow_fault(raised.value.with_traceback(None), FLOW, DECLARED)  # an update calls Spark in our code
    return str(fault.fields["cause"]).partition("bypass this error. ")[2], fault.location
