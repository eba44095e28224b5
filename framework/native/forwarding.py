"""Forwarding of declarations on Databricks: each becomes one native call, or several that are equivalent together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.native.interface import COMPOSED, INTERFACE, LOCAL_ONLY, VIEW_PARAMETERS, compares_rows
from framework.native.native_call import NativeCall, find_native
from framework.native.translation import dataset_name, translated, view_name

Decorated = Callable[..., Any]

_MARK = "__sluice_native__"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """The declarations that a decorated function carries.

    Args:
        expectations: the expectations below a dataset's decorator that is not applied yet, the uppermost first.
        dataset: the native call that declared the dataset, if it is declared.
        handle: the result of that call, to which native expectations above it are applied.
    """

    expectations: tuple[NativeCall, ...] = ()
    dataset: NativeCall | None = None
    handle: Any = None


def forward(function: str, given: Mapping[str, Any], location: SourceLocation | None) -> Any:
    """Make the native calls for a declaration, and return the result that the declaration function returns.

    Args:
        function: the name of the declaration function.
        given: the given arguments by Sluice's names, without defaults.
        location: the module's line.

    Raises:
        UserError: NATIVE_* for a declaration without a native form; EXPECTATION_ON_FLOW, INVALID_ARGUMENT.NO_NAME.
    """
    if function in LOCAL_ONLY:
        raise UserError("NATIVE_FUNCTION_LOCAL", location=location, function=function)
    for condition in _texts(given):
        if compares_rows(function, condition):
            raise UserError("NATIVE_ARGUMENT_MISSING", location=location, function=function, argument=condition)
    if function.startswith("expect"):
        return _expectation(NativeCall(function=function, keywords={}, positional=_values(given), location=location))
    if function in _DECORATORS:
        argument, decorator = _DECORATORS[function]
        arguments = dict(given)
        decorated = arguments.pop(argument, None)
        if argument == "batch_function" and isinstance(decorated, str):  # @foreach_batch_sink("name")
            arguments["name"], decorated = decorated, None
        decorate = functools.partial(
            decorator, NativeCall(function=function, keywords=translated(function, arguments), location=location)
        )
        return decorate if decorated is None else decorate(decorated)
    if function in _READS:
        return _read(function, dataset_name(given["name"]), location)
    NativeCall(function=function, keywords=translated(function, given), location=location).make()
    return None


def _texts(given: Mapping[str, Any]) -> Iterator[object]:
    """Yield the values of arguments, those in dictionaries too."""
    for value in given.values():
        yield from value.values() if isinstance(value, Mapping) else (value,)


def _values(given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(dict(value) if isinstance(value, Mapping) else value for value in given.values())


def _expectation(call: NativeCall) -> Callable[[Decorated], Decorated]:
    """Keep the expectation for a dataset's decorator above it, or apply it to the handle of a dataset below it."""

    def decorate(function: Decorated) -> Decorated:
        mark = _mark_of(function)
        if mark.dataset is None:
            return _marked(function, replace(mark, expectations=(call, *mark.expectations)))
        if mark.handle is None:
            raise UserError(
                "NATIVE_DECORATOR_ORDER",
                location=call.location,
                expectation=call.function,
                decorator=mark.dataset.function,
            )
        return _marked(function, replace(mark, handle=call.decorate(mark.handle)))

    return decorate


def _dataset(call: NativeCall, function: Decorated) -> Decorated:
    """Apply the expectations from the lowest up, in the interpreter's order, then the dataset's decorator."""
    _check_callable(call, function)
    handle: Any = function
    for expectation in reversed(_mark_of(function).expectations):
        handle = expectation.decorate(handle)
    return _marked(function, _Mark(dataset=call, handle=call.decorate(handle)))


def _flow(call: NativeCall, function: Decorated) -> Decorated:
    _refuse_expectations(call, function, call.keywords.get("name") or _name_of(call, function))
    call.decorate(function)
    return function


