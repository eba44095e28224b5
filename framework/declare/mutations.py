"""What the code of a pipeline must not do: change the session, or run rows while they are only described.

The calls are methods of PySpark's classes, so they are replaced at class level, and refuse only
where a guard is active in the calling context; everybody else's calls go through.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.udf import UDFRegistration

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location


class _Guard(Enum):
    """How much is refused: nothing, session mutations (while loading), or actions too (in query functions)."""

    NONE = 0
    LOADING = 1
    QUERY = 2


class _Blocked(NamedTuple):
    """A method, the guard from which on it is refused, and the condition."""

    owner: type
    method: str
    guard: _Guard
    condition: str


_MUTATION = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"
_MUTATIONS: tuple[tuple[type, str, str], ...] = (
    (RuntimeConfig, "set", "SET_RUNTIME_CONF"),
    (RuntimeConfig, "unset", "SET_RUNTIME_CONF"),
    (Catalog, "setCurrentCatalog", "SET_CURRENT_CATALOG"),
    (Catalog, "setCurrentDatabase", "SET_CURRENT_DATABASE"),
    (Catalog, "dropTempView", "DROP_TEMP_VIEW"),
    (Catalog, "dropGlobalTempView", "DROP_GLOBAL_TEMP_VIEW"),
    (ClassicDataFrame, "createTempView", "CREATE_TEMP_VIEW"),
    (ClassicDataFrame, "createOrReplaceTempView", "CREATE_OR_REPLACE_TEMP_VIEW"),
    (ClassicDataFrame, "createGlobalTempView", "CREATE_GLOBAL_TEMP_VIEW"),
    (ClassicDataFrame, "createOrReplaceGlobalTempView", "CREATE_OR_REPLACE_GLOBAL_TEMP_VIEW"),
    (ClassicDataFrame, "registerTempTable", "CREATE_TEMP_VIEW"),
    (UDFRegistration, "register", "REGISTER_UDF"),
    (UDFRegistration, "registerJavaFunction", "REGISTER_JAVA_UDF"),
    (UDFRegistration, "registerJavaUDAF", "REGISTER_JAVA_UDAF"),
)
_ACTIONS = (
    "collect", "count", "show", "take", "head", "first", "tail", "toPandas", "toArrow", "toLocalIterator", "foreach",
    "foreachPartition", "isEmpty", "checkpoint", "localCheckpoint", "rdd", "write", "writeTo", "writeStream",
    "mergeInto",
)  # fmt: skip

_guard: ContextVar[_Guard] = ContextVar("sluice_guard", default=_Guard.NONE)
_lock = threading.Lock()
_depth = 0
_originals: dict[tuple[type, str], Any] = {}


@contextmanager
def guarded_loading() -> Iterator[None]:
    """Refuse session mutations for the length of the block, as at module level."""
    with _guarded(_Guard.LOADING):
        yield


@contextmanager
def guarded_query() -> Iterator[None]:
    """Refuse session mutations and actions for the length of the block, as in a query function."""
    with _guarded(_Guard.QUERY):
        yield


@contextmanager
def unguarded() -> Iterator[None]:
    """Let the framework itself do what the user's code may not, such as the views of a formatted SQL text."""
    token = _guard.set(_Guard.NONE)
    try:
        yield
    finally:
        _guard.reset(token)


@contextmanager
def _guarded(guard: _Guard) -> Iterator[None]:
    global _depth  # noqa: PLW0603 - the patched classes are global themselves
    with _lock:
        if _depth == 0:
            _install()
        _depth += 1
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)
        with _lock:
            _depth -= 1
            if _depth == 0:
                _uninstall()


def _blocked() -> Iterator[_Blocked]:
    for owner, method, detail in _MUTATIONS:
        yield _Blocked(owner, method, _Guard.LOADING, f"{_MUTATION}.{detail}")
    for method in _ACTIONS:
        yield _Blocked(ClassicDataFrame, method, _Guard.QUERY, "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION")


def _install() -> None:
    for blocked in _blocked():
        original = blocked.owner.__dict__.get(blocked.method)
        if original is None:
            continue
        _originals[blocked.owner, blocked.method] = original
        setattr(blocked.owner, blocked.method, _refusing(blocked, original))


def _uninstall() -> None:
    for (owner, method), original in _originals.items():
        setattr(owner, method, original)
    _originals.clear()


def _refusing(blocked: _Blocked, original: Any) -> Any:
    """The method, or property, that looks at the guard before it goes on to the original."""
    if isinstance(original, property):
        getter = original.fget
        assert getter is not None  # noqa: S101 - PySpark's properties can be read
        return property(_checked(blocked, getter))
    return _checked(blocked, original)


def _checked(blocked: _Blocked, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        if _guard.get().value >= blocked.guard.value:
            owner = DataFrame if blocked.owner is ClassicDataFrame else blocked.owner
            raise UserError(blocked.condition, location=caller_location(), method=f"{owner.__name__}.{blocked.method}")
        return original(*args, **kwargs)

    return method

