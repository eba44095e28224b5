"""The session that pipeline code sees: every call that returns a session returns the pipeline's own.

A module may use the global `spark`, `SparkSession.active()`, `SparkSession.getActiveSession()` or
`SparkSession.builder.getOrCreate()`. In PySpark the last three share one variable per process, so two pipelines would
see each other's configuration.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from framework.declare.session.patches import Patch, Patches
from framework.declare.session.session_global import Namespace, lending
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_seen: ContextVar[SparkSession | None] = ContextVar("sluice_seen_session", default=None)

# Options of `SparkSession.builder` that have no effect on an existing session.
_HARMLESS = frozenset({"spark.app.name", "spark.master"})


@contextmanager
def seeing(spark: SparkSession, namespaces: Sequence[Namespace] = ()) -> Iterator[None]:
    """Make `spark` the active session of the block's own thread, and a global of the namespaces."""
    with _PATCHES.installed(), lending(namespaces, spark, _seen.get):
        token = _seen.set(spark)
        try:
            yield
        finally:
            _seen.reset(token)


def is_seeing() -> bool:
    """Whether pipeline code is running, with the pipeline's session as its active session."""
    return _seen.get() is not None


def _patches() -> list[Patch]:
    from pyspark.sql import SparkSession

    return [
        Patch(SparkSession, "getActiveSession", _class_method),
        Patch(SparkSession, "active", _class_method),
        Patch(SparkSession.Builder, "getOrCreate", _get_or_create),
    ]


_PATCHES = Patches(_patches)


def _class_method(original: Any) -> Any:
    def call(cls: type) -> SparkSession | None:
        found: SparkSession | None = _seen.get() or original.__get__(None, cls)()
        return found

    return classmethod(functools.wraps(original.__func__)(call))


def _get_or_create(original: Callable[[Any], SparkSession]) -> Callable[[Any], SparkSession]:
    @functools.wraps(original)
    def call(self: Any) -> SparkSession:
        seen = _seen.get()
        if seen is None:
            return original(self)
        if set(self._options) - _HARMLESS:
            condition = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF"
            raise UserError(condition, location=caller_location(), method="SparkSession.builder.config")
        return seen

    return call
