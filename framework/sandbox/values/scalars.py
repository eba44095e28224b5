"""Numbers, booleans, texts and binary values of tests in the types of Spark."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    VarcharType,
)

from framework.sandbox.values.misfits import MisfitError, wrong_type
from framework.sandbox.values.text_tables import TextCell

_BITS: Mapping[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)|nan", re.IGNORECASE)
_EXACT = Context(prec=200)
_TRUE, _FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}
_HEX = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})*)|[xX]'((?:[0-9a-fA-F]{2})*)'")


def _integer(value: Any, data_type: Any) -> int:
    bits = _BITS[type(data_type)]
    if isinstance(value, TextCell):
        if not _INTEGER.fullmatch(value):
            raise MisfitError(value, "it is not a whole number.")
        found = int(value)
    elif _is_whole(value):
        found = int(value)
    else:
        raise wrong_type(value, "a whole number")
    if not -(2 ** (bits - 1)) <= found < 2 ** (bits - 1):
        raise MisfitError(value, f"it is out of the range of {bits} bits.")
    return found


def _is_whole(value: Any) -> bool:
    if isinstance(value, float | Decimal):
        return math.isfinite(value) and value == int(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _double(value: Any, _: Any) -> float:
    if isinstance(value, TextCell):
        if not _NUMBER.fullmatch(value):
            raise MisfitError(value, "it is not a number.")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise wrong_type(value, "a number")
    found = math.inf if isinstance(value, int) and abs(value) >= 2**1023 else float(value)
    if isinstance(value, int) and (math.isinf(found) or int(found) != value):
        raise MisfitError(value, "a double has 53 bits for the digits of a whole number.")
    return found


def _float(value: object, data_type: Any) -> float:
    found = _double(value, data_type)
    try:
        return float(struct.unpack("<f", struct.pack("<f", found))[0])
    except OverflowError:
        raise MisfitError(value, "it is out of the range of a float.") from None


def _decimal(value: object, data_type: Any) -> Decimal:
    precision, scale = data_type.precision, data_type.scale
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise wrong_type(value, "a number")
    try:
        found = Decimal(repr(float(value)) if isinstance(value, float) else value)
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite():
        raise MisfitError(value, "it is not a decimal number.")
    sign, digits, exponent = found.normalize(_EXACT).as_tuple()
    assert isinstance(exponent, int)  # it is finite
    if -exponent > scale:
        raise MisfitError(value, f"it has {-exponent} digits after the point, not at most {scale}.")
    if any(digits) and len(digits) + exponent > precision - scale:
        raise MisfitError(
            value, f"it has {len(digits) + exponent} digits before the point, not at most {precision - scale}."
        )
    number = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return Decimal((sign if number else 0, tuple(map(int, str(number))), -scale))


def _boolean(value: object, _: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, TextCell):
        text = value.lower()
        if text in _TRUE | _FALSE:
            return text in _TRUE
        raise MisfitError(value, "it is neither true nor false.")
    raise wrong_type(value, "true or false")


def _text(value: object, data_type: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "a text")
    length = getattr(data_type, "length", None)
    if length is not None and len(value) > length:
        raise MisfitError(value, f"it has {len(value)} characters, not at most {length}.")
    return str(value)


def _binary(value: object, _: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise wrong_type(value, "a binary value")
    hexadecimal = _HEX.fullmatch(value)
    return value.encode() if hexadecimal is None else bytes.fromhex(hexadecimal[1] or hexadecimal[2] or "")


SCALARS: Mapping[type[DataType], Callable[[object, Any], object]] = {
    **dict.fromkeys(_BITS, _integer),
    DoubleType: _double,
    FloatType: _float,
    DecimalType: _decimal,
    BooleanType: _boolean,
    **dict.fromkeys((StringType, VarcharType, CharType), _text),
    BinaryType: _binary,
}
"""How a value is converted to each type; a misfit is a `MisfitError`."""
