"""Validation of decorated query functions, and the declarations attached to them.

A decorator returns a function with the same behaviour that carries its declarations, so expectations may be stacked
above or below a dataset's decorator.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from framework.declare.interface.call import Call
from framework.declare.registry import DECLARED_MARK
from framework.declare.specs import DatasetSpec, ExpectationSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.declare.registry import QueryFunction

F = TypeVar("F", bound=Callable[..., Any])
QueryDecorator: TypeAlias = "Callable[[Callable[[], DataFrame]], QueryFunction]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declarations of a decorated function: its dataset, or expectations that wait for a dataset."""

    dataset: DatasetSpec | None = None
    expectations: tuple[ExpectationSpec, ...] = ()


def declared_of(function: Callable[..., Any]) -> Declared:
    """Return the declarations that a function carries."""
    found = getattr(function, DECLARED_MARK, None)
    return found if isinstance(found, Declared) else Declared()


def marked(function: F, declared: Declared) -> F:
    """Return a function that behaves as `function` and carries `declared`; `function` itself is not changed."""

    @functools.wraps(function)
    def query(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    setattr(query, DECLARED_MARK, declared)
    return query  # type: ignore[return-value]


def check_callable(call: Call, function: object) -> None:
    """Refuse to decorate an object that is not callable.

    Raises:
        UserError: DECORATOR_ARGUMENT_NOT_CALLABLE, for example for a name given without `name=`.
    """
    if not callable(function):
        raise call.fault("DECORATOR_ARGUMENT_NOT_CALLABLE", actual=type(function).__name__)


def check_query(call: Call, function: Callable[..., Any]) -> None:
    """Refuse a function that can't be called without arguments.

    Raises:
        UserError: DECORATOR_ARGUMENT_NOT_CALLABLE or QUERY_FUNCTION_HAS_PARAMETERS.
    """
    check_callable(call, function)
    required = required_parameters(function)
    if required:
        raise call.fault("QUERY_FUNCTION_HAS_PARAMETERS", name=display_name(function), parameters=", ".join(required))


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters without a default; empty if the signature is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind not in starred
    ]


def display_name(function: Callable[..., Any]) -> str:
    """Return the function's name, for error texts."""
    return getattr(function, "__name__", repr(function))


def default_name(call: Call, function: Callable[..., Any]) -> str:
    """Return the function's name, as the default name of its dataset or flow.

    Raises:
        UserError: INVALID_ARGUMENT.NO_NAME for a lambda or a callable object without a name.
    """
    name = getattr(function, "__name__", "<lambda>")
    if name == "<lambda>":
        raise call.fault("INVALID_ARGUMENT.NO_NAME")
    return str(name)
