"""Cache of Spark columns and Java class handles: a batch needs hundreds, and each takes round trips to the JVM."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext

if TYPE_CHECKING:
    from pyspark.sql import Column

P = ParamSpec("P")
R = TypeVar("R")

# Per gateway to a JVM: the result of each call.
_kept: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def built_once(build: Callable[P, R]) -> Callable[P, R]:
    """Cache a function's results by its arguments, for the lifetime of the JVM.

    Args:
        build: builds columns from hashable values only; its result must not be changed.
    """

    @wraps(build)
    def built(*args: P.args, **kwargs: P.kwargs) -> R:
        kept = _kept.setdefault(SparkContext._gateway, {})
        call = (build, args, tuple(sorted(kwargs.items())))
        if call not in kept:
            kept[call] = build(*args, **kwargs)
        found: R = kept[call]
        return found

    return built


@built_once
def java_class(name: str) -> Any:
    """Return a class by its full name; a lookup by the parts of its name makes Java search all jars per package."""
    return getattr(SparkContext._jvm, name)


def variant_bytes(value: Column, part: Literal["value", "metadata"]) -> Column:
    """Return the encoded value or the dictionary of a variant; SQL has no function that returns them."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    bridge = java_class("org.apache.spark.sql.classic.ExpressionUtils")
    binary = getattr(java_class("org.apache.spark.sql.types.BinaryType$"), "MODULE$")
    nothing = getattr(java_class("scala.collection.immutable.Nil$"), "MODULE$")
    invoke = java_class("org.apache.spark.sql.catalyst.expressions.objects.Invoke")
    method = {"value": "getValue", "metadata": "getMetadata"}[part]
    # No arguments; the call propagates null, its result is nullable, and it is deterministic.
    called = invoke(bridge.expression(value._jc), method, binary, nothing, nothing, *(True, True, True))
    return ClassicColumn(bridge.column(called))
