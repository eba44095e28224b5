"""Guards against session mutations in modules, and against mutations and actions in query functions.

PySpark's classes are patched while at least one guard is open. A patched method refuses calls only in the context that
opened a guard. In other threads, including the engine's, PySpark behaves as usual.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, NamedTuple

from framework.declare.registry import active_registry, is_registering
from framework.declare.session.patches import Patch, Patches
from framework.declare.session.query_views import drop_view, keep_view
from framework.declare.session.registered_functions import functions_of
from framework.declare.session.sql_calls import sql_mutations
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

PIPELINE_KEYS = "pipelines."
"""Prefixes of the configuration keys that determine how a pipeline runs."""
_FILE_SYSTEM_KEYS = "fs."
"""Prefixes of file system keys, such as the account keys of a storage: they change no row."""


class _Guard(IntEnum):
    """The operations that a guard refuses."""

    NOTHING = 0
    MUTATIONS = 1
    MUTATIONS_AND_ACTIONS = 2


class _Refusal(NamedTuple):
    """A refused method, the condition of the error, and the lowest guard that refuses it."""

    owner: type
    method: str
    condition: str
    guard: _Guard


_guard: ContextVar[_Guard] = ContextVar("sluice_guard", default=_Guard.NOTHING)


@contextmanager
def guarded_module() -> Iterator[None]:
    """Refuse session mutations in the block, which loads modules."""
    with _guarding(_Guard.MUTATIONS):
        yield


@contextmanager
def guarded_query() -> Iterator[None]:
    """Refuse session mutations and actions in the block, which calls a query function."""
    with _guarding(_Guard.MUTATIONS_AND_ACTIONS):
        yield


def is_guarded() -> bool:
    """Whether a guard is open in this context."""
    return _guard.get() is not _Guard.NOTHING


@contextmanager
def unguarded() -> Iterator[None]:
    """Suspend the guards in the block, for the engine's own work inside a guarded call."""
    token = _guard.set(_Guard.NOTHING)
    try:
        with sql_mutations(refused=False):
            yield
    finally:
        _guard.reset(token)


@contextmanager
def _guarding(guard: _Guard) -> Iterator[None]:
    with _PATCHES.installed(), sql_mutations(refused=True):
        token = _guard.set(guard)
        try:
            yield
        finally:
            _guard.reset(token)


def _patches() -> list[Patch]:
    return [Patch(refusal.owner, refusal.method, functools.partial(_guarded, refusal)) for refusal in refusals()]


_PATCHES = Patches(_patches)


def _guarded(refusal: _Refusal, original: Any) -> Any:
    """Return the method or property that raises under a guard, and behaves as `original` otherwise."""
    if isinstance(original, property | functools.cached_property):
        return property(_guarded_call(refusal, original.__get__))
    return _guarded_call(refusal, original)


