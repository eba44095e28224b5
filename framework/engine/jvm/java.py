"""Cache of Spark columns and Java class handles: a batch needs hundreds, and each takes round trips to the JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, JavaMember
from pyspark import SparkContext

P = ParamSpec("P")
R = TypeVar("R")

_ALIASES = {
    "functions": "org.apache.spark.sql.functions",
    "PythonForeachBatchHelper": "org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper",
    "PythonErrorUtils": "org.apache.spark.api.python.PythonErrorUtils",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    "PythonSQLUtils": "org.apache.spark.sql.api.python.PythonSQLUtils",
}
"""The classes that PySpark uses by the names that it imports."""

_FULL_NAMES = (
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.classic.SparkSession$",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.streaming.Trigger",
    "org.apache.spark.storage.StorageLevel",
    "org.apache.spark.util.Utils",
)
"""The classes that PySpark uses by their full names."""

_PATHS = ("io.delta.tables.DeltaTable", "py4j.reflection.TypeUtil")
"""The classes that Delta and Py4J look up package by package; Java then searches all jars per package and import.

PySpark compares each Java exception with 14 classes by `TypeUtil`, including the exception that ends an iteration.
"""

# Per gateway to a JVM: the result of each call.
_kept: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def built_once(build: Callable[P, R]) -> Callable[P, R]:
    """Cache a function's results by its arguments, for the lifetime of the JVM.

    Args:
        build: builds columns from hashable values only; its result must not be modified.
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


class _KeptClass(JavaClass):  # type: ignore[misc]  # Py4J has no types
    """A class that looks up each of its static methods once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):  # the value of a field may change
            setattr(self, name, found)
        return found


@built_once
def java_class(name: str) -> Any:
    """Return a class by its full name; a lookup by parts of the name makes Java search all jars per package."""
    found = getattr(SparkContext._jvm, name)
    if not isinstance(found, JavaClass):
        return found
    return _KeptClass(found._fqn, found._gateway_client)


def has_class(name: str) -> bool:
    """Return whether the JVM has a class with a full name."""
    return isinstance(java_class(name), JavaClass)


@built_once
def keep_classes_of_pyspark() -> None:
    """Cache the classes that PySpark uses most, under the names that it uses, to avoid lookups in the JVM."""
    for name in _FULL_NAMES:
        setattr(SparkContext._jvm, name, java_class(name))
    for alias, name in _ALIASES.items():
        setattr(SparkContext._jvm, alias, java_class(name))
    for path in _PATHS:
        *packages, last = path.split(".")
        holder: Any = SparkContext._jvm
        for name in packages:
            package = getattr(holder, name)
            setattr(holder, name, package)
            holder = package
        setattr(holder, last, java_class(path))


@built_once
def scala_object(name: str) -> Any:
    """Return the singleton of a Scala object by its full name."""
    return getattr(java_class(f"{name}$"), "MODULE$")


@built_once
def method(owner: str, name: str, returned: str) -> Any:
    """Return a method without arguments as a Scala function, to map a collection by one call from Python.

    Args:
        owner: the full name of the class.
        name: the name of the method.
        returned: the full name of the class that it returns.
    """
    load = java_class("org.apache.spark.util.Utils").getContextOrSparkClassLoader().loadClass
    kind = java_class("java.lang.invoke.MethodType").methodType(load(returned))
    found = java_class("java.lang.invoke.MethodHandles").publicLookup().findVirtual(load(owner), name, kind)
    return java_class("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(load("scala.Function1"), found)


def private_field(owner: Any, name: str, of: str = "") -> Any:
    """Return the value of a private field of a Java object.

    Args:
        owner: the object.
        name: the name of the field.
        of: the full name of the class that declares the field, if it is not the object's class.

    Raises:
        py4j.protocol.Py4JError: the class has no such field.
    """
    kind = java_class("java.lang.Class").forName(of) if of else owner.getClass()
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


def scala_map(entries: Mapping[str, Any]) -> Any:
    """Return an immutable Scala map."""
    filled = java_class("java.util.HashMap")()
    for name, value in entries.items():
        filled.put(name, value)
    converted = java_class("scala.jdk.javaapi.CollectionConverters").asScala(filled)
    return getattr(scala_object("scala.collection.immutable.Map"), "from")(converted)


def text_map(entries: Any) -> dict[str, str]:
    """Convert a Java map of strings by one call; an iteration takes dozens, as it ends with a JVM exception."""
    found: dict[str, Any] = json.loads(_json_mapper().writeValueAsString(entries))
    return {key: str(value) for key, value in found.items()}


def array_texts(array: Any) -> list[str | None]:
    """Convert a Java array of strings by one call."""
    found: list[str | None] = json.loads(_json_mapper().writeValueAsString(array))
    return found


@built_once
def _json_mapper() -> Any:
    return java_class("com.fasterxml.jackson.databind.ObjectMapper")()


def scala_items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def scala_seq(items: Iterable[Any]) -> Any:
    """Return an immutable Scala sequence."""
    filled = java_class("java.util.ArrayList")()
    for item in items:
        filled.add(item)
    return scala_object("scala.jdk.CollectionConverters").ListHasAsScala(filled).asScala().toSeq()