def _composed_flow(call: NativeCall, function: Decorated) -> Decorated:
    """Declare a view of the query, and a native flow with the view as its source."""
    arguments = dict(call.keywords)
    name = arguments.pop("name", None) or _name_of(call, function)
    _refuse_expectations(call, function, name)
    view = {"name": view_name(name)} | {key: arguments.pop(key) for key in VIEW_PARAMETERS if key in arguments}
    flow = arguments | {"source": view["name"], "name": name}
    if call.function == "snapshot_flow":
        flow["once"] = True
        if "sequence_by" not in flow:
            flow["sequence_by"] = _before_all_others()
    holder, follower = COMPOSED[call.function]
    NativeCall(function=holder, keywords=view, location=call.location).decorate(function)
    ordered = {key: flow[key] for key in INTERFACE[follower].parameters if key in flow}
    NativeCall(function=follower, keywords=ordered, location=call.location).make()
    return function


def _before_all_others() -> Any:
    from pyspark.sql import functions

    return functions.lit(0)


def _batch_sink(call: NativeCall, function: Decorated) -> Decorated:
    name = call.keywords.get("name") or _name_of(call, function)
    replace(call, keywords={"name": name}).decorate(function)
    return function


def _hook(call: NativeCall, function: Decorated) -> Decorated:
    _check_callable(call, function)
    call.decorate(function)
    return function


def _read(function: str, name: str, location: SourceLocation | None) -> Any:
    """Read with the native function if there is one, which supports DLT pipelines; else with the session."""
    if find_native(function) is not None:
        return NativeCall(function=function, keywords={}, positional=(name,), location=location).make()
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise UserError("NO_ACTIVE_SESSION", location=location, function=function)
    return _READS[function](session, name)


_READS: Mapping[str, Callable[[Any, str], Any]] = {
    "read": lambda session, name: session.read.table(name),
    "read_stream": lambda session, name: session.readStream.table(name),
}

# Declaration function -> the parameter that receives the function of a bare decorator, and its implementation.
_DECORATORS: Mapping[str, tuple[str, Callable[[NativeCall, Decorated], Decorated]]] = {
    "table": ("query_function", _dataset),
    "materialized_view": ("query_function", _dataset),
    "temporary_view": ("query_function", _dataset),
    "append_flow": ("", _flow),
    "snapshot_flow": ("", _composed_flow),
    "auto_cdc_flow": ("", _composed_flow),
    "foreach_batch_sink": ("batch_function", _batch_sink),
    "on_event_hook": ("hook", _hook),
}


def _check_callable(call: NativeCall, function: object) -> None:
    if not callable(function):
        raise UserError(
            "DECORATOR_ARGUMENT_NOT_CALLABLE",
            location=call.location,
            function=call.function,
            actual=type(function).__name__,
        )


def _name_of(call: NativeCall, function: Decorated) -> str:
    _check_callable(call, function)
    name = getattr(function, "__name__", "<lambda>")
    if name == "<lambda>":
        raise UserError("INVALID_ARGUMENT.NO_NAME", location=call.location, function=call.function)
    return str(name)


def _refuse_expectations(call: NativeCall, function: Decorated, flow: str) -> None:
    waiting = _mark_of(function).expectations
    if waiting:
        first = waiting[0].positional[0]
        name = first if isinstance(first, str) else ", ".join(first)
        target = call.keywords["target"]
        raise UserError("EXPECTATION_ON_FLOW", location=call.location, name=name, flow=flow, target=target)


def _mark_of(function: Decorated) -> _Mark:
    """The declarations that a function carries; user decorators keep them with `functools.wraps`."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, _Mark) else _Mark()


def _marked(function: Decorated, mark: _Mark) -> Decorated:
    """A function that behaves as `function` and carries the mark; `function` itself is not changed."""

    @functools.wraps(function)
    def query(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    setattr(query, _MARK, mark)
    return query
