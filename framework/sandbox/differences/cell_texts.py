"""Texts of cells: of one value, and of two values so that one sees where they differ."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from unicodedata import normalize

from pyspark.sql.types import ArrayType, DataType, FloatType, MapType, StructType, TimestampType, VariantVal

from framework.foundation.wording import printable
from framework.sandbox.values.misfits import Misfit

_SHOWN_BEFORE = 8
"""The number of equal characters that are kept before the first difference of two long texts."""


def cell_text(value: Any, data_type: DataType, zone: tzinfo) -> str:
    r"""Return a value as text; the text `NULL` in quotes, to distinguish it from NULL.

    Args:
        value: as `typed_value` returns it, or a `Misfit`.
        data_type: its type.
        zone: the zone in which points in time are written.
    """
    if value is None:
        return "NULL"
    if isinstance(value, Misfit):
        is_text = isinstance(value.value, str)
        kind = "text" if is_text else type(value.value).__name__
        return f"{printable(repr(str(value.value) if is_text else value.value))} ({kind})"
    if isinstance(value, str):
        is_plain = value.isprintable() and value == value.strip() and value not in {"", "NULL"}
        return value if is_plain and value[0] not in "'\"" else repr(value)
    return _nested(value, data_type, zone)


def _nested(value: Any, data_type: DataType, zone: tzinfo) -> str:
    """Return a part of a nested value as text; texts in it are in quotes."""
    match value, data_type:
        case (None, _) | (Misfit(), _):
            return cell_text(value, data_type, zone)
        case _, StructType():
            parts = zip(value, data_type.fields, strict=True)
            return _joined("{", (f"{each.name}: {_nested(part, each.dataType, zone)}" for part, each in parts), "}")
        case _, ArrayType():
            return _joined("[", (_nested(each, data_type.elementType, zone) for each in value), "]")
        case Mapping(), MapType():
            entries = [
                (_nested(key, data_type.keyType, zone), _nested(each, data_type.valueType, zone))
                for key, each in value.items()
            ]
            return _joined("{", (f"{key}: {each}" for key, each in sorted(entries)), "}")
    return _leaf(value, data_type, zone)


def _joined(begin: str, parts: Iterable[str], end: str) -> str:
    return begin + ", ".join(parts) + end


def _leaf(value: Any, data_type: DataType, zone: tzinfo) -> str:
    if isinstance(data_type, TimestampType):
        value = value.astimezone(zone).replace(tzinfo=None)
    write = _float_text if isinstance(data_type, FloatType) else _LEAVES.get(type(value), str)
    return printable(write(value))


def _float_text(value: float) -> str:
    """Return the shortest text of a FLOAT, whose digits are fewer than those of the same DOUBLE."""
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        try:
            if struct.pack("<f", float(text)) == struct.pack("<f", value):
                return _double_text(float(text))
        except OverflowError:
            continue
    return repr(value)


def _double_text(value: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))


def _interval_text(value: timedelta) -> str:
    return f"{value.days} {timedelta(seconds=value.seconds, microseconds=value.microseconds)}"


_LEAVES: Mapping[type, Callable[[Any], str]] = {
    bool: lambda value: str(value).lower(),
    float: _double_text,
    Decimal: "{:f}".format,
    datetime: lambda value: value.isoformat(sep=" "),
    bytes: lambda value: f"0x{value.hex()}",
    timedelta: _interval_text,
    VariantVal: VariantVal.toJson,
    str: repr,
}
"""How values that are not nested are written; all others by `str`."""


def contrasted(expected: Any, found: Any, data_type: DataType, zone: tzinfo, width: int) -> tuple[str, str]:
    """Return the texts of two values that differ, so that one sees the difference.

    The types follow if the values differ in their types only. Texts that look the same have escapes. Long texts are
    cut around their first difference.
    """
    first, second = cell_text(expected, data_type, zone), cell_text(found, data_type, zone)
    if isinstance(expected, Misfit) and found is not None:
        second = f"{second} ({data_type.simpleString()})"
    if normalize("NFKC", first) == normalize("NFKC", second):
        first, second = _exact(expected, first), _exact(found, second)
    place = 0 if isinstance(expected, Misfit) else _first_difference(first, second)
    begin = max(min(place - _SHOWN_BEFORE, max(len(first), len(second)) - width + 1), 0)
    return _cut(first, width, begin), _cut(second, width, begin)


def _exact(value: Any, text: str) -> str:
    """Return a text with escapes for all that may look like something else."""
    if isinstance(value, datetime):
        return f"{value.isoformat(sep=' ')}"
    return ascii(value) if isinstance(value, str) else ascii(text)[1:-1]


def _first_difference(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))


def shortened(text: str, width: int) -> str:
    """Return a text with an ellipsis in its middle if it is longer than `width`."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2 + (width - 1) % 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _cut(text: str, width: int, begin: int) -> str:
    """Return a text from a place on, with an ellipsis for each end that is cut off, at most `width` characters."""
    part = f"…{text[begin + 1 :]}" if begin else text
    return part if len(part) <= width else f"{part[: width - 1]}…"
