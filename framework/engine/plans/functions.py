"""SQL functions: Spark's built-in functions, and Python functions that a session registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framework.engine.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"


def is_built_in_function(name: str) -> bool:
    """Return whether Spark has a built-in function of this name, which takes precedence over the session's."""
    identifier = java_class(f"{_CATALYST}.FunctionIdentifier")(name)
    registries = (java_class(f"{_CATALYST}.analysis.{kind}") for kind in ("FunctionRegistry", "TableFunctionRegistry"))
    return any(registry.builtin().functionExists(identifier) for registry in registries)


def signature_of(function: Any) -> str:
    """Return type, kind and determinism of a Python function in the JVM, as a string."""
    return f"{_returned(function)} {function.pythonEvalType()} {function.udfDeterministic()}"


def _returned(function: Any) -> str:
    """Return a JVM function's return type; "" for a table function that computes it from its arguments."""
    if function.getClass().getSimpleName() == "UserDefinedPythonFunction":
        return str(function.dataType().json())
    declared = function.returnType()
    return str(declared.get().json()) if declared.isDefined() else ""


class CheckedRegistrations:
    """A stand-in for the session in a call of `register`, which checks functions before the JVM registers them.

    Args:
        spark: the session.
        check: gets the name and the JVM function before Spark registers it.
    """

    def __init__(self, spark: SparkSession, check: Callable[[str, Any], None]) -> None:
        self._spark, self._check = spark, check
        self._registry: Any = None

    @property
    def _jsparkSession(self) -> CheckedRegistrations:
        return self

    def udf(self) -> CheckedRegistrations:
        """Return the registry of functions."""
        self._registry = self._spark._jsparkSession.udf()
        return self

    def udtf(self) -> CheckedRegistrations:
        """Return the registry of table functions."""
        self._registry = self._spark._jsparkSession.udtf()
        return self

    def registerPython(self, name: str, function: Any) -> None:
        """Register a function of the JVM if it passes the check."""
        self._check(name, function)
        self._registry.registerPython(name, function)
