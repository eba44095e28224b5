"""The check of a session's versions: whether its private parts are the tested ones.

Versions are compared first, by one or two calls to the JVM. If a version differs, the names of the registry are looked
up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from framework.engine.jvm.java import java_class
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.registry.delta_parts import DELTA_PARTS
from framework.engine.registry.private_part import TESTED, PrivatePart, Product
from framework.engine.registry.pyspark_parts import PYSPARK_PARTS
from framework.engine.registry.spark_parts import SPARK_PARTS
from framework.engine.registry.versions import Versions, versions_of
from framework.foundation.errors import OperationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = (*PYSPARK_PARTS, *SPARK_PARTS, *DELTA_PARTS)
"""The private parts that the room uses."""

_MOST_NAMED = 5
# By the gateway to the JVM.
_warnings: WeakKeyDictionary[Any, OperationError | None] = WeakKeyDictionary()
_METHOD = re.compile(r"([\w$]+)\(")
_FIELD = re.compile(r"([\w$]+)$", re.MULTILINE)


class Names(Protocol):
    """Lookup of the members of classes."""

    def of(self, owner: str) -> Collection[str] | None:
        """Return the names of the members of a class; None if there is no such class."""
        ...


def check_session(
    spark: SparkSession,
    *,
    versions: Versions | None = None,
    parts: Iterable[PrivatePart] = PARTS,
    names: Names | None = None,
) -> OperationError | None:
    """Return a warning about untested versions; None if all versions were tested.

    Args:
        spark: the session.
        versions: the versions in it; None to look them up.
        parts: the registry.
        names: looks up the members of classes; None for the classes of the session.

    Raises:
        OperationError: SPARK_VERSION_NOT_TESTED, if a part is missing and has no public alternative.
    """
    found = versions_of(spark) if versions is None else versions
    untested = [product for product in Product if found[product] not in TESTED[product]]
    if not untested:
        return None
    known = SessionNames() if names is None else names
    missing = [name for part in parts for name in missing_names(part, known) if not part.public_way]
    said = " and ".join(f"{product.value} {found[product] or 'of an unknown version'}" for product in untested)
    tested = " and ".join(f"{product.value} {' or '.join(TESTED[product])}" for product in untested)
    if missing:
        more = f", and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        state = f"it lacks parts that Sluice needs: {', '.join(missing[:_MOST_NAMED])}{more}"
        raise OperationError("SPARK_VERSION_NOT_TESTED", found=said, tested=tested, state=state)
    state = "all parts that Sluice needs are there, and the rest is done in Delta's and Spark's public ways"
    return OperationError("SPARK_VERSION_NOT_TESTED", found=said, tested=tested, state=state)


def session_warning(spark: SparkSession) -> OperationError | None:
    """Return the result of `check_session` for a session; each JVM is checked once.

    Raises:
        OperationError: SPARK_VERSION_NOT_TESTED.
    """
    gateway = spark.sparkContext._gateway
    if gateway not in _warnings:
        _warnings[gateway] = check_session(spark)
    return _warnings[gateway]


def missing_names(part: PrivatePart, names: Names) -> list[str]:
    """Return the members of a part that its class does not have; the class if there is none."""
    present = names.of(part.owner)
    if present is None:
        return [part.owner]
    return [f"{part.owner}.{name}" for name in part.names if name not in present]


class SessionNames:
    """The members of classes in the JVM and in Python of this process."""

    def of(self, owner: str) -> Collection[str] | None:
        """Return the names of the members of a class; None if there is no such class."""
        return _names_in_python(owner) if owner.startswith(("pyspark.", "py4j.")) else _names_in_java(owner)


def _names_in_java(owner: str) -> Collection[str] | None:
    loader = java_class("org.apache.spark.util.Utils").getContextOrSparkClassLoader()
    try:
        kind = java_class("java.lang.Class").forName(owner, False, loader)  # noqa: FBT003 - a Java call
    except Py4JError:
        return None
    methods = f"{_text(kind.getMethods())} {_text(kind.getDeclaredMethods())}"
    return {*_METHOD.findall(methods), *_FIELD.findall(_text(kind.getDeclaredFields()))}


def _text(members: Any) -> str:
    """Return the members in an array, one per line, by a single call."""
    return str(java_class("scala.collection.immutable.ArraySeq").unsafeWrapArray(members).mkString("\n"))


def _names_in_python(owner: str) -> Collection[str] | None:
    """Return the members of a module or a class, including attributes that its methods set."""
    try:
        return set(vars(import_module(owner)))
    except ImportError:
        module, _, name = owner.rpartition(".")
    try:
        kind: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return None
    own = [vars(each) for each in kind.__mro__]
    functions = [each for members in own for each in members.values() if isinstance(each, FunctionType)]
    used = {name for function in functions for name in function.__code__.co_names}
    return used.union(*own)
