"""Conversion of row values to JSON and to table cells."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any


def json_value(value: object) -> object:
    """A row value for JSON: structs as objects, times in ISO 8601, bytes in base 64, NaN as text."""
    value = value.asDict() if hasattr(value, "asDict") else value
    match value:
        case Mapping():
            return {str(key): json_value(each) for key, each in value.items()}
        case list() | tuple():
            return [json_value(each) for each in value]
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case date():
            return value.isoformat()
        case None | bool() | int() | str() | float() if not isinstance(value, float) or math.isfinite(value):
            return value
        case _:
            return str(value)


def cell_value(value: Any) -> object:
    """A value for a table cell; nested and binary values are JSON."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    nested = isinstance(value, Mapping | list | tuple | bytes | bytearray)
    return json.dumps(json_value(value), ensure_ascii=False) if nested else value
