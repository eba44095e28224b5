"""Values of a snapshot as Arrow: functions that convert the arrays that connectorx reads to a column's Arrow type.

They work on whole arrays, and fail at the first value that the type can't hold.
"""

from __future__ import annotations

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


def keep(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Return the array in its type, which represents the same values."""
    return array if array.type == kind else array.cast(kind)


def dates(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Check the range of dates; texts are dates that may not exist."""
    if _is_text(array):
        return _from_text(array, kind, fail)
    return _in_range(array, pa.int32(), (_FIRST_DAY, _LAST_DAY), fail).cast(kind)


def timestamps(array: Any, kind: pa.TimestampType, fail: Failure) -> Any:
    """Check the range of timestamps; texts are timestamps that may not exist."""
    if _is_text(array):
        return _from_text(array, pa.timestamp("us"), fail).cast(kind)
    return _in_range(array, pa.int64(), (_FIRST_MICRO, _LAST_MICRO), fail).cast(kind)


def decimals_from_text(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Convert the exact texts of numbers."""
    return array.cast(kind)


def bits_as_boolean(array: Any, _: pa.DataType, __: Failure) -> Any:
    """Convert the byte of a BIT(1)."""
    return pc.equal(array, pa.scalar(b"\1", array.type))


def text_of_number(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Return floating-point numbers as the shortest text that gives the value back."""
    numbers = array.cast(pa.float64()) if _is_text(array) else array
    return pa.array([None if value is None else str(value) for value in numbers.to_pylist()], kind)


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
    """Convert texts of dates, of which the first that does not exist fails."""
    try:
        return _moments(array, kind, fail)
    except pa.ArrowInvalid:
        for text in array.to_pylist():
            if text is not None and not _exists(text, kind):
                fail(text)
        raise


def _moments(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Convert texts of dates that exist."""
    found = array.cast(kind)
    return dates(found, kind, fail) if pa.types.is_date(kind) else timestamps(found, kind, fail)


def _exists(text: str, kind: pa.DataType) -> bool:
    try:
        pa.array([text]).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _in_range(array: Any, number: pa.DataType, bounds: tuple[int, int], fail: Failure) -> Any:
    """Return the array, whose first value out of range fails."""
    numbers = array.cast(number)
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and (found["min"] < bounds[0] or found["max"] > bounds[1]):
        outside = pc.or_(pc.less(numbers, bounds[0]), pc.greater(numbers, bounds[1]))
        fail(array.filter(outside).cast(pa.string())[0].as_py())
    return array
