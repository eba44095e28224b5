"""JVM exceptions as Py4J and PySpark raise them, and the Java throwables behind them."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject, is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.errors import PySparkException

__all__ = [
    "Py4JError",
    "Py4JJavaError",
    "Py4JNetworkError",
    "class_name",
    "condition_of",
    "is_of_class",
    "is_raised_by_py4j",
    "printed_text",
    "set_printed_text",
    "stack_text",
    "throwable_of",
    "throwables",
]

_MOST_CAUSES = 20


def throwable_of(error: BaseException) -> JavaObject | None:
    """Return the Java throwable of an exception of Py4J or PySpark; None if it has none."""
    found = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    return found if isinstance(found, JavaObject) else None


def stack_text(error: PySparkException) -> str:
    """Return the Java stack that PySpark keeps with an exception; empty for a Python exception."""
    return str(getattr(error, "_stackTrace", ""))


def printed_text(error: PySparkException) -> str:
    """Return the text that PySpark prints of an exception of the JVM."""
    captured: Any = error
    return str(captured._desc)


def set_printed_text(error: PySparkException, text: str) -> None:
    """Replace the text that PySpark prints of an exception of the JVM."""
    captured: Any = error
    captured._desc = text


def throwables(error: BaseException) -> Iterator[JavaObject]:
    """Yield the Java throwable of an exception, and its causes."""
    throwable = throwable_of(error)
    for _ in range(_MOST_CAUSES):  # causes may be circular
        if not isinstance(throwable, JavaObject):
            return
        yield throwable
        throwable = throwable.getCause()


def is_of_class(throwable: JavaObject, name: str) -> bool:
    """Return whether a throwable is an instance of a class by name; the class need not be on the class path."""
    kind = throwable.getClass()
    while kind is not None:
        if kind.getName() == name:
            return True
        kind = kind.getSuperclass()
    return False


def class_name(error: Py4JJavaError) -> str:
    """Return the full name of the class of a Java exception."""
    return str(error.java_exception.getClass().getName())


def condition_of(throwable: JavaObject) -> str | None:
    """Return the condition of an exception of Spark; None for any other exception."""
    gateway = SparkContext._gateway
    if gateway is None or not is_instance_of(gateway, throwable, "org.apache.spark.SparkThrowable"):
        return None
    condition: str | None = throwable.getCondition()
    return condition


def is_raised_by_py4j(error: BaseException) -> bool:
    """Return whether Py4J itself could not reach Java; Py4J as a mere caller of a user's function does not count."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    inner = [module for module in modules if module != "socket"]
    return bool(inner) and inner[-1].startswith("py4j.")
