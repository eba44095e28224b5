"""Values of SQL Server: from the array that the driver reads to Arrow, and from one value to JSON.

A snapshot uses the first form, a change the second one. Both get the same value from the same SELECT expression.
"""

from __future__ import annotations

import json.encoder
from binascii import b2a_base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

Failure = Callable[[str], NoReturn]
"""Raises the error for a value that the column's Spark type can't hold."""
Conversion = Callable[[Any, pa.DataType, Failure], Any]
"""(array of the driver, type, failure) -> array of the type."""
Fragment = Callable[[Any, Failure], str]
"""(value of the driver, failure) -> JSON."""

_SECONDS = len("2024-01-31 23:59:59")
_MICROS = len("2024-01-31 23:59:59.123456")
_OFFSET = len(" +01:00")
_MINUTE = 60_000_000
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # 0001-01-01 and 9999-12-31 23:59:59.999999
_encode = json.encoder.encode_basestring


def keep(array: Any, kind: pa.DataType, _: Failure) -> Any:
    """Return the array as the type; the driver may have a wider type for the same values."""
    return array if array.type == kind else array.cast(kind)


def timestamps(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Convert texts of timestamps without zone."""
    return _micros(array, fail).cast(kind)


def instants(array: Any, kind: pa.DataType, fail: Failure) -> Any:
    """Convert texts of timestamps with an offset."""
    array = array.cast(pa.string())
    local = _micros(pc.utf8_slice_codeunits(array, 0, -_OFFSET), fail).cast(pa.int64())
    hours, minutes = (pc.utf8_slice_codeunits(array, *part).cast(pa.int64()) for part in ((-5, -3), (-2, None)))
    offset = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), _MINUTE)
    is_west = pc.equal(pc.utf8_slice_codeunits(array, -6, -5), "-")
    found = pc.if_else(is_west, pc.add(local, offset), pc.subtract(local, offset))
    beyond = pc.fill_null(pc.or_(pc.less(found, _FIRST), pc.greater(found, _LAST)), fill_value=False)
    _fail_at(array, beyond, fail)
    return found.cast(pa.timestamp("us")).cast(kind)


def plain(value: Any, _: Failure) -> str:
    """Encode integers, and decimals as text: their text is JSON."""
    return str(value)


def float_json(value: Any, _: Failure) -> str:
    """Encode a floating-point number with all its digits."""
    return repr(float(value))


def boolean_json(value: Any, _: Failure) -> str:
    """Encode a bit."""
    return "true" if value else "false"


def text_json(value: Any, _: Failure) -> str:
    """Encode a text."""
    return _encode(value)


def binary_json(value: Any, _: Failure) -> str:
    """Encode bytes as base64."""
    return f'"{b2a_base64(bytes(value), newline=False).decode("ascii")}"'


def timestamp_json(value: Any, fail: Failure) -> str:
    """Encode the text of a timestamp without zone."""
    return f'"{_with_micros(value, fail).replace(" ", "T")}"'


def instant_json(value: Any, fail: Failure) -> str:
    """Encode the text of a timestamp with an offset, in UTC."""
    local = _with_micros(value[:-_OFFSET], lambda _: fail(value))
    try:
        found = datetime.fromisoformat(local + value[1 - _OFFSET :]).astimezone(UTC)
    except OverflowError:
        fail(value)
    return f'"{found.replace(tzinfo=None).isoformat(timespec="microseconds")}Z"'


def _micros(array: Any, fail: Failure) -> Any:
    array = array.cast(pa.string())
    digits = pc.utf8_slice_codeunits(array, _MICROS, _MICROS + 1)
    _fail_at(array, pc.fill_null(pc.not_equal(pc.utf8_trim(digits, "0"), ""), fill_value=False), fail)
    return pc.utf8_slice_codeunits(array, 0, _MICROS).cast(pa.timestamp("us"))


def _fail_at(array: Any, found: Any, fail: Failure) -> None:
    place = pc.index(found, value=True).as_py()
    if place >= 0:
        fail(array[place].as_py())


def _with_micros(text: str, fail: Failure) -> str:
    """Return the text of a timestamp with six digits of the fraction; a seventh one must be 0."""
    if text[_MICROS:].strip("0"):
        fail(text)
    return f"{text}.000000" if len(text) == _SECONDS else text[:_MICROS].ljust(_MICROS, "0")
