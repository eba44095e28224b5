"""The rows of a table or a query, as text and as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from framework.foundation.wording import printable
from framework.views.table import Cell, Column, Table, Tone

_EXACT_DIGITS = 15
_MOST_PLAIN = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsView:
    """Rows with the names of their columns, which may repeat.

    Args:
        rows: the values of each row, as Spark returns them.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> RowsView:
        """Create the view of collected rows."""
        return cls(columns=tuple(columns), rows=tuple(tuple(row) for row in rows))

    def table(self) -> Table:
        """Return the values as texts; numbers are aligned to the right."""
        columns = [
            Column(name=name, right=_is_numeric([row[index] for row in self.rows]), wraps=False)
            for index, name in enumerate(self.columns)
        ]
        return Table.of(columns, [[value_cell(value) for value in row] for row in self.rows])

    def to_json(self) -> list[dict[str, object]]:
        """Return one object for each row; if columns share a name, the last one is returned."""
        return [dict(zip(self.columns, map(json_value, row), strict=True)) for row in self.rows]


def json_value(value: object) -> object:
    """Return a value as JSON: structs as objects, times in ISO 8601, bytes in base 64, NaN as text."""
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


def value_cell(value: object) -> Cell:
    """Return a value as a cell; its tone distinguishes a null from the text `null`."""
    return Cell(text="null", tone=Tone.QUIET) if value is None else Cell(text=value_text(value))


def value_text(value: object) -> str:
    r"""Return a value as text: nested and binary values as JSON, control characters as escapes.

    So data can neither break a line nor control a terminal.

    Examples:
        >>> value_text(2 / 3), value_text(1234567.8), value_text({"a": None}), value_text("a\nb")
        ('0.666667', '1234567.8', '{"a": null}', 'a\\nb')
    """
    match value:
        case None | bool():
            return json.dumps(value)
        case float():
            return _float_text(value)
        case datetime():
            text = value.isoformat(sep=" ")
        case Mapping() | list() | tuple() | bytes() | bytearray():
            text = json.dumps(json_value(value), ensure_ascii=False)
        case _:
            text = str(value)
    return printable(text)


def _float_text(value: float) -> str:
    """Return six digits of a float, or all digits if six would need an exponent."""
    text = f"{value:.6g}"
    return f"{value:.{_EXACT_DIGITS}g}" if "e" in text and abs(value) < _MOST_PLAIN else text


def _is_numeric(values: Sequence[object]) -> bool:
    """Return whether there is at least one number and all other values are numbers or null."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)
