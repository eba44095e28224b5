"""Gathering of faults in declarations: an invalid argument does not stop the loading of its module.

An exception from a declaration would end its module and hide the faults of all later declarations. So while modules
are loaded, the fault is gathered, the invalid argument is omitted, and the call is repeated. The repeated call finds
the next fault, and the query is analysed, too. The pipeline is then refused with all faults together.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from framework.declare.registry import Registry
from framework.foundation.errors import UserError

# The start of an argument in an error: `schema`, `keys[0]`, `spark_conf['a']`, `table_properties key`.
_ARGUMENT = re.compile(r"\w+")
_BLAMED = {"AUTOCDC_EMPTY_KEYS": "keys", "AUTOCDC_MISSING_SEQUENCE_BY": "sequence_by"}
# Replacements for invalid required arguments, to check the remaining arguments; the declared names are spoilt anyway.
_PLACEHOLDERS: Mapping[str, object] = {"keys": ["id"], "sequence_by": "0"}
_NAMES = ("name", "flow_name", "target")


def call_gathering(
    function: Callable[..., Any],
    registry: Registry,
    signature: inspect.Signature,
    arguments: Mapping[str, object],
) -> Any:
    """Call a declaration without its invalid arguments; add their faults to the registry.

    Args:
        function: the declaration; raises a UserError for the first invalid argument.
        registry: the registry that is being filled.
        signature: the signature of the function.
        arguments: the given arguments by name.
    """
    given, faulty = dict(arguments), False
    before = len(registry.datasets), len(registry.flows)
    while True:
        bound = inspect.BoundArguments(signature, given)
        try:
            result = function(*bound.args, **bound.kwargs)
        except UserError as error:
            registry.faults.append(error)
            faulty = True
            blamed = _blamed(error)
            if blamed in _PLACEHOLDERS and given.get(blamed) is not _PLACEHOLDERS[blamed]:
                given[blamed] = _PLACEHOLDERS[blamed]
                continue
            if blamed not in given or signature.parameters[blamed].default is inspect.Parameter.empty:
                undecorated = _given_up(registry, _names_of(signature, given))
                direct = next((value for value in bound.args[:1] if callable(value)), None)
                return undecorated if direct is None else undecorated(direct)
            del given[blamed]
            continue
        if faulty:
            _spoil_since(registry, before)
        if callable(result) and not any(callable(value) for value in bound.args[:1]):
            return _gathering_decorator(result, registry, _names_of(signature, given), faulty=faulty)
        return result


def _blamed(error: UserError) -> str:
    """Return the name of the argument that an error is about; empty if unknown."""
    named = error.fields.get("argument") or error.fields.get("second") or _BLAMED.get(error.condition)
    found = _ARGUMENT.match(str(named or ""))
    return found.group() if found else ""


def _gathering_decorator(
    decorator: Callable[..., Any], registry: Registry, names: list[object] | None, *, faulty: bool
) -> Callable[..., Any]:
    """Return the decorator with its faults added to the registry; the function is then returned undecorated."""

    @functools.wraps(decorator)
    def decorate(function: Any) -> Any:
        before = len(registry.datasets), len(registry.flows)
        try:
            decorated = decorator(function)
        except UserError as error:
            registry.faults.append(error)
            return _given_up(registry, names)(function)
        if faulty:
            _spoil_since(registry, before)
        return decorated

    return decorate


def _names_of(signature: inspect.Signature, given: Mapping[str, object]) -> list[object] | None:
    """Return the given names of dataset, flow and target; None for an expectation, which declares none of these."""
    if signature.parameters.keys() & {"inv", "expectations"}:
        return None
    return [given[name] for name in _NAMES if given.get(name) is not None]


def _given_up(registry: Registry, names: list[object] | None) -> Callable[..., Any]:
    """Return a decorator that changes nothing, in place of a declaration that can't be completed."""
    for name in names or ():
        _spoil(registry, name)

    def undecorated(function: Any) -> Any:
        if names is not None:
            registry.forget_waiting(function)
        if names == []:
            _spoil(registry, getattr(function, "__name__", None))
        return function

    return undecorated


def _spoil(registry: Registry, name: object) -> None:
    if isinstance(name, str):
        try:
            registry.spoilt.add(registry.name(name))
        except UserError:
            return


def _spoil_since(registry: Registry, before: tuple[int, int]) -> None:
    """Mark the declarations of a faulty call as spoilt: their queries are analysed, but rules do not apply to them."""
    registry.spoilt.update(dataset.name for dataset in registry.datasets[before[0] :])
    for flow in registry.flows[before[1] :]:
        registry.spoilt.update((flow.name, flow.target))
