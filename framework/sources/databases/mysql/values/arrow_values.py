"""Values of a snapshot as Arrow: functions that convert the arrays that connectorx reads to a column's Arrow type.

They work on whole arrays, and fail at the first value that the type can't hold.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

Failure = Callable[[str], NoReturn]
"""Raises the error for a value that the column's Spark type can't hold."""
Conversion = Callable[[Any, pa.DataType, Failure], Any]
"""(array, type, failure) -> array of the type."""

_DAY_MICROS = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_FIRST_MICRO, _LAST_MICRO = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1
_DATE = re.compile(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d")


def keep(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Return the array in its type, which represents the same values."""
    return array if array.type == kind else array.cast(kind)


def dates(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Check the range of dates; texts are dates that may not exist."""
    if _is_text(array):
        return _from_text(array, kind, fail)
    _check_range(array, pa.int32(), (_FIRST_DAY, _LAST_DAY), fail)
    return keep(array, kind, fail)


def timestamps(array: Any, kind: pa.TimestampType, fail: Failure) -> Any:
    """Check the range of timestamps; texts are timestamps that may not exist."""
    if _is_text(array):
        return _from_text(array, pa.timestamp("us"), fail).cast(kind)
    micros = keep(array, pa.timestamp("us"), fail)
    _check_range(micros, pa.int64(), (_FIRST_MICRO, _LAST_MICRO), fail)
    return keep(micros, kind, fail)


def decimals_from_text(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Convert the exact texts of numbers."""
    return array.cast(kind)


def bits_as_boolean(array: Any, _: pa.DataType, __: Failure) -> Any:
    """Convert the byte of a BIT(1)."""
    return pc.equal(array, pa.scalar(b"\1", array.type))


def text_of_number(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Return floating-point numbers as the shortest text that gives the value back."""
    return pa.array([None if value is None else str(value) for value in array.to_pylist()], kind)


def text_of_boolean(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Return a BIT(1) as `true` or `false`."""
    return bits_as_boolean(array, kind, fail).cast(kind)


def text_of_bytes(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Return bytes as base64."""
    values = (None if value is None else b64encode(value).decode("ascii") for value in array.to_pylist())
    return pa.array(list(values), kind)


def _is_text(array: Any) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _from_text(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        for text in array.to_pylist():
            if text is not None and not _exists(text, kind):
                fail(text)
        raise


def _exists(text: str, kind: pa.DataType) -> bool:
    """Whether a text is a date with an existing day."""
    if _DATE.match(text) is None:
        return False
    try:
        pa.array([text]).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _check_range(array: Any, number: pa.DataType, bounds: tuple[int, int], fail: Failure) -> None:
    found = pc.min_max(array.cast(number)).as_py()
    if found["min"] is not None and (found["min"] < bounds[0] or found["max"] > bounds[1]):
        fail("a date in the year 0")
