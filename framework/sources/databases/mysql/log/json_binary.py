"""MySQL's binary JSON as the text that the server prints for it.

https://dev.mysql.com/doc/dev/mysql-server/latest/json__binary_8h.html. MariaDB stores JSON as text.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from struct import Struct

from framework.sources.databases.mysql.log.decimals import decimal_text

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_OPAQUE = 15
_LITERALS = ("null", "true", "false")
_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_READERS = {kind: Struct(form).unpack_from for kind, form in _NUMBERS.items()}
_DOUBLE, _STRING = 11, 12
_read_double = Struct("<d").unpack_from
_INLINE = {4, 5, 6}
_INLINE_LARGE = {*_INLINE, 7, 8}
_DECIMAL, _DATE, _TIME = 246, 10, 11
_MOMENTS = (7, 12)
"""TIMESTAMP and DATETIME."""
_MOST_DEPTH = 100

_ESCAPED = re.compile('[\\x00-\\x1f"\\\\]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def json_text(data: bytes) -> str:
    """Return the text of a JSON column, exactly as `CAST(column AS CHAR)` has it.

    Raises:
        ValueError: the bytes are not MySQL's binary JSON.
    """
    if not data:
        return "null"  # what the server stores for a value that it could not make, and what it prints for it
    try:
        return "".join(_value(data[0], data, 1, 0))
    except (IndexError, OverflowError) as error:
        msg = f"the binary JSON can't be read: {error}"
        raise ValueError(msg) from error


def _value(kind: int, data: bytes, at: int, depth: int) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        msg = "the binary JSON is nested too deeply"
        raise ValueError(msg)
    if kind <= _LARGE_ARRAY:
        yield from _container(kind, data, at, depth)
    elif kind == _LITERAL:
        yield _LITERALS[data[at]]
    elif kind in _READERS:
        yield str(_READERS[kind](data, at)[0])
    elif kind == _DOUBLE:
        yield double_text(_read_double(data, at)[0])
    elif kind == _STRING:
        size, start = _length(data, at)
        yield _quoted(data[start : start + size].decode())
    elif kind == _OPAQUE:
        size, start = _length(data, at + 1)
        yield _opaque(data[at], data[start : start + size])
    else:
        msg = f"the binary JSON has a value of type {kind}"
        raise ValueError(msg)


def _container(kind: int, data: bytes, at: int, depth: int) -> Iterator[str]:
    is_large, is_object = kind in (_LARGE_OBJECT, _LARGE_ARRAY), kind <= _LARGE_OBJECT
    width = 4 if is_large else 2

    def number(place: int) -> int:
        return int.from_bytes(data[place : place + width], "little")

    count = number(at)
    keys = at + 2 * width
    values = keys + count * (width + 2) if is_object else keys
    inline = _INLINE_LARGE if is_large else _INLINE
    separator = "{" if is_object else "["
    if not count:
        yield separator
    for index in range(count):
        yield separator
        separator = ", "
        if is_object:
            key = keys + index * (width + 2)
            start = at + number(key)
            size = int.from_bytes(data[key + width : key + width + 2], "little")
            yield _quoted(data[start : start + size].decode()) + ": "
        entry = values + index * (width + 1)
        yield from _value(data[entry], data, entry + 1 if data[entry] in inline else at + number(entry + 1), depth + 1)
    yield "}" if is_object else "]"


def _length(data: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return size, at
        shift += 7


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT.get(character) or f"\\u{ord(character):04x}"


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


_MOST_POINT = 15
"""The most places by which the server moves the decimal point before it writes an exponent."""


def double_text(value: float) -> str:
    """Return a number as MySQL prints it: with the fewest digits that give the value.

    Examples:
        >>> [double_text(value) for value in (1.0, 1e-7, 1e15, -1.5e-20)]
        ['1.0', '0.0000001', '1e15', '-1.5e-20']
    """
    text = repr(value)
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    leading = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    digits = (whole + fraction).strip("0")
    if not digits:
        return f"{sign}0.0"
    point = len(whole) - leading + int(exponent or 0)
    if -_MOST_POINT < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if 0 < point <= max(_MOST_POINT, len(digits) - 1):
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}e{point - 1}"


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        return decimal_text(data[2:], data[0], data[1])
    if kind in (_DATE, _TIME, *_MOMENTS):
        packed = int.from_bytes(data[:8], "little", signed=True)
        return f'"{(_time if kind == _TIME else _date if kind == _DATE else _moment)(packed)}"'
    return f'"base64:type{kind}:{b64encode(data).decode("ascii")}"'


def _date(packed: int) -> str:
    days = packed >> 41
    months = days >> 5
    return f"{months // 13:04d}-{months % 13:02d}-{days & 31:02d}"


def _clock(packed: int) -> str:
    whole = packed >> 24
    return f"{whole >> 12 & 0x1F:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{packed & 0xFFFFFF:06d}"


def _moment(packed: int) -> str:
    return f"{_date(packed)} {_clock(packed)}"


def _time(packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    whole = packed >> 24
    return f"{sign}{whole >> 12 & 0x3FF:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{packed & 0xFFFFFF:06d}"
