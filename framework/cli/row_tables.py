"""Rows of a DataFrame as a result."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from framework.cli.facade import Rows
from framework.cli.output import Output
from framework.cli.text_table import text_table

_WIDEST_CELL_ON_TERMINAL = 60


def print_rows(output: Output, rows: Rows) -> None:
    """Print rows as a table, or as a JSON list of objects; of columns of one name the last is kept there."""
    columns, values = rows.columns, [list(row) for row in rows.collect()]
    if output.as_json:
        output.json([dict(zip(columns, map(json_value, row), strict=True)) for row in values])
        return
    cells = [[_cell(value) for value in row] for row in values]
    widest = _WIDEST_CELL_ON_TERMINAL if output.stream.isatty() else None
    output.text(text_table(columns, cells, widest=widest))


def json_value(value: object) -> object:
    """A value of a row as JSON has it: structs as objects, times in ISO 8601, bytes in base 64, NaN as text."""
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


def _cell(value: Any) -> object:
    """A value as a table shows it; what is nested as JSON."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    nested = isinstance(value, Mapping | list | tuple | bytes | bytearray)
    return _compact(json_value(value)) if nested else value


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
