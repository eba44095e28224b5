"""Printed stacks of Java: the last cause decides whose fault an exception is."""

from __future__ import annotations

import pytest

from framework.engine.jvm.java_causes import SessionFault, fault_in

IN_TASK = """org.apache.spark.SparkException: Job aborted: Lost task 0.0 (TID 3): {cause}
\tat {frame}(File.java:1)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3310)
Caused by: {cause}
\tat {frame}(File.java:1)
\t... 12 more
"""


@pytest.mark.parametrize(
    ("cause", "frame", "condition"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "a.B.c", "SPARK_OUT_OF_MEMORY"),
        ('java.io.IOException: Cannot run program "/no/python": error=2', "a.B.c", "PYTHON_OF_TASKS_UNFIT"),
        ("java.lang.NoSuchMethodError: 'void a.B.c()'", "a.B.c", "SESSION_LIBRARY_MISSING"),
        ("java.lang.UnsatisfiedLinkError: 'void a.B.c()'", "a.B.c", "SESSION_LIBRARY_MISSING"),
        ("java.lang.UnsatisfiedLinkError: no snappyjava in java.library.path: /lib", "a.B", "TEMPORARY_FOLDER_UNFIT"),
        (
            "java.lang.UnsatisfiedLinkError: /tmp/snappy-1.1.10-libsnappyjava.so: failed to map segment",
            "a.B",
            "TEMPORARY_FOLDER_UNFIT",
        ),
        ("java.lang.NumberFormatException: 1x", "org.apache.spark.SparkConf.getInt", "SESSION_SETTING_INVALID"),
        ("java.net.SocketException: no SSL", "org.apache.hadoop.fs.s3a.Invoker.once", "STORAGE_CONNECTOR_FAILED"),
        ("java.lang.NumberFormatException: 1x", "org.apache.spark.sql.catalyst.csv.UnivocityParser.parse", None),
        ("java.lang.IllegalStateException", "a.B.c", None),
    ],
)
def test_the_last_cause_decides_whose_fault_it_is(cause: str, frame: str, condition: str | None) -> None:
    """In a task, its stack is also in the message of the job that failed."""
    fault = fault_in(IN_TASK.format(cause=cause, frame=frame), {})
    assert (None if fault is None else fault.condition) == condition


def test_the_setting_with_the_bad_value_is_named() -> None:
    """Java's exceptions have the value, but not its key."""
    cause = 'java.lang.NumberFormatException: For input string: "64m"'
    stack = IN_TASK.format(cause=cause, frame="org.apache.hadoop.conf.Configuration.getInt")
    settings = {"spark.hadoop.io.file.buffer.size": "64m", "spark.app.name": "shop"}
    assert fault_in(stack, settings) == SessionFault(
        condition="SESSION_SETTING_INVALID",
        fields={"cause": cause, "named": " The session has spark.hadoop.io.file.buffer.size = 64m."},
    )