def _guarded_call(refusal: _Refusal, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _guard.get() >= refusal.guard and not (refusal.method == "pivot" and _names_values(args, kwargs)):
            if refusal.method == "set" and (_sets_file_system_key(args, kwargs) or _sets_pipeline_key(args, kwargs)):
                return original(*args, **kwargs)
            if refusal.method in _OF_VIEWS and _is_of_query_view(refusal.method, *args, **kwargs):
                return True if refusal.method == "dropTempView" else None
            functions = functions_of(args[0]) if refusal.condition.endswith(".REGISTER_UDF") else None
            if functions is not None:
                return functions.register(original, *args, **kwargs)
            name = f"{refusal.owner.__name__}.{refusal.method}"
            raise UserError(refusal.condition, location=caller_location(), method=name)
        return original(*args, **kwargs)

    return call


_OF_VIEWS = frozenset({"createTempView", "createOrReplaceTempView", "registerTempTable", "dropTempView"})


def _is_of_query_view(method: str, owner: Any, *args: Any, **kwargs: Any) -> bool:
    """Create or drop a view of the running query function; False if the view is not one of its own."""
    name = next(iter((*args, *kwargs.values())), None)
    if not isinstance(name, str):
        return False
    return drop_view(name) if method == "dropTempView" else keep_view(name, owner)


def _names_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a `pivot` has explicit values; without them Spark runs a query to find them."""
    return len(args) > 2 or kwargs.get("values") is not None


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
    """Return the key and the value in a call of `spark.conf.set`."""
    given = dict(zip(("key", "value"), args[1:], strict=False)) | kwargs
    return str(given.get("key")), given.get("value")


def _sets_file_system_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether code sets the access to a storage; allowed, as on Databricks, because all flows share the access."""
    return _given(args, kwargs)[0].startswith(_FILE_SYSTEM_KEYS)


def _sets_pipeline_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a module sets a key of the pipeline's configuration, which is kept for the update.

    Only the engine reads these keys, so no query depends on them. Query functions, which are called repeatedly, may
    not.
    """
    key, value = _given(args, kwargs)
    if _guard.get() is not _Guard.MUTATIONS or not key.startswith(PIPELINE_KEYS) or not is_registering():
        return False
    active_registry().configuration[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return True


@functools.cache
def refusals() -> tuple[_Refusal, ...]:
    """Return every refused method with its condition, without methods that this version of PySpark lacks."""
    found = [
        _Refusal(owner, method, f"SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.{kind}", _Guard.MUTATIONS)
        for owner, method, kind in _mutations()
    ]
    found += [
        _Refusal(owner, method, "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION", _Guard.MUTATIONS_AND_ACTIONS)
        for owner, methods in _actions()
        for method in methods.split()
    ]
    return tuple(refusal for refusal in found if refusal.method in refusal.owner.__dict__)


def _mutations() -> list[tuple[type, str, str]]:
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.conf import RuntimeConfig
    from pyspark.sql.session import SparkSession
    from pyspark.sql.udf import UDFRegistration
    from pyspark.sql.udtf import UDTFRegistration

    return [
        (RuntimeConfig, "set", "SET_RUNTIME_CONF"),
        (RuntimeConfig, "unset", "SET_RUNTIME_CONF"),
        (Catalog, "setCurrentCatalog", "SET_CURRENT_CATALOG"),
        (Catalog, "setCurrentDatabase", "SET_CURRENT_DATABASE"),
        (Catalog, "dropTempView", "DROP_TEMP_VIEW"),
        (Catalog, "dropGlobalTempView", "DROP_GLOBAL_TEMP_VIEW"),
        (DataFrame, "createTempView", "CREATE_TEMP_VIEW"),
        (DataFrame, "createOrReplaceTempView", "CREATE_OR_REPLACE_TEMP_VIEW"),
        (DataFrame, "registerTempTable", "CREATE_OR_REPLACE_TEMP_VIEW"),
        (DataFrame, "createGlobalTempView", "CREATE_GLOBAL_TEMP_VIEW"),
        (DataFrame, "createOrReplaceGlobalTempView", "CREATE_OR_REPLACE_GLOBAL_TEMP_VIEW"),
        (UDFRegistration, "register", "REGISTER_UDF"),
        (UDFRegistration, "registerJavaFunction", "REGISTER_JAVA_UDF"),
        (UDFRegistration, "registerJavaUDAF", "REGISTER_JAVA_UDAF"),
        (UDTFRegistration, "register", "REGISTER_UDF"),
        (SparkSession, "stop", "STOP_SESSION"),
    ]


def _actions() -> list[tuple[type, str]]:
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.group import GroupedData

    frame = (
        "approxQuantile checkpoint collect corr count cov crosstab first foreach foreachPartition freqItems head "
        "isEmpty localCheckpoint mergeInto rdd show tail take toArrow toJSON toLocalIterator toPandas write "
        "writeStream writeTo"
    )
    return [(DataFrame, frame), (GroupedData, "pivot")]
