"""Sinks, the targets of append flows outside the pipeline: `create_sink` and `@foreach_batch_sink`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import overload

from framework.declare.interface.call import Call, declaration
from framework.declare.interface.queries import check_callable, default_name, display_name, required_parameters
from framework.declare.interface.shaded_classes import unshaded
from framework.declare.registry import BatchFunction, active_registry
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.declare.workspace.spark_paths import spelled_options


@declaration
def create_sink(name: str, format: str, options: Mapping[str, str] | None = None) -> None:
    """Declare a sink of one of Spark's streaming formats; a full refresh does not clear it.

    Args:
        name: the sink's name, which append flows use as their target.
        format: the format of a streaming sink, such as `delta`, `kafka` or the name of a Python data source.
        options: the format's options.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument.
    """
    call = Call.of("create_sink")
    active_registry().datasets.append(
        DatasetSpec(
            name=call.qualified("name", name),
            kind=DatasetKind.SINK,
            location=call.location,
            format=call.text("format", format),
            options=unshaded(tuple(spelled_options(call.pairs("options", options)).items())),
        )
    )


@overload
def foreach_batch_sink(batch_function: BatchFunction, /) -> BatchFunction: ...
@overload
def foreach_batch_sink(*, name: str | None = None) -> Callable[[BatchFunction], BatchFunction]: ...
@declaration
def foreach_batch_sink(
    batch_function: BatchFunction | str | None = None, /, *, name: str | None = None
) -> BatchFunction | Callable[[BatchFunction], BatchFunction]:
    """Declare a sink whose micro-batches the decorated function writes; it gets a DataFrame and the batch ID.

    Args:
        batch_function: the decorated function, if the decorator is used without arguments.
        name: the sink's name; default: the function's.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument.
    """
    call = Call.of("foreach_batch_sink")
    named = batch_function if isinstance(batch_function, str) else name
    call.optional_text("name", named)

    def decorate(function: BatchFunction) -> BatchFunction:
        check_callable(call, function)
        if len(required_parameters(function)) != 2:
            call.wrong_value(
                "batch_function", display_name(function), "a function with two parameters, a DataFrame and a batch id"
            )
        sink = call.qualified("name", named if named is not None else default_name(call, function))
        registry = active_registry()
        registry.datasets.append(DatasetSpec(name=sink, kind=DatasetKind.FOREACH_BATCH_SINK, location=call.location))
        registry.batch_functions[sink] = function
        return function

    return decorate if batch_function is None or isinstance(batch_function, str) else decorate(batch_function)
