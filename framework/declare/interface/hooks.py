"""Event hooks: `@on_event_hook`."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from framework.declare.interface.call import Call, declaration
from framework.declare.interface.queries import check_callable, default_name, display_name, required_parameters
from framework.declare.registry import EventHook, HookSpec, active_registry


@overload
def on_event_hook(hook: EventHook, /) -> EventHook: ...
@overload
def on_event_hook(*, max_allowable_consecutive_failures: int | None = None) -> Callable[[EventHook], EventHook]: ...
@declaration
def on_event_hook(
    hook: EventHook | None = None, /, *, max_allowable_consecutive_failures: int | None = None
) -> EventHook | Callable[[EventHook], EventHook]:
    """Call the decorated function with each event of an update, as a dict, one event at a time.

    Hooks run asynchronously: a slow or failing hook neither delays nor fails the update.

    Args:
        hook: the decorated function, if the decorator is used without arguments.
        max_allowable_consecutive_failures: the hook is disabled until the next update after this many failures in
            a row; None: never.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument, DUPLICATE_EVENT_HOOK for a second hook of the same name.
    """
    call = Call.of("on_event_hook")
    limit = max_allowable_consecutive_failures
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        call.wrong_type("max_allowable_consecutive_failures", limit, "an int")
    if limit is not None and limit < 0:
        call.wrong_value("max_allowable_consecutive_failures", limit, "0 or a positive int")

    def decorate(function: EventHook) -> EventHook:
        check_callable(call, function)
        if len(required_parameters(function)) > 1:
            call.wrong_value("hook", display_name(function), "a function with one parameter, the event")
        name = default_name(call, function)
        registry = active_registry()
        if name in registry.hook_functions:
            raise call.fault("DUPLICATE_EVENT_HOOK", name=name)
        registry.hooks.append(HookSpec(name=name, max_allowable_consecutive_failures=limit, location=call.location))
        registry.hook_functions[name] = function
        return function

    return decorate if hook is None else decorate(hook)
