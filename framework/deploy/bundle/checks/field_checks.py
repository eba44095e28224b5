"""Checks and conversions of settings by the types of their fields.

The types come from `format`: typed dictionaries, dataclasses, enumerations, lists,
dictionaries and scalars. A scalar is converted to the type of its field, as in the Databricks CLI: a variable's value
from the environment is a text, and `development: ${var.dev}` needs true or false.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from framework.deploy.bundle.documents.interpolation import REFERENCE
from framework.deploy.bundle.documents.nodes import Node, kind_of
from framework.foundation.secrets.secrecy import hide_all, hide_in_text, is_secret_name

Report = Callable[..., None]
"""Function of a condition, a location, and the condition's fields."""

_TRUE = frozenset({"true", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})
_EXPECTED = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
_LARGEST = 2**63
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class FieldChecks:
    """Traverses settings together with their types.

    Args:
        report: receives each fault.
        unknown: receives the path of a mapping, a key that its type does not have, the value and the known keys; the
            field is then dropped. None keeps such fields.
    """

    def __init__(self, report: Report, unknown: Callable[[str, str, Node, frozenset[str]], None] | None = None) -> None:
        self._report = report
        self._unknown = unknown

    def convert(self, node: Node, type_: Any, path: str) -> Node:
        """Return the settings with each scalar converted to the type of its field.

        A value that does not fit is reported and stays unchanged.
        """
        type_ = _without_none(type_)
        if node.value is None or type_ is Any or _is_reference(node.value):
            return node
        origin = get_origin(type_)
        if origin is list:
            return self._list(node, get_args(type_)[0], path)
        if origin is dict:
            return self._map(node, get_args(type_)[1], path)
        if is_struct(type_):
            return self.struct(node, *fields_of(type_), path)
        return self._scalar(node, type_, path)

    def struct(self, node: Node, hints: Mapping[str, Any], required: frozenset[str], path: str) -> Node:
        """Check and convert a mapping with named fields."""
        if not node.is_map:
            return self._mismatch(node, "a mapping", path)
        for field in sorted(required):
            if field not in node.value:
                self._report("BUNDLE_FIELD_MISSING", node.location, field=f"{path}.{field}")
        known = frozenset(hints)
        kept: dict[str, Node] = {}
        for key, value in node.value.items():
            if key in hints:
                # An empty text for an optional field is dropped: services refuse it, and variables often give one.
                if value.value != "" or _without_none(hints[key]) is hints[key]:
                    kept[key] = self.convert(value, hints[key], f"{path}.{key}" if path else key)
            elif self._unknown is None:
                kept[key] = value
            else:
                self._unknown(path, key, value, known)
        return node.with_value(kept)

    def _list(self, node: Node, item: Any, path: str) -> Node:
        if not isinstance(node.value, tuple):
            return self._mismatch(node, "a list", path)
        items = (self.convert(each, item, f"{path}[{number}]") for number, each in enumerate(node.value))
        return node.with_value(tuple(items))

    def _map(self, node: Node, item: Any, path: str) -> Node:
        if not node.is_map:
            return self._mismatch(node, "a mapping", path)
        entries = {key: self.convert(each, item, f"{path}.{key}") for key, each in node.value.items()}
        return node.with_value(entries)

    def _scalar(self, node: Node, type_: Any, path: str) -> Node:
        choices = _choices(type_)
        wanted = str if choices is not None else type_
        if wanted not in _EXPECTED:
            return node
        value = as_scalar(node.value, wanted)
        if value is None:
            return self._mismatch(node, _EXPECTED[wanted], path)
        if choices is not None and value not in choices:
            known = ", ".join(choice for choice in choices if choice)
            given = hide_all(value) if node.is_secret else hide_in_text(str(value))
            self._report("BUNDLE_FIELD_CHOICE", node.location, field=path, value=given, known=known)
        return node.with_value(value)

    def _mismatch(self, node: Node, expected: str, path: str) -> Node:
        actual = kind_of(node.value)
        if isinstance(node.value, str) and expected != "a string":
            is_secret = node.is_secret or is_secret_name(path.rpartition(".")[2])
            actual = "a string" if is_secret else f"the string {hide_in_text(node.value)!r}"
        self._report("BUNDLE_FIELD_TYPE", node.location, field=path, actual=actual, expected=expected)
        return node


def as_scalar(value: Any, wanted: type) -> bool | int | float | str | None:
    """Convert a scalar to another type; None if it has no equal value there.

    Examples:
        >>> as_scalar("true", bool), as_scalar("2", int), as_scalar(1e-07, str), as_scalar(True, str)
        (True, 2, '0.0000001', 'true')
        >>> as_scalar("maybe", bool), as_scalar(2.5, int), as_scalar(1, bool), as_scalar("2.5", float)
        (None, None, None, 2.5)
    """
    if wanted is str:
        return _as_text(value)
    if wanted is bool:
        if isinstance(value, str):
            return True if value in _TRUE else False if value in _FALSE else None
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return _as_number(value, wanted)


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # Without an exponent, as in the CLI.
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return str(value) if isinstance(value, int | str) else None


def _as_number(value: float | str, wanted: type) -> int | float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value) is None:
        return None
    try:
        number = float(value) if wanted is float else int(value)
    except (ValueError, OverflowError):
        return None
    if wanted is float:
        return number
    exact = isinstance(value, str) or number == value
    return number if exact and -_LARGEST <= number < _LARGEST else None


def is_struct(type_: Any) -> bool:
    """Return whether a type is a mapping with named fields."""
    return is_typeddict(type_) or (isinstance(type_, type) and dataclasses.is_dataclass(type_))


@functools.cache
def fields_of(type_: Any) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the types of a struct's fields by name, and its required fields."""
    if is_typeddict(type_):
        return get_type_hints(type_), type_.__required_keys__
    missing = dataclasses.MISSING
    required = (
        each.name for each in dataclasses.fields(type_) if each.default is missing and each.default_factory is missing
    )
    return get_type_hints(type_), frozenset(required)


def _without_none(type_: Any) -> Any:
    if get_origin(type_) in (Union, types.UnionType):
        return next(each for each in get_args(type_) if each is not type(None))
    return type_


def _choices(type_: Any) -> tuple[str, ...] | None:
    if get_origin(type_) is Literal:
        return get_args(type_)
    if isinstance(type_, type) and issubclass(type_, Enum):
        return tuple(str(each.value) for each in type_)
    return None


def _is_reference(value: Any) -> bool:
    """Return whether a whole value is one reference, and so has the type of the referenced value."""
    return isinstance(value, str) and REFERENCE.fullmatch(value) is not None
