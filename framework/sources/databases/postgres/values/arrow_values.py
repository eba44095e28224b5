"""Values of a snapshot as Arrow: functions that convert the array that ADBC reads to the column's Arrow type.

They work on whole arrays, and fail at the first value that the type can't hold.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from framework.sources.databases.postgres.values.arrays import ArrayShapeError, parse_array
from framework.sources.databases.postgres.values.json_values import Failure, is_in_range

Conversion = Callable[[Any, pa.DataType, Failure], Any]
"""(array, type, failure) -> array of the type."""

_DAY_MICROS = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_FIRST_MICRO, _LAST_MICRO = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1
# ADBC shifts PostgreSQL's epoch, 2000-01-01, to 1970-01-01 without checking for the values that mean infinity.
_EPOCH_DAYS = 10_957
_DATE_LENGTH = 10


def keep(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Return the array unchanged, because it already has the type or represents the same values."""
    return array if array.type == kind else array.cast(kind)


def dates(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Check the range of dates."""
    _check_range(array.cast(pa.int32()), _FIRST_DAY, _LAST_DAY, lambda value: fail(_date_text(value)))
    return keep(array, kind, fail)


def timestamps(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Check the range of timestamps."""
    _check_range(array.cast(pa.int64()), _FIRST_MICRO, _LAST_MICRO, lambda value: fail(_timestamp_text(value)))
    return keep(array, kind, fail)


def decimals_from_text(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Convert the exact texts of numbers."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        for value in array.to_pylist():
            if value is not None and value[-1] in "Ny":
                fail(value)
        raise


def booleans_from_text(array: Any, _: pa.DataType, __: Failure) -> Any:
    """Convert `t` and `f`."""
    return pc.equal(array, "t")


def binary_from_text(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Convert hexadecimal digits."""
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in array.to_pylist()], kind)


def dates_from_text(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Convert dates; a date in the years 1 to 9999 has ten characters."""
    for text in array.to_pylist():
        if text is not None and len(text) != _DATE_LENGTH:
            fail(text)
    return array.cast(kind)


def timestamps_from_text(array: Any, kind: pa.TimestampType, fail: Failure) -> Any:
    """Convert timestamps; timestamps with a zone are printed in UTC."""
    for text in array.to_pylist():
        if text is not None and not is_in_range(text):
            fail(text)
    if kind.tz is not None:
        array = pc.utf8_slice_codeunits(array, 0, -3)
    return array.cast(pa.timestamp("us")).cast(kind)


def arrays_from_text(element: Conversion) -> Conversion:
    """Return the conversion of arrays whose elements are converted by `element`."""

    def convert(array: Any, kind: pa.ListType, fail: Failure) -> Any:
        elements: list[str | None] = []
        offsets = [0]
        for text in array.to_pylist():
            if text is not None:
                elements += _elements(text, fail)
            offsets.append(len(elements))
        values = element(pa.array(elements, pa.string()), kind.value_type, fail)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind, mask=pc.is_null(array))

    return convert


def _elements(text: str, fail: Failure) -> list[str | None]:
    try:
        return parse_array(text)
    except ArrayShapeError:
        fail(text)


def _check_range(numbers: Any, first: int, last: int, fail: Callable[[int], object]) -> None:
    bounds = pc.min_max(numbers).as_py()
    for value in (bounds["min"], bounds["max"]):
        if value is not None and not first <= value <= last:
            fail(value)


def _date_text(days: int) -> str:
    """Return a date out of range as PostgreSQL writes it."""
    stored = (days - _EPOCH_DAYS + 2**31) % 2**32 - 2**31
    if stored in (-(2**31), 2**31 - 1):
        return "infinity" if stored > 0 else "-infinity"
    year, month, day = _civil(stored + _EPOCH_DAYS)
    return f"{year:04}-{month:02}-{day:02}" if year > 0 else f"{1 - year:04}-{month:02}-{day:02} BC"


def _timestamp_text(micros: int) -> str:
    """Return a timestamp out of range as PostgreSQL writes it, without the fraction of the second."""
    stored = (micros - _EPOCH_DAYS * _DAY_MICROS + 2**63) % 2**64 - 2**63
    if stored in (-(2**63), 2**63 - 1):
        return "infinity" if stored > 0 else "-infinity"
    days, rest = divmod(stored, _DAY_MICROS)
    date, _, era = _date_text(days + _EPOCH_DAYS).partition(" ")
    minutes, seconds = divmod(rest // 1_000_000, 60)
    return f"{date} {minutes // 60:02}:{minutes % 60:02}:{seconds:02} {era}".strip()


def _civil(days: int) -> tuple[int, int, int]:
    """Return year (0 is 1 BC), month and day of a day of the proleptic Gregorian calendar; day 0 is 1970-01-01.

    Python's dates end at the years 1 and 9999, so the day is moved by whole cycles of 400 years.
    """
    cycles, rest = divmod(days - _FIRST_DAY, 146_097)
    date = dt.date.fromordinal(rest + 1)
    return date.year + 400 * cycles, date.month, date.day
