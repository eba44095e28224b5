"""The global `spark` of functions given in Python while code of their pipeline runs.

A pipeline's file runs as a module with the global `spark`. A function already has a namespace: the globals of its
notebook or module, which may have its own `spark`, and which several pipelines may use at once.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Namespace = dict[str, Any]
_NAME = "spark"
_ABSENT = object()
_lock = threading.Lock()


def namespace_of(function: Callable[[], object]) -> Namespace | None:
    """Return the globals of a function's body; None for a callable that is not written in Python."""
    found: Any = function
    while isinstance(found, functools.partial):
        found = found.func
    found = inspect.unwrap(found)
    found = getattr(found, "__func__", found)
    if not hasattr(found, "__globals__"):
        found = getattr(type(found).__call__, "__func__", type(found).__call__)
    return getattr(found, "__globals__", None)


@contextmanager
def lending(
    namespaces: Sequence[Namespace], spark: SparkSession, seen: Callable[[], SparkSession | None]
) -> Iterator[None]:
    """Bind `spark` in the namespaces during the block; blocks may nest and overlap in threads.

    Afterwards the previous binding of each namespace is restored, or removed if there was none.

    Args:
        namespaces: the globals of a pipeline's functions.
        spark: the pipeline's session, for threads that a function starts.
        seen: returns the session of the pipeline whose code runs in the calling thread; None if there is none.
    """
    with _lock:
        for namespace in namespaces:
            _lend(namespace, spark, seen)
    try:
        yield
    finally:
        with _lock:
            for namespace in namespaces:
                _take_back(namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loan:
    """A temporary `spark` in one namespace: the number of blocks that use it, and the previous binding."""

    global_spark: _PipelineSession
    before: object
    users: int = 0


_loans: dict[int, _Loan] = {}


def _lend(namespace: Namespace, spark: SparkSession, seen: Callable[[], SparkSession | None]) -> None:
    loan = _loans.get(id(namespace))
    if loan is None:
        loan = _Loan(global_spark=_PipelineSession(seen, spark), before=namespace.get(_NAME, _ABSENT))
        namespace[_NAME] = loan.global_spark
    _loans[id(namespace)] = replace(loan, users=loan.users + 1)


def _take_back(namespace: Namespace) -> None:
    loan = _loans.pop(id(namespace))
    if loan.users > 1:
        _loans[id(namespace)] = replace(loan, users=loan.users - 1)
        return
    if namespace.get(_NAME) is not loan.global_spark:
        return  # the code has bound the name itself
    if loan.before is _ABSENT:
        del namespace[_NAME]
    else:
        namespace[_NAME] = loan.before


class _PipelineSession:
    """Proxy for the session of the pipeline whose code uses it.

    Two pipelines may share a namespace and run at once, so the name can't be bound to one session.
    """

    def __init__(self, seen: Callable[[], SparkSession | None], otherwise: SparkSession) -> None:
        object.__setattr__(self, "_find", lambda: seen() or otherwise)

    def __getattribute__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_find")(), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_find")(), name, value)

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_find")())
