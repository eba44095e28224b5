"""Translation of declaration arguments to the form of the native module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from framework.native.interface import is_said, native_parameter

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_SETTINGS = frozenset({"spark_conf", "table_properties", "options"})
_DATASETS = frozenset({"name", "target", "source"})


def translated(function: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by their native names and in the native form.

    A table's `format` is omitted, because `delta` is the only one, and so is `private` if it is false.

    Args:
        function: the name of the declaration function.
        given: the given arguments by Sluice's names.

    Examples:
        >>> translated("table", {"temporary": True, "format": "delta", "table_properties": {"p": True}})
        {'private': True, 'table_properties': {'p': 'true'}}
    """
    return {
        native_parameter(name): _value(name, value) for name, value in given.items() if is_said(function, name, value)
    }


def _value(name: str, value: Any) -> Any:
    if name in _SETTINGS and isinstance(value, Mapping):
        return {str(key): _setting(each) for key, each in value.items()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    if name in _DATASETS and isinstance(value, str):
        return dataset_name(value)
    if name == "sequence_by" and isinstance(value, str):
        return sequence(value)
    return value


def dataset_name(text: str) -> str:
    """The name without the prefix `LIVE.`, which is redundant."""
    first, dot, rest = text.strip().partition(".")
    return rest if dot and first.lower() == "live" else text.strip()


def sequence(text: str) -> Any:
    """A column name as text, any other expression as a Column, because the native module takes texts as names."""
    if _COLUMN.fullmatch(text.strip()):
        return text.strip()
    from pyspark.sql import functions

    return functions.expr(text)


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def view_name(flow: str) -> str:
    """The name of the view with the query of an AUTO CDC flow; it has one part, as names of views must.

    Examples:
        >>> view_name("users_snapshot"), view_name("sales.`Or ders`")
        ('users_snapshot__source', 'sales_Or_ders__source')
    """
    return re.sub(r"\W+", "_", flow.replace("`", "")) + "__source"
